"""Panels of a profiler report: its timeline, and kernels under the roofs of their device."""

from __future__ import annotations

import streamlit as st

from app.charts import kernels as kernel_charts
from app.charts import timeline as charts
from app.dashboard import export
from app.measuring import comparison
from profilers import Report, roofline
from profilers.chrome_trace import chrome_trace, file_stem


def _roofs(report: Report) -> tuple[float | None, dict[str, float]]:
    """Bandwidth [bytes/s] and peaks [FLOP/s] by the datasheet, else as the counters state them."""
    system, stated = comparison.system_of(report), roofline.roofs(report)
    if system:
        return system.memory_bytes_per_s, dict(system.peak_flops_per_s)
    if stated:
        return stated.bytes_per_s, {"fp32": stated.flops_per_s}
    return next((d.memory_bytes_per_s for d in report.devices if d.memory_bytes_per_s), None), {}


def show_timeline(report: Report) -> None:
    """Draw the activity of the streams over time, and a button that saves it as a trace."""
    activity = charts.activity_bars(report.kernels, report.copies)
    ranges = charts.range_bars(report.ranges)
    if not len(activity):
        st.info("This report is a summary: it says how long kernels took and not when.")
        return
    shown = charts.timeline(activity, ranges, export.look())
    export.chart(shown, "timeline", "What each stream of the device did when")
    merged = int(activity["events"].sum())
    with st.container(horizontal=True, vertical_alignment="center"):
        st.download_button(
            "Open in Perfetto", lambda: chrome_trace(report),
            f"{file_stem(report)}.perfetto.json", "application/json",
            on_click="ignore", key="perfetto", icon=":material/open_in_new:",
            help="Saves a trace; drop it on ui.perfetto.dev or chrome://tracing.",
        )  # fmt: skip
        st.caption(f"{merged:,} events in {len(activity):,} bars")


def show_counters(report: Report) -> None:
    """Draw the kernels with hardware counters: under the roofs, and as shares of peak."""
    points = roofline.roofline(report)
    if len(points):
        rate, peaks = _roofs(report)
        figure = kernel_charts.counter_roofline(points, rate, peaks, export.look())
        export.chart(figure, "counter-roofline", "Kernels under the roofs of their device")
        if points["at_least"].any():
            st.caption(
                "A ring counts the CUDA cores alone: its counters leave out what tensor cores did."
            )
    counted = report.kernels.dropna(subset=["compute_pct", "dram_pct"], how="all")
    if len(counted):
        light = kernel_charts.speed_of_light(counted, export.look())
        export.chart(light, "speed-of-light", "Share of peak that each kernel sustains")
    if not (len(points) or len(counted)):
        st.info("No kernel here has hardware counters; `ncu --set roofline` takes them.")

"""Panels of a profiler report: operators and kernels under the roofs of their device."""

from __future__ import annotations

from math import nan
from typing import Any

import pandas as pd
import streamlit as st

from app.charts import kernels as kernel_charts
from app.dashboard import export
from app.dashboard.widgets import draw_table
from app.measuring import comparison
from app.wording import quantities
from app.wording.quantities import GIGABYTE, MICROSECOND
from genz_core.common.cells import spreadsheet_cell
from profilers import Report
from profilers.operators import roofline
from profilers.operators.operator_rates import operator_rates, share_of_roof

TERA = 1e12


def _roofs(report: Report) -> tuple[float | None, dict[str, float]]:
    """Bandwidth [bytes/s] and peaks [FLOP/s] by the datasheet, otherwise by the counters."""
    system, stated = comparison.system_of(report), roofline.roofs(report)
    if system:
        return system.memory_bytes_per_s, dict(system.peak_flops_per_s)
    if stated:
        return stated.bytes_per_s, {"fp32": stated.flops_per_s}
    return next((d.memory_bytes_per_s for d in report.devices if d.memory_bytes_per_s), None), {}


def show_operators(report: Report) -> None:
    """Draw the rates of operators by shape: under the roofs of the device, and as a table."""
    rates = operator_rates(report)
    if not len(rates):
        st.info(
            "No kernel here names the shapes of its operands; a PyTorch trace taken with "
            "`record_shapes=True` does, or NVTX ranges of `emit_nvtx(record_shapes=True)`."
        )
        return
    rate, peaks = _roofs(report)
    rates["of_roof"] = share_of_roof(rates, rate, peaks)
    points = rates[(rates["flops_per_s"] > 0) & (rates["bytes_per_s"] > 0)]
    if len(points):
        used = {name: peak for name, peak in peaks.items() if name in set(points["format"])}
        labels = points["operator"] + " " + points["shape"]
        points = points.assign(name=labels, at_least=False, compute_pct=nan, dram_pct=nan)
        figure = kernel_charts.counter_roofline(
            points, rate, used or peaks, export.look(), "operands"
        )
        export.chart(figure, "operator-roofline", "Operators under the roofs of their device")
    show_rates(rates)
    covered = float(rates["time_s"].sum()) / max(float(report.kernels["duration_s"].sum()), 1e-300)
    st.caption(
        f"Operators whose shapes are known: {quantities.percent(covered)} of kernel time. Bytes "
        "are those of operands and results; what stays in a cache can pass the roof."
    )


def show_rates(rates: pd.DataFrame) -> None:
    """Draw the table of operators by shape."""
    shown = pd.DataFrame(
        {
            "operator": rates["operator"].map(spreadsheet_cell),
            "shape": rates["shape"],
            "format": rates["format"],
            "calls": rates["count"],
            "time [µs]": rates["time_s"] / MICROSECOND,
            "mean [µs]": rates["mean_s"] / MICROSECOND,
            "TFLOP/s": rates["flops_per_s"] / TERA,
            "GB/s": rates["bytes_per_s"] / GIGABYTE,
            "FLOP/byte": rates["flops_per_byte"],
            "of roof": rates["of_roof"],
        }
    )
    number, bar = st.column_config.NumberColumn, st.column_config.ProgressColumn
    formats = {"time [µs]": "%.1f", "mean [µs]": "%.2f", "TFLOP/s": "%.1f", "GB/s": "%.0f",
               "FLOP/byte": "%.1f"}  # fmt: skip
    config: dict[str, Any] = {name: number(format=form) for name, form in formats.items()}
    config["of roof"] = bar(
        format="percent", min_value=0, max_value=1,
        help="Time at the roofline, the slower of arithmetic and memory, over the time taken",
    )  # fmt: skip
    draw_table(shown, "rates_table", height=430, column_config=config)


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

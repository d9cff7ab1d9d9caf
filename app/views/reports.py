"""Profiler reports: what ran, when, and where the time went; two reports beside each other."""

import streamlit as st

from app import exports, reports, text, uploads
from app.charts import kernels as kernel_charts
from app.charts import timeline
from profilers import Report, roofline, summarise

NONE = "–"
SECONDS = st.column_config.NumberColumn(format="%.4g")


def nanoseconds(value: float | None) -> str:
    return NONE if value is None else text.seconds(value * 1e-9)


def share(value: float | None) -> str:
    return NONE if value is None else text.percent(value)


def cards(figures: dict) -> None:
    busy, span = figures["busy_time_ns"], figures["span_ns"]
    top = figures["top_kernel"]
    values = {
        "Kernel launches": text.count(figures["kernel_count"]),
        "Kernel time": nanoseconds(figures["kernel_time_ns"]),
        "Device busy": nanoseconds(busy),
        "Idle": share(figures["idle_time_ns"] / span if span else None),
        "Launch delay": nanoseconds(figures["launch_delay_ns"]),
        "Not tied to an operator": share(figures["unattributed_share"]),
    }
    with st.grid(6, min_column_width=140):
        for name, value in values.items():
            st.metric(name, value, border=True)
    devices = ", ".join(filter(None, figures["devices"])) or "device not named"
    version = figures["tool_version"] or "version not stated"
    st.caption(f"{figures['format']} · {version} · {devices}")
    if top:
        where = f"{text.seconds(top['time_ns'] * 1e-9)} in {top['count']:,} launches"
        st.markdown(f"Longest kernel: {where}")
        st.code(top["name"][:300], None, wrap_lines=True)
    for note in figures["notes"]:
        st.caption(f"Note: {note}")


def one(name: str, report: Report) -> None:
    look = exports.look()
    cards(summarise(report))
    seconds = report.kernels.groupby(
        report.kernels["operator_class"].astype(object).map(kernel_charts.engine_class)
    )["duration_s"].sum()
    classes = kernel_charts.by_class({report.label[:24]: seconds.to_dict()}, "", look)
    exports.chart(classes, "report-classes", "Kernel time by operator class")
    time, kernels, roof, tree = st.tabs(
        ["Timeline", "Kernels", "Roofline", "Ranges"], on_change="rerun", key="report_tabs"
    )
    if time.open:
        with time:
            draw_timeline(report)
    if kernels.open:
        with kernels:
            table = reports.kernels_table(report.kernels)
            st.dataframe(
                table, hide_index=True, key="kernels_table", height=430,
                column_config={
                    "share": st.column_config.ProgressColumn(
                        "share", format="percent", min_value=0, max_value=1
                    ),
                    "time_s": SECONDS, "mean_s": SECONDS,
                },
            )  # fmt: skip
    if roof.open:
        with roof:
            draw_roofline(report)
    if tree.open:
        with tree:
            ranges = reports.ranges_table(report)
            if not len(ranges):
                st.info("This report has no ranges around its kernels.")
            else:
                ranges["name"] = ["\u2003" * d + n for d, n in ranges[["depth", "name"]].to_numpy()]
                st.dataframe(ranges.drop(columns=["path", "depth"]), hide_index=True, height=430)


def roofs(report: Report) -> tuple[float | None, dict[str, float]]:
    """Memory bandwidth and peaks: of the datasheet, else as the counters state them."""
    system, stated = reports.system_of(report), roofline.roofs(report)
    if system:
        return system.memory_bytes_per_s, dict(system.peak_flops_per_s)
    if stated:
        return stated.bytes_per_s, {"fp32": stated.flops_per_s}
    return next((d.memory_bytes_per_s for d in report.devices if d.memory_bytes_per_s), None), {}


def draw_timeline(report: Report) -> None:
    activity = timeline.bars(report.kernels, report.copies)
    ranges = timeline.range_bars(report.ranges)
    if not len(activity):
        st.info("This report is a summary: it says how long kernels took and not when.")
        return
    shown = timeline.timeline(activity, ranges, exports.look())
    exports.chart(shown, "timeline", "What each stream of the device did when")
    merged = int(activity["events"].sum())
    with st.container(horizontal=True, vertical_alignment="center"):
        st.download_button(
            "Open in Perfetto", lambda: reports.chrome_trace(report),
            f"{reports.file_stem(report)}.perfetto.json", "application/json",
            on_click="ignore", key="perfetto", icon=":material/open_in_new:",
            help="Saves a trace; drop it on ui.perfetto.dev or chrome://tracing.",
        )  # fmt: skip
        st.caption(f"{merged:,} events in {len(activity):,} bars")


def draw_roofline(report: Report) -> None:
    points = roofline.roofline(report)
    if len(points):
        rate, peaks = roofs(report)
        figure = kernel_charts.counter_roofline(points, rate, peaks, exports.look())
        exports.chart(figure, "counter-roofline", "Kernels under the roofs of their device")
        if points["at_least"].any():
            st.caption(
                "A ring counts the CUDA cores alone: its counters leave out what tensor cores did."
            )
    counted = report.kernels.dropna(subset=["compute_pct", "dram_pct"], how="all")
    if len(counted):
        light = kernel_charts.speed_of_light(counted, exports.look())
        exports.chart(light, "speed-of-light", "Share of peak that each kernel sustains")
    if not (len(points) or len(counted)):
        st.info("No kernel here has hardware counters; `ncu --set roofline` takes them.")


st.title("Reports", anchor=False)
st.caption("Nothing of a report leaves this server, and nothing of its host is kept.")
uploads.patterns()
found = uploads.picker("report")
if not found:
    st.info("Upload a report, or try a sample.", icon=":material/upload_file:")
    st.stop()
name = st.selectbox("Report", list(found), key="report_shown") if len(found) > 1 else next(
    iter(found)
)  # fmt: skip
one(name, found[name])
others = [other for other in found if other != name]
if others:
    st.subheader("Difference", anchor=False)
    before = st.selectbox("Against", others, key="report_before")
    table = reports.difference(found[before], found[name])
    change = float(table["change_s"].sum())
    st.markdown(
        f"Kernel time changes by **{text.seconds(abs(change))}** "
        f"{'less' if change < 0 else 'more'} than in {before}."
    )
    st.dataframe(
        table, hide_index=True, height=360,
        column_config={c: SECONDS for c in ("before_s", "after_s", "change_s")},
    )  # fmt: skip

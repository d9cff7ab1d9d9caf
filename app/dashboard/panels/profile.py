"""Kernels, timeline, roofline and ranges of a report; two reports compared."""

from __future__ import annotations

from typing import Any

import pandas as pd
import streamlit as st

from app.charts import kernels as kernel_charts
from app.charts.ranks import rank_bars
from app.dashboard import display_tables, export, report_uploads
from app.dashboard.panels.identity import show_identity, to_sidebar
from app.dashboard.panels.report import show_counters, show_operators
from app.dashboard.panels.sums import show_sums
from app.dashboard.panels.timeline import show_timeline
from app.dashboard.widgets import draw_table, draw_tabs
from app.measuring.summary_document import checks_of, identity_of
from app.wording import quantities
from app.wording.markdown import chart_text, plain
from profilers import Report, summarise
from profilers.ranks import RankComparison, compare_ranks
from profilers.report_tables import difference, kernels_table, ranges_table

NONE = "–"


def seconds(value: float | None) -> str:
    """A time in words, a dash for None."""
    return NONE if value is None else quantities.seconds(value)


def share(value: float | None) -> str:
    """A share in percent, a dash for None."""
    return NONE if value is None else quantities.percent(value)


def cards(figures: dict) -> None:
    """Draw the figures of `profilers.summarise` as cards, the longest kernel and the notes."""
    top = figures["top_kernel"]
    values = {
        "Kernel launches": quantities.count(figures["kernel_count"]),
        "Kernel time": seconds(figures["kernel_time_s"]),
        "Device busy": seconds(figures["busy_time_s"]),
        "Idle": share(figures["idle_share"]),
        "Launch delay": seconds(figures["launch_delay_s"]),
        "Not tied to an operator": share(figures["unattributed_share"]),
    }
    with st.grid(6, min_column_width=140):
        for name, value in values.items():
            st.metric(name, value, border=True)
    devices = ", ".join(filter(None, figures["devices"])) or "device not named"
    version = figures["tool_version"] or "version not stated"
    st.caption(plain(f"{figures['format']} · {version} · {devices}"))
    if top:
        where = f"{quantities.seconds(top['time_s'])} in {top['count']:,} launches"
        st.markdown(f"Longest kernel: {where}")
        st.code(top["name"][:300], None, wrap_lines=True)
    for note in figures["notes"]:
        st.caption(f"Note: {plain(note)}")


def show_table(table: pd.DataFrame, key: str) -> None:
    """Draw a table of times in microseconds."""
    shown = display_tables.in_microseconds(table)
    number, bar = st.column_config.NumberColumn, st.column_config.ProgressColumn
    config: dict[str, Any] = {c: number(format="%.1f") for c in shown if "[µs]" in c}
    config["share"] = bar(format="percent", min_value=0, max_value=1)
    draw_table(shown, key, height=430, column_config=config)


def show_report(report: Report) -> None:
    """Draw the cards, the kernel classes and the tabs of a report."""
    look = export.look()
    if report.truncated:
        st.warning(plain(report.truncated), icon=":material/content_cut:")
    cards(summarise(report))
    show_identity(identity_of(report), "report_identity", to_sidebar)
    show_sums(checks_of(report))
    time_s = report.kernels.groupby(
        report.kernels["operator_class"].astype(object).map(kernel_charts.engine_class)
    )["duration_s"].sum()
    title = "Kernel time by operator class"
    bars = {chart_text(report.label[:24]): time_s.to_dict()}
    classes = kernel_charts.time_by_class(bars, title, look)
    export.chart(classes, "report-classes", title)
    tabs = {
        "Timeline": lambda: show_timeline(report),
        "Kernels": lambda: show_table(kernels_table(report.kernels), key="kernels_table"),
        "Operators": lambda: show_operators(report),
        "Roofline": lambda: show_counters(report),
        "Ranges": lambda: show_ranges(report),
    }
    draw_tabs(tabs, "report_tabs", on_change="rerun")


def show_ranges(report: Report) -> None:
    """Draw the table of a report's ranges."""
    ranges = ranges_table(report)
    if not len(ranges):
        st.info("This report has no ranges around its kernels.")
        return
    ranges["name"] = ["\u2003" * d + n for d, n in ranges[["depth", "name"]].to_numpy()]
    show_table(ranges.drop(columns=["path", "depth"]), key="ranges_table")


def show_ranks(compared: RankComparison) -> None:
    """Draw the ranks of a run beside each other."""
    st.subheader(f"{len(compared.rows)} ranks", anchor=False)
    for sentence in compared.sentences:
        st.markdown(plain(sentence))
    figure = rank_bars(compared.rows, export.look())
    export.chart(figure, "ranks", "What each rank does of its span")
    shown = display_tables.in_microseconds(
        compared.rows.drop(columns="report"), quantities.MILLISECOND, "ms"
    )
    number, bar = st.column_config.NumberColumn, st.column_config.ProgressColumn
    config: dict[str, Any] = {c: number(format="%.3f") for c in shown if "[ms]" in c}
    for name in ("overlap share", "last share"):
        config[name] = bar(format="percent", min_value=0, max_value=1)
    draw_table(shown, "ranks_table", height="auto", column_config=config)
    st.caption(
        "Exposed: communication while no other kernel runs. Waiting: how much longer collectives "
        "last than on the rank that came last. Copies and sets count as idle."
    )


def profile_panel() -> None:
    """Draw the box of reports and what stands in the chosen one."""
    st.caption("Nothing of a report leaves this server, and nothing of its host is kept.")
    report_uploads.pattern_box()
    reports = report_uploads.picker("report")
    if not reports:
        st.info("Upload a report, or try a sample.", icon=":material/upload_file:")
        st.stop()
    compared = compare_ranks(list(reports.values()), list(reports))
    if compared is not None:
        show_ranks(compared)
    name = st.selectbox("Report", list(reports), key="report_shown") if len(reports) > 1 else next(
        iter(reports)
    )  # fmt: skip
    show_report(reports[name])
    others = [other for other in reports if other != name]
    if others:
        st.subheader("Difference", anchor=False)
        before = st.selectbox("Against", others, key="report_before")
        table = difference(reports[before], reports[name])
        change = float(table["change_s"].sum())
        st.markdown(
            f"Kernel time changes by **{quantities.seconds(abs(change))}** "
            f"{'less' if change < 0 else 'more'} than in {plain(before)}."
        )
        show_table(table, key="difference")

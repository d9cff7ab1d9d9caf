"""Kernels, timeline, roofline and ranges of a report; two reports compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd
import streamlit as st

from app.charts import kernels as kernel_charts
from app.dashboard import display_tables, export
from app.dashboard.panels.beside_prediction import beside_prediction_panel
from app.dashboard.panels.compared_run import IDLE, comparison_of, report_pricing, show_findings
from app.dashboard.panels.report import show_counters, show_operators
from app.dashboard.panels.run_facts import show_identity, show_sums, to_sidebar
from app.dashboard.panels.timeline import look_at_gap, look_at_kernel, show_timeline
from app.dashboard.widgets import draw_table, one_of
from app.measuring.summary_document import checks_of, identity_of
from app.wording import quantities
from app.wording.markdown import chart_text, plain
from genz_core.errors import RidgelineError
from profilers import Report, summarise
from profilers.comparison.findings import Finding
from profilers.comparison.report_tables import difference, kernels_table, ranges_table
from profilers.timeline.ranks import RankComparison, compare_ranks

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
        "Of no operator": share(figures["unattributed_share"]),
    }
    help_of = {"Of no operator": "Kernel time that the report assigns to no operator."}
    with st.grid(6, min_column_width=140):
        for name, value in values.items():
            st.metric(name, value, border=True, help=help_of.get(name))
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


def where_time_goes(report: Report, reports: Mapping[str, Report]) -> None:
    """Draw what ran, then the findings in ms beside the timeline, which a finding moves.

    report: the selected one.  reports: all of the run, which are priced together.
    """
    if report.truncated:
        st.warning(plain(report.truncated), icon=":material/content_cut:")
    of_identity, of_sums = st.columns(2, gap="medium")
    left, right = st.columns([2, 3], gap="medium")
    with left:
        st.subheader("Findings", anchor=False)
        findings = st.container()
        priced, comparison = None, None
        try:
            priced = report_pricing(list(reports.values()))
            comparison = comparison_of(priced)
        except RidgelineError as error:
            st.caption(f"Not compared with a prediction: {plain(error)}")
        show_classes(report)
    if priced and comparison:
        with findings:
            show_findings(priced, comparison, lambda finding: look_at(report, finding))
    with of_identity:
        facts = priced.identity if priced else identity_of(report)
        show_identity(facts, "report_identity", to_sidebar)
    with of_sums:
        show_sums(comparison.checks if comparison else checks_of(report))
    with right:
        show_timeline(report)
    ranks = compare_ranks(list(reports.values()), list(reports))
    if ranks is not None:
        show_ranks(ranks)
    cards(summarise(report))


def look_at(report: Report, finding: Finding) -> None:
    """Move the timeline to the longest launch or gap that a finding is about; a callback."""
    if finding.kind in IDLE:
        look_at_gap(report)
    else:
        look_at_kernel(report, finding.kernels)


def show_classes(report: Report) -> None:
    """Draw the kernel time of a report by operator class."""
    time_s = report.kernels.groupby(
        report.kernels["operator_class"].astype(object).map(kernel_charts.engine_class)
    )["duration_s"].sum()
    title = "Kernel time by operator class"
    bars = {chart_text(report.label[:24]): time_s.to_dict()}
    export.chart(kernel_charts.time_by_class(bars, title, export.look()), "report-classes", title)


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
    figure = kernel_charts.rank_bars(compared.rows, export.look())
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


def show_difference(report: Report, others: Mapping[str, Report]) -> None:
    """Draw the kernels by their change from another report, chosen by name."""
    before = st.selectbox("Against", list(others), key="report_before")
    table = difference(others[before], report)
    change = float(table["change_s"].sum())
    st.markdown(
        f"Kernel time changes by **{quantities.seconds(abs(change))}** "
        f"{'less' if change < 0 else 'more'} than in {plain(before)}."
    )
    show_table(table, key="difference")


def parts_of(reports: Mapping[str, Report]) -> dict[str, Callable[[], None]]:
    """The parts of page Upload for reports, by title, in their order.

    Each draws a choice of the report if there are several.
    """

    def of_one(draw: Callable[[Report], None]) -> Callable[[], None]:
        return lambda: draw(_chosen(reports)[1])

    def against_others() -> None:
        name, report = _chosen(reports)
        show_difference(report, {k: one for k, one in reports.items() if k != name})

    run = list(reports.values())
    return {
        "Where the time goes": of_one(lambda report: where_time_goes(report, reports)),
        "Beside its prediction": lambda: beside_prediction_panel(lambda: report_pricing(run)),
        "Kernels": of_one(lambda one: show_table(kernels_table(one.kernels), "kernels_table")),
        "Operators": of_one(show_operators),
        "Roofline": of_one(show_counters),
        "Ranges": of_one(show_ranges),
        **({"Difference": against_others} if len(reports) > 1 else {}),
    }


def _chosen(reports: Mapping[str, Report]) -> tuple[str, Report]:
    """Draw the choice of a report, if there are several; returns it with its name."""
    return one_of("Report", list(reports.items()), lambda one: one[0], "report_shown")

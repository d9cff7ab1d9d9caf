"""Kernels, timeline, operators, roofline and ranges of a report; two reports compared."""

from collections.abc import Callable, Mapping
from math import nan

import pandas as pd
import streamlit as st

from app.answers.column import in_words
from app.charts import kernels as kernel_charts
from app.dashboard import display_tables, export
from app.dashboard.page_texts import page_text
from app.dashboard.panels.beside_prediction import TITLE, beside_prediction_panel
from app.dashboard.panels.compared_run import comparison_of, report_pricing, show_findings
from app.dashboard.panels.run_facts import show_identity, show_sums, to_sidebar
from app.dashboard.panels.timeline import look_at, show_timeline
from app.dashboard.widgets import one_of, say_each
from app.measuring.device_by_size import devices_words, system_of
from app.measuring.summary_document import checks_of, identity_of
from app.wording import quantities
from app.wording.markdown import chart_text, plain, with_code
from app.wording.quantities import GIGABYTE, TERA
from genz_core.common.memo import ByIdentity
from genz_core.errors import RidgelineError
from profilers import Comparison, Report, summarise
from profilers.comparison.report_tables import difference, kernels_table, ranges_table
from profilers.operators import roofline
from profilers.operators.operator_rates import operator_rates, share_of_roof
from profilers.timeline.ranks import RankComparison, compare_ranks

_SUMMARIES = ByIdentity[dict](4)


def cards(figures: dict) -> None:
    """Draw the figures of `profilers.summarise` as cards, the longest kernel and the notes."""
    top = figures["top_kernel"]
    values = {
        "Kernel launches": quantities.count(figures["kernel_count"]),
        "Kernel time": in_words(figures["kernel_time_s"], "s"),
        "Device busy": in_words(figures["busy_time_s"], "s"),
        "Idle": in_words(figures["idle_share"], "share"),
        "Launch delay": in_words(figures["launch_delay_s"], "s"),
        "Without an operator": in_words(figures["unattributed_share"], "share"),
    }
    help_of = {"Without an operator": "Kernel time that the report does not assign to an operator."}
    with st.grid(6, min_column_width=140):
        for name, value in values.items():
            st.metric(name, value, border=True, help=help_of.get(name))
    devices = devices_words(figures["devices"])
    version = figures["tool_version"] or "version not stated"
    st.caption(plain(f"{figures['format']} · {version} · {devices}"))
    if top:
        launches = "1 launch" if top["count"] == 1 else f"{top['count']:,} launches"
        st.markdown(f"Longest kernel: {quantities.seconds(top['time_s'])} in {launches}")
        st.code(top["name"][:300], None, wrap_lines=True)
    say_each(figures["notes"], st.caption, "Note: {}")


def show_table(table: pd.DataFrame, key: str) -> None:
    """Draw a table of times in microseconds."""
    high = min(430, display_tables.height(table))
    display_tables.draw_times(table, key, height=high)


def where_time_goes(report: Report, reports: Mapping[str, Report]) -> None:
    """Draw what ran, then the findings in ms beside the timeline, which a finding moves.

    report: the selected one.  reports: all of the run, which are priced together.
    """
    if report.truncated:
        st.warning(plain(report.truncated), icon=":material/content_cut:")
    of_identity, of_sums = st.columns(2, gap="medium")
    left, right = st.columns([2, 3], gap="medium")
    with left:
        findings = st.container()
        priced, comparison = None, None
        try:
            priced = report_pricing(list(reports.values()))
            comparison = comparison_of(priced)
        except RidgelineError as error:
            st.caption(f"Not compared with a prediction: {with_code(error)}")
        matched = comparison if priced and not priced.apart else None
        show_classes(report, matched)
    if priced and comparison:
        with findings:
            st.subheader("Findings", anchor=False)
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
    cards(_SUMMARIES.get(lambda: summarise(report), report))


def show_classes(report: Report, matched: Comparison | None) -> None:
    """Draw kernel time by operator class: that of a step, as the findings count it, or that of the
    whole report by the names of its kernels.

    matched: the kernels matched with the operators that ran; None where that is not known.
    """
    if matched is not None:
        rows = matched.classes[matched.classes["class"] != "host"]
        bars = {
            phase: dict(zip(of["class"], of["measured_s"], strict=True))
            for phase, of in rows.groupby("phase", sort=False)
        }
        title = "Kernel time of a step by operator class"
    else:
        kinds = report.kernels["operator_class"].astype(object).map(kernel_charts.engine_class)
        time_s = report.kernels.groupby(kinds)["duration_s"].sum()
        bars = {chart_text(report.label[:24]): time_s.to_dict()}
        title = "Kernel time of the report by operator class"
    if any(seconds > 0.0 for of in bars.values() for seconds in of.values()):
        figure = kernel_charts.time_by_class(bars, title, export.look())
        export.chart(figure, "report-classes")


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
    say_each(compared.sentences)
    export.chart(kernel_charts.rank_bars(compared.rows, export.look()), "ranks")
    ranks = compared.rows.drop(columns="report")
    display_tables.draw_times(ranks, "ranks_table", "ms", height="auto")
    st.caption(page_text("ranks"))


def _roofs(report: Report) -> tuple[float | None, dict[str, float]]:
    """Bandwidth [bytes/s] and peaks [FLOP/s] by the datasheet, otherwise by the counters."""
    system, stated = system_of(report), roofline.roofs(report)
    if system:
        return system.memory_bytes_per_s, dict(system.peak_flops_per_s)
    if stated:
        return stated.bytes_per_s, {"fp32": stated.flops_per_s}
    return next((d.memory_bytes_per_s for d in report.devices if d.memory_bytes_per_s), None), {}


def show_operators(report: Report) -> None:
    """Draw the rates of operators by shape: under the roofs of the device, and as a table."""
    rates = operator_rates(report)
    if not len(rates):
        st.info(page_text("no shapes"))
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
    times = rates[["operator", "shape", "format", "count", "time_s", "mean_s"]]
    reached = pd.DataFrame(
        {
            "TFLOP/s": rates["flops_per_s"] / TERA,
            "GB/s": rates["bytes_per_s"] / GIGABYTE,
            "FLOP/byte": rates["flops_per_byte"],
            "roof share": rates["of_roof"],
        }
    )
    shown = times.join(display_tables.rounded(reached))
    display_tables.draw_times(shown, "rates_table", height=430)
    covered = float(rates["time_s"].sum()) / max(float(report.kernels["duration_s"].sum()), 1e-300)
    st.caption(page_text("operators by shape", covered=quantities.percent(covered)))


def show_counters(report: Report) -> None:
    """Draw the kernels with hardware counters: under the roofs, and as shares of peak."""
    points = roofline.roofline(report)
    if len(points):
        rate, peaks = _roofs(report)
        figure = kernel_charts.counter_roofline(points, rate, peaks, export.look())
        export.chart(figure, "counter-roofline", "Kernels under the roofs of their device")
        if points["at_least"].any():
            st.caption(page_text("kernels as rings"))
    counted = report.kernels.dropna(subset=["compute_pct", "dram_pct"], how="all")
    if len(counted):
        light = kernel_charts.speed_of_light(counted, export.look())
        export.chart(light, "speed-of-light", "Share of peak that each kernel sustains")
    if not (len(points) or len(counted)):
        st.info("This report has no hardware counters; record them with `ncu --set roofline`.")


def show_difference(reports: Mapping[str, Report]) -> None:
    """Draw the kernels of a report by their change from another one; both are chosen by name."""
    name, report = _chosen(reports)
    before = st.selectbox("Against", [k for k in reports if k != name], key="report_before")
    table = difference(reports[before], report)
    change = float(table["change_s"].sum())
    way = "less" if change < 0 else "more"
    st.markdown(page_text("kernel time", change=abs(change), way=way, before=plain(before)))
    show_table(table, key="difference")


def parts_of(reports: Mapping[str, Report]) -> dict[str, Callable[[], None]]:
    """The parts of page Upload for reports, by title, in their order.

    Each draws a choice of the report if there are several.
    """

    def of_one(draw: Callable[[Report], None]) -> Callable[[], None]:
        return lambda: draw(_chosen(reports)[1])

    run = list(reports.values())
    return {
        "Where the time goes": of_one(lambda report: where_time_goes(report, reports)),
        TITLE: lambda: beside_prediction_panel(lambda: report_pricing(run)),
        "Kernels": of_one(lambda one: show_table(kernels_table(one.kernels), "kernels_table")),
        "Operators": of_one(show_operators),
        "Roofline": of_one(show_counters),
        "Ranges": of_one(show_ranges),
        **({"Difference": lambda: show_difference(reports)} if len(reports) > 1 else {}),
    }


def _chosen(reports: Mapping[str, Report]) -> tuple[str, Report]:
    """Draw the choice of a report, if there are several; returns it with its name."""
    return one_of("Report", list(reports.items()), lambda one: one[0], "report_shown")

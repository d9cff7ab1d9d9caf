"""Panels of benchmark results: the form, the curve, the figures, replayed requests."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import pandas as pd
import streamlit as st

import hardware_db
from app.answers.columns import COLUMNS
from app.benchmarks import curve as curves
from app.benchmarks import document, findings
from app.benchmarks.comparison import Comparison, Point
from app.benchmarks.deployment import Deployment
from app.benchmarks.history import FIGURES, name_of
from app.benchmarks.replay import Replay
from app.charts import benchmarks as charts
from app.dashboard import display_tables, export, name_options, sidebar
from app.dashboard.page_texts import page_text
from app.dashboard.question_form import AUTO, PRECISIONS
from app.dashboard.widgets import draw_table, one_of, pick, say_each
from app.wording.markdown import capital, plain

_FORM_KEYS = ("model", "system", "engine", "weights", "tp", "pp", "dp", "ep", "isl", "osl")
_GIVEN = "benchmark_given"


def given() -> dict[str, Any]:
    """The visitor's statements about the results, by the names of parameters."""
    return dict(st.session_state.get(_GIVEN, {}))


def say(name: str, value: str) -> None:
    """Store a candidate of what ran as stated by the visitor."""
    st.session_state[_GIVEN] = {**given(), name: value}


def question_form(asked: Sequence[Deployment], proposed: Mapping[str, Any]) -> None:
    """Draw a form for what the files lack, and store the answers.

    Its boxes start from `proposed`, then from what the runs are priced as, or from the sidebar's
    scenario where nothing is priced yet.
    """
    missing = {one.name: one for run in asked for one in run.missing}
    needed = {one.name for run in asked for one in run.needed}
    if not missing and not given():
        return
    priced = next((run.scenario for run in asked if run.resolved), None)
    for one in missing.values():
        taken = f" Priced as: {plain(one.assumed)}." if one.assumed and priced else ""
        st.markdown(f"- {plain(capital(one.why))}.{taken}")
    names = [name for name in _FORM_KEYS if name in missing or name in given()]
    if "load" in missing or "concurrency" in given():
        names.append("concurrency")
    if "tp" in names:
        names += [name for name in ("pp", "dp", "ep") if name not in names]
    with st.form("benchmark_form"):
        with st.container(horizontal=True, vertical_alignment="bottom"):
            around = priced or sidebar.chosen_setup().scenario
            said = {
                name: _field(
                    name,
                    given().get(name) or proposed.get(name) or getattr(around, name, None),
                    missing[name].assumed if name in missing else "",
                )
                for name in names
            }
        if st.form_submit_button("Predict", icon=":material/play_arrow:"):
            st.session_state[_GIVEN] = {name: value for name, value in said.items() if value}
            st.rerun()
    if needed:
        st.caption(page_text("form of a sample") if proposed else page_text("form of a result"))


def _field(name: str, before: Any, assumed: str) -> Any:
    """A field of the form that starts from a value, else from the assumed one."""
    key, label = f"benchmark_{name}", COLUMNS[name].title
    choices: dict[str, Callable[[], Sequence[str]]] = {
        "model": name_options.shipped_models, "system": name_options.library_systems,
        "engine": hardware_db.engine_names,
        "weights": lambda: ["", *PRECISIONS],
    }  # fmt: skip
    if name not in choices:
        return st.number_input(label, 1, 10_000_000, int(before or 1), key=key, width=120)
    listed = choices[name]()
    first = str(before or (assumed if assumed in listed else listed[0]))
    if first not in listed:  # an alias, or a hub model
        listed = [first, *listed]
    return st.selectbox(
        label, listed, listed.index(first), key=key, width=260, filter_mode=name_options.FILTER,
        format_func=lambda word: word or AUTO,
    )  # fmt: skip


def show_filled(runs: Sequence[Deployment]) -> None:
    """Draw what was read from the files and where it is contradicted."""
    told = {f"{one.field} **{plain(one.value)}**: {plain(one.evidence)}": None
            for run in runs for one in run.fillings if one.field != "load"}  # fmt: skip
    if told:
        with st.expander(f"Filled from the files ({len(told)})", icon=":material/task_alt:"):
            st.markdown("\n".join(f"- {sentence}" for sentence in told))
    differ = dict.fromkeys(str(one) for run in runs for one in run.differences)
    say_each(differ, st.warning, icon=":material/report:")


#: Icons of sentences by the kind of their finding.
_MARKS = {
    "sum": ":material/report:", "bound": ":material/report:", "summary": ":material/balance:",
}  # fmt: skip


def show_findings(comparison: Comparison) -> None:
    """Draw where files break off, then the sentences of a comparison."""
    say_each(document.cuts(comparison), st.warning, icon=":material/content_cut:")
    for one in findings.findings(comparison):
        st.markdown(f"{_MARKS.get(one.kind, '-')} {plain(one.sentence)}")
    refused = dict.fromkeys(point.refusal for point in comparison.points if point.refused)
    say_each(refused, st.info, icon=":material/help:")


def show_curves(comparison: Comparison) -> None:
    """Draw measured points on the predicted curves of a deployment and its lengths."""
    found = curves.groups(comparison)
    if not found:
        return
    group, look = one_of("Curve", found, lambda one: one.label, "benchmark_group"), export.look()
    st.caption(plain(group.label))
    predicted = curves.curve(group, comparison.level)
    points = {name: curves.measured_points(group, name) for name in ("ttft", "tpot", "rate")}
    points = {name: measured for name, measured in points.items() if measured}
    best = {name: curves.best_points(group, name) for name in points}
    figures = {
        name: charts.curve(predicted, points[name], best[name], name, comparison.level, look)
        for name in points
    }
    export.grid("benchmark", figures, max(len(figures), 2), 300)
    drawn = frozenset[str]().union(
        *(charts.marks(predicted, points[n], best[n], n) for n in points)
    )
    st.caption(_legend(drawn, comparison.level))


def _legend(drawn: Collection[str], level: float) -> str:
    """What the marks of the curves mean.  drawn: as of `charts.marks`."""
    meanings = {
        "band": page_text("curve band", level=level * 100),
        "bound": page_text("curve bound"),
        "cross": page_text("curve cross"),
        "red": page_text("curve red"),
        "diamond": page_text("curve diamond"),
    }
    return " ".join(words for mark, words in meanings.items() if mark in drawn)


def show_figures(comparison: Comparison) -> None:
    """Draw every figure of a run with its prediction and simulation, and the table of all runs."""
    point = one_of("Run", comparison.points, comparison.label, "benchmark_run")
    shown = pd.DataFrame([document.short_row(row, comparison.level) for row in point.rows])
    shown = shown.dropna(axis=1, how="all").loc[:, lambda t: (t != "").any()]
    draw_table(
        shown, "benchmark_figures", height="auto",
        column_config={
            "measured / predicted": st.column_config.NumberColumn(format="%.2f"),
            f"{comparison.level * 100:g} %": st.column_config.Column(width="medium"),
        },
    )  # fmt: skip
    notes = dict.fromkeys((*document.notes_of(point), *comparison.notes))
    say_each(notes, st.caption, "Note: {}")

    def every_figure() -> str:
        return export.table_csv(export.names_first(comparison.to_dataframe()))

    with st.container(horizontal=True):
        export.save_button("All figures (CSV)", every_figure, "benchmarks.csv", key="benchmark_csv")


def show_replay(one: Replay) -> None:
    """Draw the requests of a run, measured and simulated, and where they diverge."""
    say_each(one.sentences, form="- {}")
    say_each(one.notes, st.caption, "Note: {}")
    figures = {
        name: charts.replayed(one.table, name, export.look())
        for name in ("ttft", "e2e")
        if one.table[[f"{name}_measured_s", f"{name}_simulated_s"]].notna().any().all()
    }
    export.grid("replay", figures, 2, 360)
    shown = one.table.drop(columns="request").rename(columns={"arrival_s": "arrival [s]"})
    display_tables.draw_times(shown, "replay_table", "ms", height=300)


def show_history(rows: Sequence[Mapping[str, Any]], one: Point) -> None:
    """Draw a figure of a deployment over the stored results."""
    st.caption(plain(name_of(one.deployment)))
    if not rows:
        st.info("No results of this deployment are kept yet.", icon=":material/history:")
        return
    known = [name for name in FIGURES if any(row[name] is not None for row in rows)]
    if not known:
        return
    name = pick("Figure", known, "history_figure", format_func=lambda n: COLUMNS[n].head, width=260)
    export.chart(charts.history(rows, name, export.look()), "history")
    table = pd.DataFrame(rows).drop(columns=["deployment", "when"]).dropna(axis=1, how="all")
    heads = display_tables.figure_columns(table)
    draw_table(table, "history_table", height="auto", column_config=heads)

"""The part Changing load of page Plan: replicas that follow a day or a trace, and how many last."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import streamlit as st

from app.answers.columns import COLUMNS
from app.charts import scaling as charts
from app.dashboard import export, sidebar, strip
from app.dashboard.display_tables import rows_in_words
from app.dashboard.job_progress import is_running, kept_result, start
from app.dashboard.page_texts import page_text
from app.dashboard.panels.simulation import query_of
from app.dashboard.widgets import card, draw_table, saying_errors
from app.jobs import SIMULATING
from app.question import literals
from app.question.extras import extras_of, read_extras
from app.question.parameter import Parameter
from app.scaling.capacity import with_targets
from app.scaling.job_work import enough, follow
from app.scenario.setup import Setup
from app.simulation.run import targets_in_words, targets_of
from app.wording import quantities
from app.wording.markdown import plain
from genz_core.errors import InvalidValue

JOB, RESULT = "scaling_job", "scaling_result"
#: Options in view, and collapsed ones.
_IN_VIEW = ("policy", "min_replicas", "max_replicas", "weights_from", "share", "lost")
_MORE = (
    "metric", "metric_target", "interval_s", "stabilization_s", "tolerance", "cooldown_s",
    "predictor", "startup_s", "replace_s", "mtbf_h", "open_each",
)  # fmt: skip
_VERBS = {"Follow the load": ("scale", follow), "How many replicas?": ("availability", enough)}


def page() -> None:
    """Draw the form, the job that it starts, and the result."""
    setup, _ = sidebar.deployed_setup("how many replicas there are")
    strip.say(setup.scenario, "scale")
    with saying_errors():
        targets = targets_of(with_targets(setup.scenario))
        st.caption(page_text("changing load", limits=targets_in_words(targets)))
    with st.form("scaling_form", border=False):
        given = _form()
        with st.container(horizontal=True):
            for label in _VERBS:
                if st.form_submit_button(label, disabled=is_running(JOB)):
                    _start(setup, label, given)
    if shown := kept_result(JOB, RESULT, setup):
        before, document = shown
        (_follows if "following" in document else _lasts)(document, before)


def _form() -> dict[str, str]:
    """Draw the extras; returns what was typed, by name."""
    known = {**extras_of("scale"), **extras_of("availability")}
    with st.grid(3, min_column_width=150):
        given = {name: _control(known[name]) for name in _IN_VIEW}
    more = st.expander("Autoscaler, start and losses", key="scaling_more")
    with more, st.grid(4, min_column_width=150):
        given |= {name: _control(known[name]) for name in _MORE}
    return given


def _control(one: Parameter) -> str:
    key = f"scaling_{one.name}"
    if one.choices:
        first = one.choices.index(one.default)
        return str(st.selectbox(one.title, one.choices, first, key=key, help=one.help))
    unit = f" [{one.unit}]" if one.unit else ""
    usual = "" if one.default is None else literals.text(one.default)
    return st.text_input(f"{one.title}{unit}", usual, key=key, help=one.help, max_chars=40).strip()


def _start(setup: Setup, label: str, given: Mapping[str, str]) -> None:
    verb, work = _VERBS[label]
    with saying_errors():
        known = extras_of(verb)
        extras, _ = read_extras(known, {n: v for n, v in given.items() if n in known and v})
        if setup.scenario.kind not in ("rate", "trace"):
            raise InvalidValue(
                "autoscaling needs an arrival rate or a trace instead of users, such as 4/s"
            )
        query = query_of(setup.scenario, verb)
        start(JOB, work, (setup, query, extras), label, SIMULATING)


def _say(document: Mapping[str, Any]) -> None:
    for sentence in document["sentences"]:
        note = sentence.startswith("Note: ")
        (st.caption if note else st.markdown)(plain(sentence))


def _follows(document: Mapping[str, Any], setup: Setup) -> None:
    here, fixed = document["following"], document["fixed"]
    with st.grid(4, min_column_width=150):
        both = (here, fixed)
        usd = [f"${one['usd']:,.2f}" for one in both if one["usd"] is not None]
        now, then = usd or ("–", "no price is known")
        card("Cost", now, f"{fixed['replicas']} fixed: {then}")
        now, then = (quantities.percent(one["good_share"]) for one in both)
        card("Within the targets", now, f"fixed: {then}")
        for name in ("ttft", "tpot"):
            column = COLUMNS[f"{name}_s"]
            now, then = (column.words(one[f"{name}_p99_s"]) for one in both)
            card(f"{column.head}, p99", now, f"fixed: {then}")
    look, windows, targets = export.look(), document["windows"], document["targets"]
    replicas = charts.replicas(windows, document["course"], fixed["replicas"], look)
    tails = {
        name: charts.tails(windows, name, COLUMNS[key].head, targets.get(key, 0.0), look)
        for name, key in (("ttft", "ttft_s"), ("tpot", "tpot_s"))
    }
    export.chart(replicas, "scaling-replicas")
    export.beside("scaling", tails)
    _say(document)
    draw_table(_figures_in_words(document["rows"]), "scaling_figures")
    figures = {"replicas": replicas, **tails}
    export.downloads("changing-load", figures, windows, setup)


def _figures_in_words(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Rows of one figure each, with its values in both deployments, for a reader."""
    columns = (COLUMNS[row["figure"]] for row in rows)
    return pd.DataFrame(
        {way: column.head if way == "figure" else column.words(value) for way, value in row.items()}
        for row, column in zip(rows, columns, strict=True)
    )


def _lasts(document: Mapping[str, Any], setup: Setup) -> None:
    average = document["replicas_on_average"]
    with st.grid(3, min_column_width=150):
        card("While all serve", f"{document['replicas']:,}", "replicas")
        card(f"With {document['lost']:,} lost", f"{document['replicas_with_lost']:,}", "replicas")
        card("On average over losses", "–" if average is None else f"{average:,}", "replicas")
    _say(document)
    draw_table(rows_in_words(document["rows"]), "scaling_rows")
    export.downloads("availability", {}, pd.DataFrame(document["rows"]), setup)

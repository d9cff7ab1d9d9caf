"""The operators of a step as a table whose rows are chosen, and the chosen one in detail."""

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd
import streamlit as st

from app.accuracy import worked_example
from app.charts.style import Look
from app.dashboard import display_tables
from app.dashboard.page_texts import page_text
from app.dashboard.widgets import draw_table
from app.model_inside import builder_and_trace, operator_detail
from app.scenario import intervals, operator_intervals
from app.scenario.scenario import Resolved
from app.scenario.setup import Setup
from app.scenario.summary import step_of
from app.wording import quantities
from app.wording.markdown import capital
from genz_core import Estimate
from genz_core.models.model_kinds import generates
from genz_core.types import scalar

_CHOSEN, _LAST = "operator", "operator_last"


@dataclass(frozen=True)
class Step:
    """A step that is explained.  phase: "prefill" or "decode".  chosen: row of an operator in the
    step's graph, None for none."""

    setup: Setup
    resolved: Resolved
    estimate: Estimate
    phase: str
    look: Look
    chosen: int | None = None

    @property
    def table(self) -> operator_intervals.Table:
        """The operators of the step."""
        return operator_intervals.operator_table(step_of(self.estimate, self.phase))

    @property
    def chosen_id(self) -> str:
        """The chosen operator's id in tables and charts, "" for none."""
        return "" if self.chosen is None else f"{self.phase}:{self.chosen}"


def choose(ids: Sequence[str], source: str) -> None:
    """Choose the operator that was clicked in a chart, by its id; draws the page again.

    source: the chart, whose clicks count once.
    """
    last = st.session_state.setdefault(_LAST, {})
    if list(ids) == last.get(source, []):
        return
    last[source] = list(ids)
    if ids:
        st.session_state[_CHOSEN] = ids[0]
    st.rerun()


def chosen_row(phase: str) -> int | None:
    """The row of the selected operator if it is of this phase."""
    of, _, row = str(st.session_state.get(_CHOSEN, "")).partition(":")
    return int(row) if of == phase and row.isdecimal() else None


def total(step: Step) -> str:
    """How long the step takes, and its operators, a sentence of Markdown."""
    whole = intervals.step_latency(step.estimate, step.phase)
    priced = step_of(step.estimate, step.phase)
    alone, less = float(priced.operators_s[:, 0].sum()), -float(priced.learned_s[0])
    named = f"a {step.phase} step" if generates(step.estimate.model) else "the forward pass"
    named = capital(f"if it fitted, {named}" if step.setup.if_fitted else named)
    figures = {"step": named, "whole": whole, "alone": alone}
    if alone > whole.value:
        return page_text("time of a corrected step", **figures, less=less)
    return page_text("time of a step", **figures)


def operators(step: Step) -> pd.DataFrame:
    """Draw the table of operators, the costliest first; returns it whole."""
    whole = display_tables.operator_rows(step.table, step.phase)
    at = list(whole.index[whole["id"] == step.chosen_id])
    event = draw_table(
        display_tables.rounded(whole), f"operators_{step.phase}",
        height=min(560, display_tables.height(whole)), on_select="rerun",
        selection_mode="single-row",
        selection_default={"selection": {"rows": at}} if at else None,
        placeholder=quantities.NOT_VALIDATED, column_order=display_tables.OPERATORS_SHOWN,
        column_config=display_tables.operator_columns(),
    )  # fmt: skip
    choose([str(whole["id"].iloc[row]) for row in event["selection"]["rows"]], "table")
    return whole


def detail(step: Step) -> None:
    """Draw the chosen operator, or the costliest: formula, tensors, terms of its time."""
    priced = step_of(step.estimate, step.phase)
    row = step.chosen
    if row is None or row >= len(priced.graph.ops):
        row = max(range(len(priced.graph.ops)), key=lambda at: float(priced.operators_s[at, 0]))
    op = operator_detail.mean_run(priced, row)
    st.subheader(op.name, anchor=False)
    st.caption(
        f"{op.kind} · {builder_and_trace.operator_place(op)} · {op.count:,.0f} × per step · "
        f"`{op.module or 'model'}`"
    )
    if flops := operator_detail.flops_formula(op):
        value = quantities.flops(scalar(op.flops))
        st.markdown(f"**FLOPs** of a run = {flops.symbols}  \n= {flops.numbers} = **{value}**")
        st.caption(flops.meanings)
    draw_table(operator_detail.tensor_rows(op), "operator_tensors")
    with st.expander("How its time is predicted", icon=":material/function:"):
        st.markdown(worked_example.markdown(worked_example.work_through(priced, row), step.phase))

"""What changed from one pinned scenario to another, as a waterfall of causes."""

from __future__ import annotations

from collections.abc import Mapping

import streamlit as st

from app.charts import changes
from app.charts.figure import Figure
from app.dashboard import export
from app.dashboard.widgets import choose
from app.scenario import intervals
from app.scenario.encoder_figures import phases_of
from app.scenario.summary import parts_of, step_of
from app.wording import quantities
from genz_core import Estimate

CAUSE, CLASS = "cause", "operator class"


def what_changed(estimates: Mapping[str, Estimate]) -> dict[str, Figure]:
    """Draw the choices and the waterfall of two scenarios' steps; returns the chart by name.

    estimates: two or more, by the names of the scenarios.
    """
    st.subheader("What changed", anchor=False)
    names = list(estimates)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        first = st.selectbox("From", names, 0, key="changed_from", width=90)
        second = st.selectbox("To", names, 1, key="changed_to", width=90)
        common = [p for p in ("prefill", "decode")
                  if all(p in phases_of(estimates[n].model) for n in (first, second))]  # fmt: skip
        phase = choose("Step", common, "changed_phase", default=common[-1])
        by = choose("By", (CAUSE, CLASS), "changed_by", default=CAUSE)
    steps = [step_of(estimates[name], phase) for name in (first, second)]
    if by == CAUSE:
        before, after = (parts_of(step) for step in steps)
    else:
        before, after = (
            {kind: one.seconds for kind, one in intervals.by_class(step).items()} for step in steps
        )
    totals = [sum(before.values()), sum(after.values())]
    title = f"{phase.capitalize()} step, {first} to {second} by {by}"
    stages = list(zip((first, second), totals, strict=True))
    figure = changes.bridge(stages, [changes.ordered_changes(before, after)], title, export.look())
    export.chart(figure, "what-changed", title)
    st.caption(
        f"{quantities.seconds(totals[0])} to {quantities.seconds(totals[1])} "
        f"({quantities.change(*totals)}); the bars between sum to the difference."
    )
    return {"what changed": figure}

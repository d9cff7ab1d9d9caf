"""The time of a step by cause, by operator class and by layer group."""

import streamlit as st

from app.charts import breakdown
from app.charts.figure import Figure
from app.dashboard import export
from app.dashboard.page_texts import page_text
from app.dashboard.panels.operators import Step
from app.dashboard.panels.static_answer import steps_of
from app.scenario import intervals
from app.scenario.summary import parts_of, step_of


def draw(step: Step) -> dict[str, Figure]:
    """Draw the waterfall of the step, its layer groups and the steps by class; returns them."""
    names = {phase: name for name, phase in steps_of(step.estimate).items()}
    steps = {phase: step_of(step.estimate, phase) for phase in names}
    totals = {names[phase]: intervals.step_latency(step.estimate, phase) for phase in steps}
    name = names[step.phase]
    whole, priced = totals[name], steps[step.phase]
    fall = breakdown.waterfall(parts_of(priced), whole, f"{name} by cause", step.look)
    export.chart(fall, "waterfall")
    factor = priced.learned_factor()
    learned = page_text("learned factor", factor=factor) if factor != 1.0 else ""
    st.caption(page_text("sum of a step", whole=whole, learned=learned))
    by_class = {names[phase]: intervals.by_class(one) for phase, one in steps.items()}
    classes = breakdown.time_by_class(by_class, totals, step.look)
    export.chart(classes, "classes", f"Share of {' and '.join(totals)} by operator class")
    tree = breakdown.icicle(step.table, step.resolved.model.name.rpartition("/")[2], step.look)
    export.chart(tree, "icicle", f"{name} by layer group and operator")
    return {"waterfall": fall, "classes": classes, "layer groups": tree}

"""Charts of a step on page Explain: its roofline, its time by cause, class and layer group."""

import streamlit as st

from app.charts import breakdown, roofline
from app.charts.figure import Figure
from app.dashboard import caches, export, widgets
from app.dashboard.page_texts import page_text
from app.dashboard.panels.operators import Step, choose
from app.dashboard.panels.static_answer import steps_of
from app.scenario import intervals, operator_intervals
from app.scenario.summary import parts_of, step_of
from app.wording import quantities
from genz_core.limits import short

AXES = {"batch": "batch", "input length": "isl"}
POWERS = {"batch": range(0, 11), "isl": range(7, 18)}


def draw_roofline(step: Step) -> dict[str, Figure]:
    """Draw the slider and the roofline; a click chooses an operator.  Returns the chart by name."""
    above, chart, below = st.container(), st.container(), st.container()
    with below:
        title = widgets.pick("Slider moves", list(AXES), "roofline_axis", width=150)
    with above:
        axis = AXES[title]
        now = getattr(step.setup.scenario, axis)
        values = tuple(sorted({2**power for power in POWERS[axis]} | {now}))
        widgets.follow(f"roofline_{axis}", now)
        at = st.select_slider(
            title.capitalize(), values, value=now, key=f"roofline_{axis}", bind="query-params",
            format_func=quantities.count,
        )  # fmt: skip
    sweep = step_of(caches.swept(step.setup, axis, values), step.phase)
    limits = roofline.frame([sweep], step.resolved.system)
    table = operator_intervals.operator_table(sweep, values.index(at))
    rows = list(roofline.operator_points(table, step.phase))
    figure = roofline.roofline(rows, step.resolved.system, limits, step.look)
    if step.chosen is not None:
        figure = roofline.highlighted(figure, step.chosen_id)
    alt = f"Roofline of the operators of {step.phase}"
    with chart:
        clicked = export.chart(figure, "roofline", alt, select=True)
    choose([p["customdata"][0] for p in clicked if p.get("customdata")][:1], "roofline")
    return {"roofline": figure}


def draw_breakdown(step: Step) -> dict[str, Figure]:
    """Draw the waterfall of the step, its layer groups and the steps by class; returns them."""
    names = {phase: name for name, phase in steps_of(step.estimate).items()}
    steps = {phase: step_of(step.estimate, phase) for phase in names}
    totals = {names[phase]: intervals.step_latency(step.estimate, phase) for phase in steps}
    name = names[step.phase]
    whole, priced = totals[name], steps[step.phase]
    fall = breakdown.waterfall(parts_of(priced), whole, f"{name} by cause", step.look)
    export.chart(fall, "waterfall")
    factor = short(priced.learned_factor(), 3)
    learned = page_text("learned factor", factor=factor) if factor != short(1.0, 3) else ""
    st.caption(page_text("sum of a step", whole=whole, learned=learned))
    by_class = {names[phase]: operator_intervals.by_class(one) for phase, one in steps.items()}
    classes = breakdown.time_by_class(by_class, totals, step.look)
    export.chart(classes, "classes", f"Share of {' and '.join(totals)} by operator class")
    tree = breakdown.icicle(step.table, step.resolved.model.name.rpartition("/")[2], step.look)
    export.chart(tree, "icicle", f"{name} by layer group and operator")
    return {"waterfall": fall, "classes": classes, "layer groups": tree}

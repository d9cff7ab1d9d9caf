"""Every operator under the ceilings of the device; a slider moves batch or input."""

import streamlit as st

from app.charts import roofline
from app.charts.figure import Figure
from app.dashboard import caches, export, widgets
from app.dashboard.panels.operators import Step, choose
from app.scenario import intervals
from app.scenario.summary import step_of
from app.wording import quantities

AXES = {"batch": "batch", "input length": "isl"}
POWERS = {"batch": range(0, 11), "isl": range(7, 18)}


def draw(step: Step) -> dict[str, Figure]:
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
    table = intervals.operator_table(sweep, values.index(at))
    rows = list(roofline.operator_points(table, step.phase))
    figure = roofline.roofline(rows, step.resolved.system, limits, step.look)
    if step.chosen is not None:
        figure = roofline.highlighted(figure, step.chosen_id)
    alt = f"Roofline of the operators of {step.phase}"
    with chart:
        clicked = export.chart(figure, "roofline", alt, select=True)
    choose([p["customdata"][0] for p in clicked if p.get("customdata")][:1], "roofline")
    return {"roofline": figure}

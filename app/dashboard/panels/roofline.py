"""Every operator under the ceilings of the device; a slider moves batch or input."""

from collections.abc import Mapping

import pandas as pd
import streamlit as st

from app.charts import roofline
from app.dashboard import cached, display_tables, export, sidebar
from app.dashboard.widgets import choose, draw_table
from app.scenario import intervals
from app.scenario.reading import phases_of
from app.scenario.summary import step_of
from app.wording import quantities
from app.wording.markdown import plain


def draw() -> None:
    """Draw the part."""
    setup, resolved, estimate = sidebar.runnable_setup()
    PHASES = phases_of(estimate.model)
    AXES = {"batch": "batch", "input length": "isl"}
    POWERS = {"batch": range(0, 11), "isl": range(7, 18)}
    EXPLANATION = """
**Across**: arithmetic intensity, FLOPs of an operator over the bytes it moves in memory.
**Up**: the rate it reaches, FLOPs over its predicted time, on one device.
**Roofs**: a flat line is a dense peak, the diagonal is memory bandwidth × intensity; they meet
at the ridge, peak / bandwidth. Below the ridge memory decides, beyond it arithmetic. Dotted
diagonals belong to links: read across as FLOP per byte *sent*.
**Points**: shape is the phase, colour the operator class, area the share of the phase's time.
The gap to the roof is what launch, tiles and real bandwidth cost. The bar through a point is its
80 % interval from held-out measurements of such kernels; a point without one is not validated.
A larger batch lets decode use each weight it reads more often: its matrix products move to the
right and up the diagonal, its attention stays.
"""

    def controls() -> tuple[list[str], str, tuple[int, ...], int]:
        """Draw the controls; returns phases, the slider's axis, its values, and the chosen index."""
        phases: list[str] = []
        with st.container(horizontal=True, vertical_alignment="bottom"):
            if len(PHASES) > 1:
                phases = st.segmented_control(
                    "Phases", PHASES, selection_mode="multi", default=PHASES,
                    key="roofline_phases", bind="query-params",
                )  # fmt: skip
            title = choose("Slider moves", list(AXES), "roofline_axis", default="batch")
            axis = AXES[title]
            now = getattr(setup.scenario, axis)
            values = tuple(sorted({2**power for power in POWERS[axis]} | {now}))
            follow_sidebar(f"roofline_{axis}", now)
            at = st.select_slider(
                title.capitalize(), values, value=now, key=f"roofline_{axis}", bind="query-params",
                format_func=quantities.tokens if axis == "isl" else str,
            )  # fmt: skip
        return phases or list(PHASES), axis, values, values.index(at)

    def follow_sidebar(key: str, now: int) -> None:
        """Move the slider of a key to the sidebar's value once that has changed."""
        if st.session_state.setdefault(f"{key}_was", now) != now:
            st.session_state[key] = st.session_state[f"{key}_was"] = now

    def shown_operators(tables: Mapping[str, intervals.Table], chosen: set[str]) -> pd.DataFrame:
        """The operator tables of the phases; of the operators whose ids are in `chosen`, if any."""
        rows = [display_tables.operator_rows(table, phase) for phase, table in tables.items()]
        whole = pd.concat(rows, ignore_index=True)
        return whole[whole["id"].isin(chosen)] if chosen else whole

    @st.fragment
    def picture() -> None:
        """Draw the controls, the roofline and the operator table."""
        phases, axis, values, config = controls()
        sweep = cached.swept(setup, axis, values)
        limits = roofline.frame_of_steps((step_of(sweep, p) for p in phases), resolved.system)
        tables = {p: intervals.operator_table(step_of(sweep, p), config) for p in phases}
        rows = [row for p, table in tables.items() for row in roofline.operator_points(table, p)]
        figure = roofline.roofline(rows, resolved.system, limits, export.look())
        alt = "Roofline of the operators of prefill and decode"
        clicked = export.chart(figure, "roofline", alt, select=True)
        chosen = {point["customdata"][0] for point in clicked if point.get("customdata")}
        table = shown_operators(tables, chosen)
        if chosen:
            st.caption(f"{len(table)} clicked. Double-click the empty chart to see all operators.")
        else:
            st.caption("Click a point to see it alone. Operators without arithmetic have no point.")
        draw_table(
            display_tables.rounded(table), "roofline_table",
            height="auto", placeholder=quantities.NOT_VALIDATED,
            column_config=display_tables.operator_columns(),
        )  # fmt: skip
        with st.container(horizontal=True):
            with st.popover("How to read this", icon=":material/function:"):
                st.markdown(EXPLANATION)
            export.downloads("roofline", {"roofline": figure}, table.drop(columns="id"), setup)

    st.caption(sidebar.describe(setup) + f" · per device of {plain(resolved.system.name)}")
    picture()

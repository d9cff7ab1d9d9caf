"""The user's runs of an engine: input, fit, storing and deleting it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd
import streamlit as st

from app.calibration import from_runs
from app.charts import measured
from app.dashboard import export, sidebar, visitor
from app.dashboard.panels.fit import NUMBER, SHARE
from app.dashboard.widgets import draw_table
from app.wording import quantities
from app.wording.markdown import plain
from hardware_db import recipes


def _form(names: Sequence[str], load: str) -> list[dict[str, str]]:
    """The typed runs as rows of a points file, [] before they are submitted; empty rows are
    omitted.

    names: columns of measured seconds.  load: "concurrency" or "batch".
    """
    count = st.slider("Runs", 1, 5, 3, key="own_count", width=320)
    rows = []
    with st.form("own_form"):
        for at in range(count):
            with st.container(horizontal=True):
                users = st.number_input(
                    load.capitalize(), 1, 100_000, 4 ** (at + 1), key=f"own_{load}_{at}", width=140
                )
                row = {"id": f"run {at + 1}", load: str(users)}
                for name in names:
                    value = st.number_input(
                        from_runs.LABELS[name], min_value=0.0, value=None, format="%.4g",
                        key=f"own_{name}_{at}", width=180, placeholder="not measured",
                    )  # fmt: skip
                    row[name] = "" if value is None else str(value / 1e3)
                rows.append(row)
        sent = st.form_submit_button("Calibrate", icon=":material/tune:")
    filled = [row for row in rows if any(row[name] for name in names)]
    return (filled or rows[:1]) if sent else []


def own_runs_panel() -> None:
    """Draw the form for runs of the sidebar's scenario, fit them, and show the fit."""
    setup = sidebar.chosen_setup()
    s = setup.scenario
    st.caption(
        "One to five runs that you measured of the sidebar's scenario move the engine's constants; "
        "later predictions of this engine, model, format and device use them. How much that helps "
        "other runs is on page Accuracy, under Serving.\n\n"
        f"{plain(s.model)} on {s.tp * s.pp * s.dp} × {plain(s.system)} · "
        f"engine {plain(s.engine or 'default')} · "
        f"{quantities.tokens(s.isl)} tokens in, {quantities.tokens(s.osl)} out"
    )
    if setup.model_config or setup.system_yaml:
        st.info(
            "Runs are kept by name: choose a model and a device from the lists.",
            icon=":material/info:",
        )
        return
    kind = st.segmented_control(
        "Measured", list(from_runs.KINDS), default=next(iter(from_runs.KINDS)), required=True,
        key="own_kind",
    )  # fmt: skip
    rows = _form(from_runs.KINDS[kind], "concurrency" if kind == "Under load" else "batch")
    if rows:
        with st.spinner("Fitting the engine's constants …"):
            bare = replace(s, batch=1, concurrency=None, rate=None, trace=None)  # rows have theirs
            completed = from_runs.with_scenario(bare, rows)
            st.session_state["own_calibrations"] = from_runs.calibrate(completed)
    for calibration in st.session_state.get("own_calibrations", ()):
        _show(calibration)


def _show(calibration: from_runs.RecipeCalibration) -> None:
    """Draw the figures before and after, the constants, and the buttons to store or drop them."""
    before, after = calibration.fit.before, calibration.fit.after
    recipe = from_runs.recipe_words(calibration.key)
    st.subheader(plain(f"{calibration.measured.model}, {recipe}"), anchor=False)
    with st.grid(3, min_column_width=160):
        st.metric("Mean error, before", quantities.percent(before.mape), border=True)
        st.metric("Mean error, after", quantities.percent(after.mape), border=True)
        st.metric("Figures", str(after.points), border=True)
    rows = from_runs.figure_rows(calibration)
    figure = measured.before_after(rows, export.look())
    export.chart(figure, "own-runs", "Runs of your own, before and after")
    draw_table(
        rows, "own_table",
        height="auto", column_config={"error_before": SHARE, "error_after": SHARE},
    )  # fmt: skip
    with st.expander("Constants, and how well the runs determine them"):
        constants = pd.DataFrame(from_runs.constant_rows(calibration))
        draw_table(
            constants, "own_constants",
            height="auto", column_config={"factor": NUMBER, "uncertainty": SHARE},
        )  # fmt: skip
    with st.container(horizontal=True):
        if st.button("Use in later predictions", key="own_save", icon=":material/save:"):
            from_runs.keep(calibration)
            st.success(f"Kept {visitor.keeping()}.", icon=":material/check:")
        if st.button("Forget them", key="own_forget", icon=":material/delete:"):
            dropped = recipes.forget_recipe(calibration.key)
            st.info("Forgotten." if dropped else "Nothing was kept.", icon=":material/info:")

"""Panels of a measured grid of batches and lengths: its inputs, and its results."""

from typing import Any

import pandas as pd
import streamlit as st

from app.charts import measured_classes
from app.dashboard import export
from app.dashboard.widgets import card, draw_table
from app.measuring.comparison import folded
from app.measuring.outcome import Swept
from app.wording import quantities
from app.wording.markdown import plain


def sweep_fields() -> dict[str, Any]:
    """Draw the inputs of a grid; returns the fields of `RunConfig.sweep`."""
    with st.grid(4, min_column_width=150):
        batches = st.text_input("Batches", "1:4:x2", key="sweep_batches", help="1:8:x2 or 1,2,4")
        lengths = st.text_input("Lengths", "64:256:x2", key="sweep_lengths", help="In tokens.")
        phases = st.multiselect(
            "Phases", ["prefill", "decode"], ["prefill", "decode"], key="sweep_phases"
        )
        rounds = st.number_input("Rounds", 1, 20, 3, key="sweep_rounds")
    return {
        "batches": batches, "lengths": lengths, "phases": ",".join(phases), "rounds": int(rounds),
    }  # fmt: skip


def show_sweep(swept: Swept) -> None:
    """Draw the agreement by phase, the chart of the steps and their table."""
    fits = {name: fit for name, fit in swept.agreement.items() if fit.points}
    if fits:
        with st.grid(3, min_column_width=220):
            for name, fit in fits.items():
                words = f"R² {fit.r2:.3f} over {fit.points} points"
                card(f"{name.capitalize()}: MAPE", quantities.percent(fit.mape), words)
        figure = measured_classes.sweep_parity(swept.rows, swept.agreement, export.look())
        export.chart(figure, "sweep")
    for note in swept.notes:
        st.caption(f"Note: {plain(note)}")
    table = pd.DataFrame(swept.rows)
    shown = pd.DataFrame(map(folded, swept.rows)).drop(columns="bound_s")
    draw_table(shown, "sweep_rows", height="auto")
    export.save_button("CSV", export.table_csv(table), "sweep.csv")

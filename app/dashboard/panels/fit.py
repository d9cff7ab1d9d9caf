"""A fitted system on the page Calibrate: its errors before and after, and the button to keep it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import streamlit as st

from app.calibration import fit_tables
from app.charts import parity
from app.dashboard import export
from app.wording import quantities

SHARE = st.column_config.NumberColumn(format="percent")
NUMBER = st.column_config.NumberColumn(format="%.4g")


def panel(found: fit_tables.Fitted, fact: tuple[str, str], save: Callable[[], list[Path]]) -> None:
    """Errors of the fit before and after, the points, and the button that keeps it.

    fact: a figure of this kind of calibration, as a card.
    """
    rows = fit_tables.errors(found)
    median = [float(pd.Series([row[key] for row in rows]).median()) for key in ("before", "after")]
    with st.grid(4, min_column_width=160):
        st.metric("Mean error, before", quantities.percent(median[0]), border=True)
        st.metric("Mean error, after", quantities.percent(median[1]), border=True)
        st.metric("Memory", quantities.bandwidth(found.system.memory_bytes_per_s), border=True)
        st.metric(*fact, border=True)
    st.dataframe(
        pd.DataFrame(rows), hide_index=True,
        column_config={"before": SHARE, "after": SHARE, "p90": SHARE},
    )  # fmt: skip
    points = fit_tables.points(found)
    for state in ("before", "after"):
        here = [point for point in points if point["state"] == state]
        title = f"Operators, predicted {state} the fit"
        export.chart(parity.parity(here, "operator", title, export.look()), f"fit-{state}", title)
    with st.expander("Constants, and how well the points tell them"):
        st.dataframe(
            pd.DataFrame(fit_tables.constants(found)), hide_index=True, key="fit_constants",
            column_config={"before": NUMBER, "after": NUMBER, "uncertainty": SHARE},
        )  # fmt: skip
    if st.button("Save as a system", key="save_fit", icon=":material/save:"):
        paths = save()
        st.success(
            f"Kept in {len(paths)} files of your data folder; choose {found.system.slug} in the "
            "sidebar.",
            icon=":material/check:",
        )

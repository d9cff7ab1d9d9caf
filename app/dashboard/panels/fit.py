"""The fit of a system: errors before and after, and the button to store it."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
import streamlit as st

from app.calibration import fit_tables
from app.charts import parity
from app.dashboard import export, visitor
from app.dashboard.widgets import draw_table
from app.wording import quantities
from app.wording.markdown import plain

SHARE = st.column_config.NumberColumn(format="percent")
NUMBER = st.column_config.NumberColumn(format="%.4g")


def fit_panel(
    fitted: fit_tables.CalibratedSystem, fact: tuple[str, str], save: Callable[[], object]
) -> None:
    """Draw the errors before and after, the points, the constants, and the button to store them.

    fact: label and value of an additional card.  save: writes the files.
    """
    rows = fit_tables.error_rows(fitted)
    median = [float(pd.Series([row[key] for row in rows]).median()) for key in ("before", "after")]
    with st.grid(4, min_column_width=160):
        st.metric("Mean error, before", quantities.percent(median[0]), border=True)
        st.metric("Mean error, after", quantities.percent(median[1]), border=True)
        st.metric("Memory", quantities.bandwidth(fitted.system.memory_bytes_per_s), border=True)
        st.metric(*fact, border=True)
    st.dataframe(
        pd.DataFrame(rows), hide_index=True,
        column_config={"before": SHARE, "after": SHARE, "p90": SHARE},
    )  # fmt: skip
    points = fit_tables.point_rows(fitted)
    for state in ("before", "after"):
        of_state = [point for point in points if point["state"] == state]
        title = f"Operators, predicted {state} the fit"
        figure = parity.parity(of_state, "operator", title, export.look())
        export.chart(figure, f"fit-{state}", title)
    with st.expander("Constants, and how well the points determine them"):
        draw_table(
            fit_tables.constant_rows(fitted), "fit_constants",
            height="auto", column_config={"before": NUMBER, "after": NUMBER, "uncertainty": SHARE},
        )  # fmt: skip
    if st.button("Save as a system", key="save_fit", icon=":material/save:"):
        save()
        st.success(
            f"Kept {visitor.keeping()}; choose {plain(fitted.system.slug)} in the sidebar.",
            icon=":material/check:",
        )

"""Times of a phase side by side, and the operators behind the gap."""

from collections.abc import Callable

import pandas as pd
import streamlit as st

from app.charts import changes, measured_classes, parity
from app.charts.figure import Figure
from app.dashboard import export, sidebar
from app.dashboard.page_texts import page_text
from app.dashboard.panels.compared_run import Priced, comparison_of, show_findings, show_phases
from app.dashboard.panels.run_facts import show_identity, show_sums, to_sidebar
from app.dashboard.widgets import draw_table
from app.measuring.comparison import COLUMN_HELP, worst
from app.scenario.summary import beyond_bound
from app.wording.markdown import plain

#: Title of the part that the panel draws, on the pages Measure and Upload.
TITLE = "Measured and predicted"
_EXACT = 1e-6


def beside_prediction_panel(pricing: Callable[[], Priced | None]) -> None:
    """Draw a measurement beside its prediction.

    pricing: draws what was measured and what it is priced as; None if that is all.
    """
    setup = sidebar.chosen_setup()
    with sidebar.stopping():
        priced = pricing()
        if priced is None:
            return
        comparison = comparison_of(priced)
    if priced.reports:
        st.caption(f"The prediction is for the sidebar's scenario: {sidebar.describe(setup)}.")

    show_phases(comparison)
    if priced.identity:
        show_identity(priced.identity, "measured_identity", to_sidebar)
    show_sums(comparison.checks, in_words=not priced.apart)

    st.subheader("Findings", anchor=False)
    show_findings(priced, comparison)

    look, figures = export.look(), {}
    for row in comparison.phases.to_dict("records"):
        phase = row["phase"]
        rows = comparison.classes[comparison.classes["phase"] == phase]
        causes = beyond_bound(priced.estimate, phase)
        figures[f"gaps {phase}"] = two_gaps(row, rows, causes)
        title = f"{phase.capitalize()} step by operator class"
        figures[phase] = measured_classes.three_bars(rows, title, look)
        export.chart(figures[phase], f"measured-{phase}")
    points = measured_classes.operator_points(comparison.operators)
    title = "Operators, predicted against measured"
    figures["parity"] = parity.parity(points, "class", title, look)
    export.chart(figures["parity"], "measured-parity")

    st.subheader("Worst ten", anchor=False)
    shown = worst(comparison.operators)
    number, words = st.column_config.NumberColumn, st.column_config.TextColumn
    draw_table(
        shown, "worst_ten", height="auto",
        column_config={name: number(format="%.4g") for name in shown.columns if "[µs]" in name}
        | {name: words(name.replace("_", " "), help=text) for name, text in COLUMN_HELP.items()}
        | {
            "name": words("operator", width="medium"),
            "ratio": number(format="%.4g", help="Measured over predicted"),
            "share of gap": number(format="percent", help="Share of the phase's gap, signed"),
        },
    )  # fmt: skip
    names = {name: plain(getattr(priced.estimate, name).name) for name in ("system", "engine")}
    st.caption(page_text("operators and launches", **names))
    table = pd.concat([comparison.classes, comparison.operators], ignore_index=True)
    export.downloads("measured", figures, table, setup, of_setup=False)


def two_gaps(comparison_phase: dict, classes: pd.DataFrame, causes: dict[str, float]) -> Figure:
    """Draw the waterfall from the bound over the prediction to the measurement of a phase.

    The first difference is by cause if `causes` [s] add up to it, otherwise by operator class; the
    second by operator class.

    comparison_phase: a row of `Comparison.phases`.  classes: the phase's of `Comparison.classes`.
    """
    bound, predicted, measured = (
        float(comparison_phase[name]) for name in ("bound_s", "predicted_s", "measured_s")
    )
    first = {name: value for name, value in causes.items() if value}
    if abs(sum(first.values()) - (predicted - bound)) > _EXACT * predicted:
        first = _by_class(classes, "bound_s", "predicted_s", predicted - bound)
    second = _by_class(classes, "predicted_s", "measured_s", measured - predicted)
    stages = [("Bound", bound), ("Predicted", predicted), ("Measured", measured)]
    phase = str(comparison_phase["phase"])
    title = f"{phase.capitalize()}: bound to predicted to measured"
    figure = changes.bridge(stages, [first, second], title, export.look())
    export.chart(figure, f"gaps-{phase}")
    return figure


def _by_class(classes: pd.DataFrame, before: str, after: str, whole: float) -> dict[str, float]:
    """Changes by operator class that add up to `whole`; the unattributed part is the rest."""
    told = classes.set_index("class")[[before, after]].fillna(0.0)
    found = changes.ordered_changes(told[before].to_dict(), told[after].to_dict())
    found.pop(changes.REST, None)
    rest = whole - sum(found.values())
    return {**found, changes.REST: rest} if abs(rest) > _EXACT * abs(whole) else found

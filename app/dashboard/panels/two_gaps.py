"""Bound, predicted and measured of a phase as one waterfall."""

from __future__ import annotations

import pandas as pd

from app.charts import changes
from app.charts.figure import Figure
from app.dashboard import export

_EXACT = 1e-6


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
    export.chart(figure, f"gaps-{phase}", title)
    return figure


def _by_class(classes: pd.DataFrame, before: str, after: str, whole: float) -> dict[str, float]:
    """Changes by operator class that add up to `whole`; the unattributed part is the rest."""
    told = classes.set_index("class")
    found = changes.ordered_changes(
        {str(k): float(v) for k, v in told[before].fillna(0.0).items()},
        {str(k): float(v) for k, v in told[after].fillna(0.0).items()},
    )
    rest = whole - sum(value for name, value in found.items() if name != changes.REST)
    kept = {name: value for name, value in found.items() if name != changes.REST}
    return {**kept, changes.REST: rest} if abs(rest) > _EXACT * abs(whole) else kept

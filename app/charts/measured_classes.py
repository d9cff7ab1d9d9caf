"""Measured and predicted times: classes of a phase, steps of a sweep, runs around a fit."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from app.answers.columns import COLUMNS
from app.charts import parity
from app.charts.breakdown import error_bars
from app.charts.figure import Figure
from app.charts.parts import lay_bars, line, lying_bars, time_bars
from app.charts.style import CLASS_NAMES, Look, blank
from app.measuring import comparison
from app.scenario.intervals import Ranged
from app.scenario.points_file import FIGURES
from app.wording import quantities
from app.wording.markdown import chart_text
from profilers.collect.agreement import Agreement

_LATENCY = ("predicted_s", "low_s", "high_s")
_SIDES = {True: "<br>measured inside", False: "<br>measured outside", None: ""}
_WORDS = {"host": "Host and gaps", "other": "Unclassified"}


def three_bars(classes: pd.DataFrame, title: str, look: Look) -> Figure:
    """Three bars per operator class: bound, prediction with error bar, measurement.

    classes: rows of one phase of `Comparison.classes`; overlap is negative and not drawn.
    """
    shown = classes[(classes["predicted_s"] > 0) | (classes["measured_s"] > 0)]
    rows = shown.to_dict("records")
    names = {**CLASS_NAMES, **_WORDS}
    predicted = {
        names.get(row["class"], row["class"]) + _trusted(row): Ranged(*(row[k] for k in _LATENCY))
        for row in rows
    }
    figure = blank(look, title, 150 + 62 * len(shown))
    bars = (
        ("bound_s", "Bound", look.rest),
        ("predicted_s", "Predicted", look.classes[0]),
        ("measured_s", "Measured", look.classes[1]),
    )
    for column, words, color in bars:
        values = shown[column].clip(lower=0.0)
        marker = {"color": color, "line": {"color": look.faint, "width": 0.5}}
        figure.add_trace(time_bars(predicted, values, words, color, marker=marker))
    figure.add_trace(error_bars(predicted, look))  # the middle bar is the prediction
    return lay_bars(figure, look, "Time of a step [ms]", bottom=92, mode="group", gap=0.3)


def _trusted(row: Mapping[str, Any]) -> str:
    """Label lines for the interval of a compared row and whether the measurement lies inside."""
    trust = comparison.interval_text(row)
    return f"<br>80 %: {trust}{_SIDES[row['inside']]}" if trust else ""


def sweep_parity(
    rows: Sequence[Mapping[str, Any]], agreed: Mapping[str, Agreement], look: Look
) -> Figure:
    """Predicted against measured steps of a sweep, and the fitted line of each phase.

    rows: see `app.measuring.prediction.step_rows`.  agreed: the fitted line by phase, measured =
    slope x predicted + intercept.
    """
    shown = ("predicted_s", "measured_s", "phase")
    points: dict[str, Any] = {name: [row[name] for row in rows] for name in shown}
    points["label"] = [f"{row['batch']} × {row['length']}{_trusted(row)}" for row in rows]
    figure = parity.parity(points, "phase", "Steps, predicted and measured", look)
    clouds = {trace["name"]: trace for trace in figure.data if trace.get("mode") == "markers"}
    for phase, cloud in clouds.items():
        fit = agreed[phase]
        ends = np.geomspace(min(cloud["y"]), max(cloud["y"]), 50)
        fitted = fit.slope * ends + fit.intercept_s
        if np.isfinite(fitted).all():
            drawn, name = fitted > 0, f"{phase}: line, R² {fit.r2_line:.3f}"
            color, style = cloud["marker"]["color"], {"width": 1.4, "dash": "dot"}
            figure.add_trace(line(fitted[drawn], ends[drawn], name, color, "", line=style))
    return figure


def before_after(rows: Sequence[Mapping[str, Any]], look: Look) -> Figure:
    """Error of each measured figure before and after a calibration.

    rows: of `app.calibration.from_runs.figure_rows`.
    """
    names = [f"{row['run']}, {COLUMNS[FIGURES[row['figure']].predicted].head}" for row in rows]
    figure = blank(look, "Runs of your own, before and after", 150 + 52 * len(rows))
    for state, color in (("before", look.rest), ("after", look.classes[0])):
        values = [100.0 * row[f"error_{state}"] for row in rows]
        hover = f"{state}: %{{customdata}} (%{{x:+.1f}} %)<extra>%{{y}}</extra>"
        trace = lying_bars(
            names, values, state.capitalize(), color, hover,
            marker={"color": color, "line": {"color": look.faint, "width": 0.5}},
            customdata=[quantities.seconds(row[f"{state}_s"]) for row in rows],
        )  # fmt: skip
        figure.add_trace(trace)
    title = "Predicted over measured, minus one [%]"
    return lay_bars(figure, look, title, bottom=92, mode="group", gap=0.3, zeroline=True)


def operator_points(operators: pd.DataFrame) -> parity.Points:
    """`Comparison.operators` as points for `parity.parity`, grouped by "class"."""
    compared = operators[(operators["measured_s"] > 0) & (operators["predicted_s"] > 0)]
    rows = compared.to_dict("records")
    return {
        "predicted_s": compared["predicted_s"],
        "measured_s": compared["measured_s"],
        "label": [
            f"{row['phase']}: {chart_text(str(row['name'])[:60])}{_trusted(row)}" for row in rows
        ],
        "class": [CLASS_NAMES.get(str(one), chart_text(str(one))) for one in compared["class"]],
    }

"""Benchmark results: measured points on the predicted curve, replayed requests, and history."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from app.answers.column import Column
from app.answers.columns import COLUMNS
from app.benchmarks.curve import Curve
from app.charts.figure import Figure, Trace
from app.charts.parts import band, dots, line, ring, time_axis
from app.charts.serving import load_axis
from app.charts.style import Look, blank
from app.wording import quantities
from app.wording.markdown import chart_text

Points = Sequence[Mapping[str, Any]]
_COLUMNS = {"ttft": "ttft_s", "tpot": "tpot_s", "rate": "output_tokens_per_s"}
_MOST_REQUESTS = 2000
_BAD = ("below bound", "worse")


def curve(
    predicted: Curve, points: Points, best: Points, name: str, level: float, look: Look
) -> Figure:
    """Measured points on the predicted curve, with its interval as a band and its lower bound.

    points: see `app.benchmarks.curve.measured_points`; points below the bound are drawn as crosses.
    best: the best known measured runs, see `app.benchmarks.curve.best_points`, drawn as diamonds.
    name: "ttft", "tpot" or "rate".
    """
    column = COLUMNS[_COLUMNS[name]]
    figure = blank(look, f"{column.head} over the load", 400)
    columns, color = predicted.columns, look.classes[0]
    ends = (columns[f"{name}_low"], columns[f"{name}_high"])
    figure.add_traces(band(columns["load"], *ends, f"{level * 100:g} %", color))
    for key, label, dash, shade in (
        (name, "predicted", "solid", color),
        (f"{name}_bound", "bound", "dot", look.rest),
    ):
        values = [value if math.isfinite(value) else None for value in columns[key]]
        if any(value is not None for value in values):
            hover = f"{label} at %{{x:,.4g}}: %{{customdata}}<extra></extra>"
            told = {"line": {"dash": dash}, "customdata": [*map(column.words, values)]}
            figure.add_trace(line(columns["load"], values, label, shade, hover, **told))
    marker = {
        "size": 10,
        "color": [look.alarm if point["place"] in _BAD else look.classes[1] for point in points],
        "symbol": ["x" if point["place"] == "below bound" else "circle" for point in points],
        "line": {"width": 1, "color": look.paper},
    }
    figure.add_trace(_runs(points, column, "measured", marker))
    if best:  # hollow diamonds like the measured runs of a frontier chart
        diamond = {"symbol": "diamond", **ring(10, look.classes[1], look.paper)}
        figure.add_trace(_runs(best, column, "best measured run", diamond))
    _axes(figure, predicted, [*points, *best], name)
    return figure


def marks(predicted: Curve, points: Points, best: Points, name: str) -> frozenset[str]:
    """What a curve draws beside its line and its measured points, of "band", "bound", "cross",
    "red" and "diamond".  predicted, points, best, name: as of `curve`.
    """
    columns, places = predicted.columns, {point["place"] for point in points}
    ends = zip(columns[f"{name}_low"], columns[f"{name}_high"], strict=True)
    drawn = {
        "band": any(all(map(math.isfinite, pair)) for pair in ends),
        "bound": any(map(math.isfinite, columns[f"{name}_bound"])),
        "cross": "below bound" in places,
        "red": not places.isdisjoint(_BAD),
        "diamond": bool(best),
    }
    return frozenset(mark for mark, there in drawn.items() if there)


def _runs(points: Points, column: Column, name: str, marker: Mapping[str, Any]) -> Trace:
    """Measured runs: their value, its place beside the curve if it has one, and their label."""
    return dots(
        [point["load"] for point in points], [point["value"] for point in points], name, marker,
        f"{name}: %{{customdata}}<extra></extra>",
        customdata=[
            ", ".join(filter(None, (column.words(point["value"]), point.get("place"))))
            + f"<br>{chart_text(point['label'])}" for point in points
        ],
    )  # fmt: skip


def _axes(figure: Figure, predicted: Curve, points: Points, name: str) -> None:
    columns = predicted.columns
    loads = [*columns["load"], *(point["load"] for point in points)]
    measured = [float(point["value"]) for point in points]
    title = COLUMNS[_COLUMNS[name]]
    if name == "rate":
        top = max(value for value in (*columns["rate"], *measured) if math.isfinite(value))
        y = {"title_text": title.title, "range": [0, top * 1.5]}
    else:
        drawn = (value for end in ("", "_bound", "_low", "_high") for value in columns[name + end])
        y = {"title_text": title.head, **time_axis((*drawn, *measured))}
    figure.laid(load_axis(predicted.kind, loads), y, margin={"b": 96})


def replayed(table: pd.DataFrame, latency: str, look: Look) -> Figure:
    """Measured and simulated latency of the first 2000 requests over their arrival time.

    table: of `app.benchmarks.replay.Replay`.  latency: "ttft" or "e2e".
    """
    shown = table.head(_MOST_REQUESTS)
    figure = blank(look, f"{latency.upper()} of every request", 400)
    sides = (("simulated", look.classes[0]), ("measured", look.classes[1]))
    for side, color in sides:
        values = shown[f"{latency}_{side}_s"]
        told = [
            f"{quantities.seconds(value)}, {isl:,.0f} in, {osl:,.0f} out"
            for value, isl, osl in zip(values, shown["isl"], shown["osl"], strict=True)
        ]
        marker = {"size": 6, "color": color, "opacity": 0.8}
        hover = f"{side}: %{{customdata}}<extra></extra>"
        figure.add_trace(dots(shown["arrival_s"], values, side, marker, hover, customdata=told))
    times = (value for side, _ in sides for value in shown[f"{latency}_{side}_s"])
    y = {"title_text": COLUMNS[f"{latency}_s"].head, **time_axis(times)}
    return figure.laid(COLUMNS["arrival_s"].title, y, margin={"b": 96})


def history(rows: Points, figure_name: str, look: Look) -> Figure:
    """One figure of a deployment over its benchmark runs, one line per load.

    rows: see `app.benchmarks.history.rows`.  figure_name: for example "ttft_mean_s".
    """
    column = COLUMNS[figure_name]
    figure = blank(look, f"{column.head} over versions and dates", 380)
    loads = list(dict.fromkeys(row["load"] for row in rows))
    for at, load in enumerate(loads):
        mine = [row for row in rows if row["load"] == load and row[figure_name] is not None]
        shown = [f"{column.words(row[figure_name])}<br>{chart_text(row['label'])}" for row in mine]
        trace = line(
            [row["when"] for row in mine], [row[figure_name] for row in mine],
            chart_text(load), look.classes[at % 10], "%{x}: %{customdata}<extra></extra>",
            mode="lines+markers", marker={"size": 8}, customdata=shown,
        )  # fmt: skip
        figure.add_trace(trace)
    x = {"title_text": "Engine version and date", "type": "category"}
    y = {"title_text": column.title, "rangemode": "tozero"}
    return figure.laid(x, y, margin={"b": 96}, showlegend=True)

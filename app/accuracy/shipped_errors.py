"""How far off predictions are: the tables that the page, the command and the document share.

Nothing is measured or priced here: the fits write their errors beside the constants they found,
and this reads them.  A table that was not written yet is empty.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from genz_core.step import StepEstimate
from hardware_db.profiles import residual_quantiles
from hardware_db.profiles.validation import OPERATOR_SPLITS, validation_rows
from hardware_db.tables import Room, table

Row = dict[str, Any]

#: Splits of what was measured under load, with what each means.
SERVING_SPLITS: Mapping[str, str] = {
    "in sample": "the points that fitted the engine's constants and the recipes",
    "configurations held out": "other loads and degrees of the same model and GPU may be known",
    "one model left out": "nothing of this model was seen",
    "one GPU left out": "nothing on this GPU was seen",
}
BATCH_METRICS = ("prefill", "decode", "e2e", "published, all")
SERVING_METRICS = ("tpot_s", "ttft_s")
_OPERATOR_FIGURES = ("mape", "median", "p90", "bias")


def operator_series() -> list[Row]:
    """Every measured series (operator, device, format) and split; errors in percent."""
    found = []
    for row in validation_rows():
        numbers = {f"{name} %": 100.0 * row[name] for name in _OPERATOR_FIGURES}
        words = {name: row[name] for name in ("operator", "system", "family", "fmt", "split")}
        counts = {"draw": row["draw"], "points": row["points"]}
        found.append({**words, **counts, **numbers, "data": row["data"], "date": row["date"]})
    return found


def operator_points() -> list[Row]:
    """Measured operators on shapes that fitted nothing, a draw of every series, and their price."""
    numbers = ("predicted_s", "measured_s", "roofline_s")
    return [
        {**row, **{name: float(row[name]) for name in numbers}, "label": _operator_label(row)}
        for row in table("profiles", "held_out_points")
    ]


def _operator_label(row: Mapping[str, str]) -> str:
    return f"{row['operator']} {row['fmt']}, {row['system']}<br>{row['shape']}"


def operator_summary(series: Sequence[Row], by: Sequence[str]) -> list[Row]:
    """Mean errors of the series that share the columns `by`; every series counts alike."""
    grouped: dict[tuple[Any, ...], list[Row]] = {}
    for row in series:
        grouped.setdefault(tuple(row[name] for name in by), []).append(row)
    return [
        {
            **dict(zip(by, key, strict=True)),
            "series": len({(row["operator"], row["system"], row["fmt"]) for row in rows}),
            "points": sum(row["points"] for row in rows if row["draw"] == 0),
            **{
                f"{name} %": round(sum(row[f"{name} %"] for row in rows) / len(rows), 1) + 0.0
                for name in _OPERATOR_FIGURES
            },
        }
        for key, rows in grouped.items()
    ]


def operator_matrix(series: Sequence[Row], by: str = "operator") -> list[Row]:
    """MAPE in percent: a row a value of `by`, a column a split, in the order of the splits."""
    cells = {
        (row[by], row["split"]): row["mape %"] for row in operator_summary(series, (by, "split"))
    }
    names = sorted({name for name, _ in cells})
    return [{by: name} | {s: cells.get((name, s)) for s in OPERATOR_SPLITS} for name in names]


def fit_errors(metrics: Iterable[str]) -> list[Row]:
    """Errors of the engine fits by split, for these metrics; percent."""
    wanted = _and_possible(metrics)
    return [
        {
            "split": row["split"],
            "metric": row["metric"],
            "points": int(row["points"]),
            **{_percent(name): float(value) for name, value in row.items() if name in _FIGURES},
            "date": row["date"],
        }
        for row in table("engines", "fit_errors")
        if row["metric"] in wanted
    ]


#: What "possible" rows are.
POSSIBLE = (
    "**possible**: without the runs of which a figure lies below the bound of the load that they "
    "state, so that load cannot have run"
)


def _and_possible(metrics: Iterable[str]) -> tuple[str, ...]:
    return tuple(name for metric in metrics for name in (metric, f"{metric}, possible"))


_FIGURES = ("mape", "median", "p90", "bias", "within_10", "within_20", "within_30")


def _percent(name: str) -> str:
    return f"{name} %"


def own_runs(metrics: Iterable[str]) -> list[Row]:
    """Errors on a model nobody measured, after a calibration with some runs of it; percent."""
    wanted = _and_possible(metrics)
    return [
        {_percent(name) if name in _FIGURES else name: value for name, value in row.items()}
        for row in _numbers("engines", "own_runs")
        if row["metric"] in wanted
    ]


def coverage(metrics: Iterable[str]) -> list[Row]:
    """How often the stated 80 % intervals hold, on points that fitted neither."""
    wanted = tuple(metrics)
    return [row for row in _numbers("engines", "coverage") if row["metric"] in wanted]


def intervals(metrics: Iterable[str]) -> list[Row]:
    """The 80 % intervals: measured over predicted, by metric, tier and engine."""
    wanted = tuple(metrics)
    return [row for row in _numbers("engines", "intervals") if row["metric"] in wanted]


def peers(area: str, metric: str = "") -> list[Row]:
    """Other predictors' errors on the same kind of rows, with who says so."""
    rows = _numbers("measurements", "peers")
    return [
        {name: value for name, value in row.items() if name not in ("area", "kind")}
        for row in rows
        if row["area"] == area and metric in ("", row["metric"])
    ]


_WORDS = (
    "metric", "tier", "known", "engine", "date", "area", "peer", "rows", "kind", "source",
)  # fmt: skip


def _numbers(room: Room, name: str) -> list[Row]:
    """A table with its numbers read; an empty cell is None."""
    return [
        {column: _value(column, text) for column, text in row.items()} for row in table(room, name)
    ]


def _value(column: str, text: str) -> Any:
    if column in _WORDS:
        return text
    return float(text) if text else None


# ------------------------------------------------------------------------------- in words

_TIER_WORDS: Mapping[str, str] = {
    "measured": "this device was measured",
    "sibling": "one of its family was measured",
    "default": "no device of its family was measured",
}


def operator_sentence(matrix: Sequence[Row]) -> str:
    """What the operator table says, in a sentence."""
    held = {row["operator"]: row for row in matrix}
    words = {
        "gemm": "matrix products",
        "prefill_attention": "prefill attention",
        "decode_attention": "decode attention",
        "moe": "experts",
    }
    parts = [
        f"{name} **{held[key]['held-out shapes']:.1f} %**"
        for key, name in words.items()
        if key in held and held[key]["held-out shapes"] is not None
    ]
    roofs = [held[key]["roofline"] for key in words if key in held and held[key]["roofline"]]
    return (
        "On measured devices, mean absolute error on shapes that fitted nothing: "
        + ", ".join(parts)
        + f". A roofline of datasheet peaks misses the same points by {min(roofs):.0f} to "
        f"{max(roofs):.0f} %."
        if parts
        else ""
    )


def split_sentence(splits: Sequence[Row], metric: str) -> str:
    """Held-out error of a metric in a sentence, or that none was computed."""
    found = {row["split"]: row for row in splits if row["metric"] == metric}
    held = found.get("configurations held out")
    if held is None:
        return "No held-out errors yet: run `python -m app.engine_fit`."
    words = {"tpot_s": "TPOT under load", "ttft_s": "TTFT under load"}.get(metric, "Batch latency")
    sentence = (
        f"**{words}**, configurations held out: median error **{held['median %']:.1f} %**, "
        f"mean {held['mape %']:.1f} % over {held['points']:,} points"
    )
    others = [
        f"{name} {found[name]['median %']:.1f} %"
        for name in ("one model left out", "one GPU left out")
        if name in found
    ]
    return sentence + (f"; median with {', with '.join(others)}." if others else ".")


#: Why two in-sample figures stand beside each other.
AS_SHIPPED = (
    "Priced with the constants as they ship, rounded in their files. The table by split solves the "
    "fit again without the points left out, a step from the whole fit, and prices what it leads to."
)
OWN_RUNS = (
    "One model left out of the fit; then some runs of it, drawn at random from each recipe of "
    "eight or more, calibrate it as `ridgeline calibrate runs` does. Two draws; judged on the runs "
    "that no draw of theirs took, all rows."
)
KNOWN = (
    "**recipe**: this model and format were measured on the device; **few**: calibrated with three "
    "runs of one's own; **device**: static batches of an engine that was measured there; **none**: "
    "nothing of it."
)


def split_words(splits: Sequence[Row]) -> list[str]:
    """What each split of a table is, and what its possible rows are where it has some."""
    words = [f"**{name}**: {words}" for name, words in SERVING_SPLITS.items()]
    return [*words, POSSIBLE] if any("possible" in row["metric"] for row in splits) else words


def operator_intervals() -> list[Row]:
    """80 % of measurements lie within these ratios of the prediction, by class and tier."""
    return [
        {
            "operator": operator,
            "device": _TIER_WORDS[tier],
            "low": round(math.exp(levels[0.1]), 3),
            "high": round(math.exp(levels[0.9]), 3),
        }
        for operator, tiers in residual_quantiles().items()
        for tier, levels in tiers.items()
    ]


def by_time(step: StepEstimate) -> dict[int, str]:
    """Names of a step's operators that take time, by row, the costliest first."""
    seconds = step.operators_s[:, 0]
    order = [int(at) for at in np.argsort(-seconds) if seconds[at] > 0]
    return {at: f"{step.graph.ops[at].name} ({seconds[at] / seconds.sum():.0%})" for at in order}

"""Errors of the shipped fits: the tables shown by the page, the command and the document.

Nothing is measured or priced here: the fits write their errors beside the constants, and this
module reads them.  A table that was not written yet is empty.
"""

import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from app.accuracy.tables import Columns, Row, columns_of
from hardware_db.profiles import residual_quantiles
from hardware_db.profiles.validation import OPERATOR_SPLITS, validation_rows
from hardware_db.tables import TableFolder, read_rows, table

#: Splits of the serving measurements, each with its meaning.
SERVING_SPLITS: Mapping[str, str] = {
    "in sample": "the points used to fit the constants; each also corrects its own prediction",
    "configurations held out": "runs of the same model and GPU at other loads were used",
    "one model left out": "no run of this model was used",
    "one GPU left out": "no run on this GPU was used",
    "one release left out": "no run of this engine release was used",
    "newest release left out": "as above, for the newest engine release of each model",
    "one source left out": "no run published by the same source was used",
}
LEAST_SHOWN = 30  # least points of a coverage cell on the summary page
BATCH_METRICS = ("prefill", "decode", "e2e", "published, all")

#: The meaning of rows called "plausible runs".
PLAUSIBLE = (
    "**plausible runs**: without runs that have a figure below the bound of their stated load, "
    "because that load cannot have run"
)
PHYSICS = (
    "**uncorrected**: plausible runs, predicted without correction by measured runs, with "
    "constants fitted without the rows left out"
)
_OPERATOR_FIGURES = ("mape", "median", "p90", "bias")
_FIT_FIGURES = (*_OPERATOR_FIGURES, "within_10", "within_20", "within_30")
_TEXT_COLUMNS = (
    "metric", "tier", "known", "engine", "date", "area", "peer", "rows", "kind", "source",
)  # fmt: skip


@functools.cache
def operator_series() -> tuple[Row, ...]:
    """Errors in percent of every measured series (operator, device, format), by split."""
    series = []
    for row in validation_rows():
        numbers = {f"{name} %": 100.0 * row[name] for name in _OPERATOR_FIGURES}
        words = {name: row[name] for name in ("operator", "system", "family", "fmt", "split")}
        counts = {"draw": row["draw"], "points": row["points"]}
        series.append({**words, **counts, **numbers, "data": row["data"], "date": row["date"]})
    return tuple(series)


@functools.cache
def operator_points() -> Columns:
    """Predicted and measured times [s] of operators on held-out shapes, sampled from every
    series.
    """
    numbers = ("predicted_s", "measured_s", "roofline_s")
    return columns_of(
        [
            {**row, **{name: float(row[name]) for name in numbers}, "label": _operator_label(row)}
            for row in read_rows("profiles", "held_out_points")
        ]
    )


def _operator_label(row: Mapping[str, str]) -> str:
    return f"{row['operator']} {row['fmt']}, {row['system']}<br>{row['shape']}"


def operator_summary(series: Sequence[Row], by: Sequence[str]) -> list[Row]:
    """Mean errors [%] of the series with equal columns `by`; every series has the same weight.

    series: rows of `operator_series`.
    """
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


def operator_matrix(series: Sequence[Row]) -> list[Row]:
    """MAPE [%]: one row per operator, one column per split, in the order of the splits."""
    rows = operator_summary(series, ("operator", "split"))
    cells = {(row["operator"], row["split"]): row["mape %"] for row in rows}
    names = sorted({name for name, _ in cells})
    return [
        {"operator": name} | {s: cells.get((name, s)) for s in OPERATOR_SPLITS} for name in names
    ]


def fit_errors(metrics: Iterable[str]) -> list[Row]:
    """Errors [%] of the engine fits by split, for these metrics and their subsets of rows."""
    wanted = tuple(metrics)
    return [
        {
            "split": row["split"],
            "metric": row["metric"],
            "points": int(row["points"]),
            **{f"{name} %": float(value) for name, value in row.items() if name in _FIT_FIGURES},
            "date": row["date"],
        }
        for row in table("engines", "fit_errors")
        if row["metric"] in wanted or row["metric"].partition(",")[0] in wanted
    ]


def own_run_errors(metrics: Iterable[str]) -> list[Row]:
    """Errors [%] for models left out of the fit, after calibration with a few of their runs."""
    wanted = tuple(name for metric in metrics for name in (metric, f"{metric}, plausible runs"))
    return [
        {f"{name} %" if name in _FIT_FIGURES else name: value for name, value in row.items()}
        for row in _parsed("engines", "own_runs")
        if row["metric"] in wanted
    ]


def interval_coverage(metrics: Iterable[str]) -> list[Row]:
    """Share [%] of held-out points inside the 80 % interval, by metric, tier and state."""
    wanted = tuple(metrics)
    return [row for row in _parsed("engines", "coverage") if row["metric"] in wanted]


def peers(area: str, metric: str = "") -> list[Row]:
    """Stated errors of other predictors on the same kind of rows, with their source.

    area: "operators", "published" or "serving".  metric: of a serving row; default: all.
    """
    rows = _parsed("measurements", "peers")
    return [
        {name: value for name, value in row.items() if name not in ("area", "kind")}
        for row in rows
        if row["area"] == area and metric in ("", row["metric"])
    ]


def _parsed(folder: TableFolder, name: str) -> list[Row]:
    """The rows of a table, numbers as floats; an empty cell is None."""
    return [
        {column: _value(column, text) for column, text in row.items()}
        for row in table(folder, name)
    ]


def _value(column: str, text: str) -> Any:
    if column in _TEXT_COLUMNS:
        return text
    return float(text) if text else None


# ------------------------------------------------------------------------------- in words

_TIER_WORDS: Mapping[str, str] = {
    "measured": "this device was measured",
    "sibling": "one of its family was measured",
    "default": "no device of its family was measured",
}


def operator_sentence(matrix: Sequence[Row]) -> str:
    """Held-out errors of the main operators compared with a roofline's, in a sentence.

    matrix: rows of `operator_matrix`; "" without any of these operators.
    """
    of_operator = {row["operator"]: row for row in matrix}
    words = {
        "gemm": "matrix products",
        "prefill_attention": "prefill attention",
        "decode_attention": "decode attention",
        "moe": "experts",
    }
    parts = [
        f"{name} **{of_operator[key]['held-out shapes']:.1f} %**"
        for key, name in words.items()
        if key in of_operator and of_operator[key]["held-out shapes"] is not None
    ]
    roofs = [
        of_operator[key]["roofline"]
        for key in words
        if key in of_operator and of_operator[key]["roofline"]
    ]
    return (
        "On measured devices, mean absolute error on shapes not used in the fit: "
        + ", ".join(parts)
        + f". A roofline of datasheet peaks misses the same points by {min(roofs):.0f} to "
        f"{max(roofs):.0f} %."
        if parts
        else ""
    )


def split_sentence(splits: Sequence[Row], metric: str) -> str:
    """Held-out errors of a metric in a sentence, or the command that computes them.

    splits: rows of `fit_errors`.
    """
    of_split = {row["split"]: row for row in splits if row["metric"] == metric}
    held_out = of_split.get("configurations held out")
    if held_out is None:
        return "No held-out errors yet: run `python -m app.engine_fit`."
    words = {"tpot_s": "TPOT under load", "ttft_s": "TTFT under load"}.get(metric, "Batch latency")
    sentence = (
        f"**{words}**, configurations held out: median error **{held_out['median %']:.1f} %**, "
        f"mean {held_out['mape %']:.1f} % over {held_out['points']:,} points"
    )
    others = [
        f"{name} {of_split[name]['median %']:.1f} %"
        for name in ("one model left out", "one GPU left out")
        if name in of_split
    ]
    return sentence + (f"; median with {', with '.join(others)}." if others else ".")


#: Explanation of why two in-sample figures are shown together.
AS_SHIPPED = (
    "Predicted with the shipped constants, which are rounded in their files. For the table by "
    "split, the fit is repeated without the points left out, starting from the full fit."
)
OWN_RUNS = (
    "One model is left out of the fit. For each recipe (model, format, device, engine) with "
    "eight or more runs, a few random runs then calibrate it, as in `ridgeline calibrate runs`. "
    "Errors are on the other runs, over two random draws."
)
KNOWN = (
    "**recipe**: runs of this model and format on the device are known; **release**: only runs "
    "under other engine releases; **few**: calibrated with three own runs; **device**: for "
    "static batches, runs of this engine on the device; **none**: none of these."
)
FITTED_ON = (
    "Measured over predicted on points not used in the fit, by what the device's constants were "
    "fitted to."
)
COVERAGE = "On points used to fit neither the prediction nor the interval, by known runs: " + KNOWN


def split_words(splits: Sequence[Row]) -> list[str]:
    """The meaning of each split, and of the subsets that rows of `splits` have."""
    shown = {row["split"] for row in splits}
    words = [f"**{name}**: {words}" for name, words in SERVING_SPLITS.items() if name in shown]
    subsets = {"plausible runs": PLAUSIBLE, "uncorrected": PHYSICS}
    named = [said for name, said in subsets.items() if any(name in r["metric"] for r in splits)]
    return [*words, *named]


def operator_intervals() -> list[Row]:
    """Ends of the 80 % interval, measured / predicted, by operator class and tier of device."""
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

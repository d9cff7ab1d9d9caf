"""Measured loads with their predictions, in sample and with runs left out."""

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np

from app.accuracy import measured_points
from hardware_db import tables
from hardware_db.intervals import Interval, held_out_interval, probability_below

#: (TTFT, TPOT) of a run, seconds.
Latencies = tuple[float, float]
Key = tuple[str, ...]

IN_SAMPLE = "in sample"
#: What is known about a question, by split of `app.engine_fit.held_out`.
KNOWN: Mapping[str, str] = {
    IN_SAMPLE: "these runs",
    "configurations held out": "other runs of the model on the GPU",
    "one model left out": "nothing of the model",
    "one GPU left out": "nothing of the GPU",
}
#: The kind of held-out points used for the interval of each split, see `held_out_interval`.
_INTERVALS: Mapping[str, str] = {
    IN_SAMPLE: "recipe",
    "configurations held out": "recipe",
    "one model left out": "none",
    "one GPU left out": "none",
}


@dataclass(frozen=True, slots=True)
class Load:
    """A measured load with its measured and predicted figures.

    asked: model, lengths.  deployment: engine, format, degrees.  tokens: output tokens/s per GPU.
    tpot_s: seconds.  Each of the last two is (measured, predicted).
    spread: distribution of measured over predicted TPOT; None if the prediction is taken as exact.
    plausible: whether the measured figures are above the bounds of the stated load.
    """

    asked: Key
    system: str
    deployment: Key
    users: int
    devices: int
    tpot_s: tuple[float, float]
    tokens: tuple[float, float]
    spread: Interval | None = None
    plausible: bool = True

    def chance(self, target_s: float) -> float:
        """The probability that the measured TPOT meets a target."""
        if self.spread is None:
            return float(self.tpot_s[1] <= target_s)
        slack = np.array(math.log(target_s / self.tpot_s[1]))
        return float(probability_below(slack, self.spread))


def measured_loads(predicted: Mapping[str, Latencies], known: str = "") -> list[Load]:
    """The measured serving runs that have a prediction.

    predicted: by id.  known: kind of held-out points their intervals are based on, "" for exact
    predictions.
    """
    rows = measured_points.measured_rows("serving")
    return [_load(row, predicted[row["id"]], known) for row in rows if row["id"] in predicted]


def _load(row: Mapping[str, str], predicted: Latencies, known: str) -> Load:
    measured = float(row["measured_ttft_s"]), float(row["measured_tpot_s"])
    tp, pp, dp = (int(row.get(name) or 1) for name in ("tp", "pp", "dp"))
    users, osl = int(row["concurrency"]), float(row["osl"])
    devices = tp * pp * dp
    tokens = tuple(users * osl / (ttft + tpot * (osl - 1.0)) / devices
                   for ttft, tpot in (measured, predicted))  # fmt: skip
    return Load(
        asked=(row.get("family") or row["model"], row["isl"], row["osl"]),
        system=row["system"],
        deployment=(row["engine"], row["weights"], *(row[name] for name in ("tp", "dp", "ep"))),
        users=users,
        devices=devices,
        tpot_s=(measured[1], predicted[1]),
        tokens=(tokens[0], tokens[1]),
        spread=held_out_interval("tpot_s", "measured", known, row["engine"]) if known else None,
        plausible=row["id"] not in _impossible(),
    )


@cache
def _impossible() -> frozenset[str]:
    """The serving runs with a figure below the bound of the load that they state."""
    rows = tables.table("measurements", "beyond_bounds")
    return frozenset(row["id"] for row in rows if row["table"] == "serving")


def loads_by_split() -> dict[str, list[Load]]:
    """The measured loads with their predictions, in sample and with runs left out.

    Held-out predictions are those that `python -m app.engine_fit` stores.
    """
    found = {IN_SAMPLE: measured_loads(in_sample(), _INTERVALS[IN_SAMPLE])}
    return found | held_out_loads()


def held_out_loads() -> dict[str, list[Load]]:
    """The measured loads with held-out predictions, by what was left out of the fit."""
    predictions = {split: held_out(split) for split in list(KNOWN)[1:]}
    return {
        split: measured_loads(predicted, _INTERVALS[split])
        for split, predicted in predictions.items()
        if predicted
    }


def in_sample() -> dict[str, Latencies]:
    """Predictions of the measured serving runs with the shipped constants, by id."""
    found: dict[str, dict[str, float]] = defaultdict(dict)
    for record in measured_points.serving():
        if record["status"] == "ok":
            found[record["id"]][record["metric"]] = record["predicted_s"]
    return {name: (one["ttft_s"], one["tpot_s"]) for name, one in found.items() if len(one) == 2}


def held_out(split: str) -> dict[str, Latencies]:
    """Predictions with related runs left out of the fit, by id; {} if none were stored."""
    rows = {r["id"]: r for r in tables.table("engines", "held_out") if r["split"] == split}
    return {
        row["id"]: (
            float(rows[row["id"]]["ttft_s_ratio"]) * float(row["measured_ttft_s"]),
            float(rows[row["id"]]["tpot_s_ratio"]) * float(row["measured_tpot_s"]),
        )
        for row in measured_points.measured_rows("serving")
        if row["id"] in rows
    }

"""Intervals for two kinds of deployment with measurements of their own: prefill pools and drafts.

They use measured over predicted of runs left out of the fit: runs of prefill pools, predicted by
the closed form, and runs whose launch states drafted tokens, with their configuration left out.  An
interval goes from the 10th to the 90th percentile.  Its coverage is measured on runs whose
deployment, at all numbers of users, was left out of the percentiles.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from app.accuracy import disaggregated_runs as runs
from app.accuracy.decisions.loads import held_out
from app.accuracy.measured_points import measured_rows
from app.accuracy.tables import Row, today
from app.scenario import served_rows
from app.simulation import points
from genz_core.errors import RidgelineError
from hardware_db.intervals import LEVEL, LONG_PROMPT

KEPT = "kinds"  # the table that intervals read
METRICS = ("tpot_s", "ttft_s", "e2e_s")
_HELD_OUT = "configurations held out"
_LEAST = 20  # least number of runs in a cell
_OF_A_DEPLOYMENT = (
    "model", "system", "weights", "engine", "isl", "osl", "prefill_workers", "prefill_tp",
    "prefill_dp", "prefill_ep", "replicas", "tp", "dp", "ep", "mtp_tokens",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Compared:
    """A measured run with its prediction.

    deployment: identifies the deployment, at any number of users.  log_ratio: ln of measured over
    predicted, by metric.
    """

    kind: str
    deployment: tuple[str, ...]
    isl: int
    log_ratio: Mapping[str, float]


def of_pools() -> Iterator[Compared]:
    """The measured runs with separate prefill workers, with closed-form predictions."""
    for row in measured_rows("disaggregated"):
        try:
            found = _closed_form(row)
        except RidgelineError:
            continue
        if all(map(math.isfinite, found)):
            yield _compared("pools", row, found)


def _closed_form(row: Mapping[str, str]) -> tuple[float, float]:
    """TTFT and TPOT of a measured run in closed form [s]: all requests, users starting in a
    burst.
    """
    told = {**runs.asked(row), "requests": str(runs.RAN * int(row["concurrency"]))}
    load = served_rows.served(served_rows.deployed(points.parse(told)))
    return float(load.ttft_s[0]), float(load.tpot_s[0])


def of_drafts() -> Iterator[Compared]:
    """The measured serving runs whose launch states drafted tokens; similar runs are left out of
    the fit.
    """
    predicted = held_out(_HELD_OUT)
    for row in measured_rows("serving"):
        if int(row["mtp_tokens"] or 0) and row["id"] in predicted:
            yield _compared("drafts", row, predicted[row["id"]])


def _compared(kind: str, row: Mapping[str, str], predicted: tuple[float, float]) -> Compared:
    measured = float(row["measured_ttft_s"]), float(row["measured_tpot_s"])
    gaps = float(row["osl"]) * (1.0 + float(row["length_ratio"] or 1.0)) / 2.0 - 1.0
    ttft, tpot = (math.log(one / other) for one, other in zip(measured, predicted, strict=True))
    whole = [first + gaps * later for first, later in (measured, predicted)]
    of = tuple(row.get(name) or "" for name in _OF_A_DEPLOYMENT)
    ratios = {"ttft_s": ttft, "tpot_s": tpot, "e2e_s": math.log(whole[0] / whole[1])}
    return Compared(kind, of, int(row["isl"]), ratios)


#: Prompt-length edges of the cells of each kind; kinds with few runs have a single cell.
_CELLS: Mapping[str, Mapping[str, Callable[[int], bool]]] = {
    "pools": {"short": lambda isl: isl <= LONG_PROMPT, "long": lambda isl: isl > LONG_PROMPT},
    "drafts": {"all": lambda isl: True},
}


def table(compared: Sequence[Compared], day: str = "") -> list[Row]:
    """One row per kind, metric and prompt length: interval ends as factors of the prediction,
    number of runs, coverage with deployments left out [%], and ratio of the ends.

    day: ISO date, default today.
    """
    rows = []
    for kind, cells in _CELLS.items():
        for prompts, holds in cells.items():
            chosen = [one for one in compared if one.kind == kind and holds(one.isl)]
            if len(chosen) < _LEAST:
                continue
            for metric in METRICS:
                low, high = ends([one.log_ratio[metric] for one in chosen])
                rows.append({
                    "kind": kind, "prompts": prompts, "metric": metric,
                    "low": round(math.exp(low), 4), "high": round(math.exp(high), 4),
                    "points": len(chosen),
                    "coverage %": round(100.0 * coverage(chosen, metric), 1),
                    "width": round(math.exp(high - low), 2), "date": day or today(),
                })  # fmt: skip
    return rows


def ends(log_ratios: Sequence[float]) -> tuple[float, float]:
    """The interval's quantiles in natural logarithms, widened to include the prediction itself."""
    tail = (1.0 - LEVEL) / 2.0
    low, high = np.quantile(log_ratios, [tail, 1.0 - tail])
    return min(float(low), 0.0), max(float(high), 0.0)


def coverage(compared: Sequence[Compared], metric: str) -> float:
    """Share of runs inside an interval made from the other deployments."""
    groups: dict[tuple[str, ...], list[float]] = defaultdict(list)
    for one in compared:
        groups[one.deployment].append(one.log_ratio[metric])
    inside = []
    for left_out, values in groups.items():
        low, high = ends([v for of, some in groups.items() if of != left_out for v in some])
        inside += [low <= value <= high for value in values]
    return float(np.mean(inside))


def measured() -> list[Compared]:
    """The measured runs of all kinds, each compared with its prediction."""
    return [*of_pools(), *of_drafts()]

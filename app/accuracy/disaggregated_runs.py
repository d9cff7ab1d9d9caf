"""Measured runs with separate prefill workers, compared with their simulation.

The runs are from a public benchmark, with their launch configuration
(`hardware_db/measurements/disaggregated.csv`): lengths uniform from 80 to 100 % of nominal, all
users start at once, ten requests per user.  Five requests per user are simulated: the first, which
all users send at once; two during which that burst dissolves; one that stands for the following
ones; and the last, after which no request arrives.  Disaggregated runs fit a single number, the
same for all engines: the steps of a hand-over (`hand_over_steps`).  A split fits it without the
runs left out, and also drops all corrections from aggregated runs for the steps of both pools.
"""

import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from app.accuracy import tables
from app.accuracy.measured_points import measured_rows
from app.accuracy.tables import Row
from app.simulation import points
from app.simulation.result import simulate
from app.simulation.run import Run
from genz_core.common.progress import Cancel, never
from genz_core.errors import RidgelineError

METRICS = ("tpot_s", "ttft_s")
AS_SHIPPED = "all, as shipped"
#: Splits, by the column whose value is left out; see `app.engine_fit.splits`.
SPLITS: Mapping[str, str] = {
    "one GPU left out": "system",
    "one model left out": "model",
    "one engine left out": "engine",
}
#: Columns that identify a run.
BY = ("engine", "system", "model", "drafts", "users", "lengths")
KEPT = "disaggregated_errors"  # the table that documents read
RAN = 10  # requests per user
_EACH, _LEAST = 5, 64  # requests per user that are simulated
_EARLY = 3  # per user, until the initial burst has dissolved; judgement
_CLASSES = (16, 128, 1024)  # users
_MOST_STEPS = 40  # steps of a hand-over that the fit tries; judgement


def asked(row: Mapping[str, str], *, learned: bool = True) -> dict[str, str]:
    """A measured run as a row of a simulation file.

    learned: whether step times are corrected by measured runs, or by physics alone.
    """
    users = int(row["concurrency"])
    requests = max(_EACH * users, _LEAST)
    facts = {name: text for name, text in row.items() if name in points.KNOWN}
    told = {"requests": str(requests), "burst_start": "true"}
    return {**facts, **told, **({} if learned else {"step_scale": "1"})}


def records(
    workers: int = 1,
    progress: Callable[[int, int], None] = lambda done, of: None,
    cancelled: Cancel = never,
    *,
    learned: bool = True,
) -> list[Row]:
    """Every run with its simulation: labels, status and message, and for each metric the measured
    and the predicted value [s], None if the run is refused.

    Raises:
        Cancelled: `cancelled` returned True before the last run.
    """
    rows = measured_rows("disaggregated")
    price = partial(record, learned=learned)
    return tables.over_processes(price, rows, workers, progress, cancelled, "runs")


def record(row: Mapping[str, str], *, learned: bool = True) -> Row:
    """One run with its simulation, see `records`.

    step_s: step time of a decode worker; 0 with one user, who never waits for another's step.
    """
    status, message, means = "ok", "", dict.fromkeys(METRICS)
    step_s, agreed = 0.0, 0.0
    try:
        outcome = simulate(points.parse(asked(row, learned=learned))).run
        means = {metric: mean_of_all(outcome, metric) for metric in METRICS}
        agreed = outcome.resolved.engine.hand_over_steps
        if int(row["concurrency"]) > 1:
            gaps = outcome.simulation
            step_s = float(np.average(gaps.gaps_s, weights=gaps.gap_counts))
    except RidgelineError as error:
        status, message = error.code, str(error)
    facts = {name: text for name, text in row.items() if not name.startswith("measured_")}
    return {
        **facts,
        "drafts": row["mtp_tokens"] or "unknown",
        "users": _users(int(row["concurrency"])),
        "lengths": f"{row['isl']}/{row['osl']}",
        "status": status,
        "message": message,
        "step_s": step_s,
        "hand_over_steps": agreed,
        **{f"measured_{metric}": float(row[f"measured_{metric}"]) for metric in METRICS},
        **{f"predicted_{metric}": means[metric] for metric in METRICS},
    }


def mean_of_all(run: Run, metric: str) -> float:
    """The mean latency [s] over all requests of the benchmark, from the simulated ones.

    The first requests and the last of each user count once; the ones between are weighted by the
    number that they represent.
    """
    users = int(run.question.concurrency or 1)
    order = np.argsort(run.simulation.arrival_s, kind="stable")
    values = getattr(run.simulation, metric)[order]
    rounds = min(len(values) // users, RAN)
    ends = [*(users * np.arange(1, rounds)), len(values) if rounds < RAN else users * rounds]
    parts = np.split(values[: ends[-1]], ends[:-1])
    means = [float(np.nanmean(part)) for part in parts]
    between = statistics.mean(means[_EARLY:-1])
    return (sum(means[:_EARLY]) + between * (RAN - _EARLY - 1) + means[-1]) / RAN


def _users(count: int) -> str:
    least = 1
    for most in _CLASSES:
        if count <= most:
            return f"{least} to {most}"
        least = most + 1
    return f"{least} and more"


def errors(found: Sequence[Row]) -> Row:
    """Number of runs, priced share [%], and for each metric the mean and median absolute error [%]
    and the median of predicted over measured.
    """
    priced = [row for row in found if row["status"] == "ok"]
    row: Row = {"runs": len(found), "priced %": round(100.0 * len(priced) / len(found), 1)}
    for metric, name in (("tpot_s", "TPOT"), ("ttft_s", "TTFT")):
        ratios = [one[f"predicted_{metric}"] / one[f"measured_{metric}"] for one in priced]
        misses = [100.0 * abs(ratio - 1.0) for ratio in ratios]
        row |= {
            f"{name} mean %": round(statistics.mean(misses), 1) if misses else None,
            f"{name} median %": round(statistics.median(misses), 1) if misses else None,
            f"{name} ratio": round(statistics.median(ratios), 2) if ratios else None,
        }
    return row


def split_table(shipped: Sequence[Row], physics: Sequence[Row]) -> list[Row]:
    """Errors of all runs with the shipped constants, and with related runs left out.

    shipped, physics: `records` with and without corrections from measured runs.
    """
    whole = {"split": AS_SHIPPED, **errors(shipped)}
    return [
        whole,
        *({"split": split, **errors(left_out(physics, by))} for split, by in SPLITS.items()),
    ]


def hand_over_steps(found: Sequence[Row]) -> int:
    """The steps of a hand-over that minimise the mean absolute error of TTFT, 0 without runs."""
    priced = [row for row in found if row["status"] == "ok"]

    def error(steps: int) -> float:
        late = (with_hand_over(row, steps) for row in priced)
        ratios = (row["predicted_ttft_s"] / row["measured_ttft_s"] for row in late)
        return statistics.mean(abs(ratio - 1.0) for ratio in ratios)

    return min(range(_MOST_STEPS + 1), key=error) if priced else 0


def with_hand_over(row: Row, steps: float) -> Row:
    """A priced run with hand-overs of `steps` steps, each of which adds a step time to TTFT.

    Later requests also arrive later because of it; this effect is ignored.
    """
    more = (steps - row["hand_over_steps"]) * row["step_s"]
    return {**row, "predicted_ttft_s": row["predicted_ttft_s"] + more, "hand_over_steps": steps}


def left_out(found: Sequence[Row], by: str) -> list[Row]:
    """Runs with the hand-over fitted on runs that do not share the column `by`."""
    known = [row for row in found if row[by] and row["status"] == "ok"]
    taught = {
        value: hand_over_steps([row for row in known if row[by] != value])
        for value in {row[by] for row in known}
    }
    refused = [row for row in found if row[by] and row["status"] != "ok"]
    return [*(with_hand_over(row, taught[row[by]]) for row in known), *refused]


def group_table(found: Sequence[Row], by: Sequence[str]) -> list[Row]:
    """Errors of the runs grouped by the columns `by`, most runs first."""
    ordered = sorted(found, key=lambda row: [str(row[name]) for name in by])
    return [{**shared, **errors(members)} for shared, members in tables.grouped(ordered, by)]


def refusals(found: Sequence[Row]) -> list[Row]:
    """Reasons why runs are refused, with counts."""
    counted = Counter((row["status"], row["message"]) for row in found if row["status"] != "ok")
    return [
        {"status": status, "runs": count, "reason": message}
        for (status, message), count in counted.most_common()
    ]


def worst(found: Sequence[Row], count: int) -> list[Row]:
    """The priced runs whose TPOT or TTFT is furthest from the measurement."""

    def distance(row: Row) -> float:
        ratios = (row[f"predicted_{m}"] / row[f"measured_{m}"] for m in METRICS)
        return max(max(ratio, 1.0 / ratio) for ratio in ratios)

    priced = [row for row in found if row["status"] == "ok"]
    names = (
        "id",
        *BY,
        "concurrency",
        *(f"{w}_{m}" for m in METRICS for w in ("measured", "predicted")),
    )
    return [
        {n: row[n] for n in names} for row in sorted(priced, key=distance, reverse=True)[:count]
    ]


# ------------------------------------------------------------------------------- kept tables


def kept_rows(shipped: Sequence[Row], physics: Sequence[Row]) -> list[Row]:
    """All tables that documents show as one: a row per split, and per value of each of `BY`."""
    rows = [{"by": "split", "of": row.pop("split"), **row} for row in split_table(shipped, physics)]
    for by in BY:
        rows += [{"by": by, "of": row.pop(by), **row} for row in group_table(shipped, (by,))]
    return [{**row, "date": tables.today()} for row in rows]


def shipped_table(by: str) -> list[Row]:
    """The kept rows for "split" or for one of `BY`, numbers as floats; [] if none were written
    yet.
    """
    rows = tables.kept("measurements", KEPT, ("by", "of"))
    return [{by: row.pop("of"), **row} for row in rows if row.pop("by") == by]

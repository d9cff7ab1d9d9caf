"""Decisions on measured frontiers: does the prediction choose the deployment measured to be best?

A question is a model, a GPU, lengths and the most time per output token.  Its candidates are its
measured loads (engine, format, degrees, open requests), of at least two deployments.  The best has
the most measured output tokens a second and GPU among those whose measured TPOT meets the target;
the chosen one has the most that can be expected: predicted tokens times the probability that the
target is met.  Its regret is the share of the best throughput that it gives away: all of it where
its measured TPOT misses the target by more than `MISSED`, or where nothing can meet the target by
prediction.

Who chooses the best of many predictions chooses errors in its favour: targets are met less often
than the probability of the chosen one says.  How much less, on runs that taught the prediction
nothing, is `correction`.
"""

from __future__ import annotations

import datetime
import math
import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from app.accuracy import measured_points
from hardware_db import tables
from hardware_db.intervals import Interval, held_out_interval, probability_below

Row = dict[str, Any]
#: (TTFT, TPOT) of a run, seconds.
Latencies = tuple[float, float]
Key = tuple[str, ...]

TARGETS_S = (0.010, 0.015, 0.020, 0.030, 0.050, 0.100)
IN_SAMPLE = "in sample"
#: What is known of a question, by split of `app.engine_fit.held_out`.
KNOWN: Mapping[str, str] = {
    IN_SAMPLE: "these runs",
    "configurations held out": "other runs of the model on the GPU",
    "one model left out": "nothing of the model",
    "one GPU left out": "nothing of the GPU",
}
#: What held-out points an interval rests on where so much is known, see `load_interval`.
_INTERVALS: Mapping[str, str] = {
    IN_SAMPLE: "recipe",
    "configurations held out": "recipe",
    "one model left out": "none",
    "one GPU left out": "none",
}
RULE = "fewest GPUs"
KEPT = "decisions"  # the table that documents and plans read
KEPT_CHOICES = "choices"  # what the probability of a chosen plan is corrected by
MISSED = 1.1  # times the target
_WITHIN = 0.05
_ALIKE = 0.05  # by which the best of two GPUs differ that are not ranked
_LEAST_LOADS = 3  # of a deployment whose most users are asked
_NORMAL = statistics.NormalDist()
_NEVER = 1e-6  # in place of probabilities of 0 and 1
_SLOPES = [at / 20.0 for at in range(4, 21)]
_SHIFTS = [-at / 20.0 for at in range(21)]
_CLASSES = (0.0, 0.5, 0.7, 0.85, 0.925, 0.975, 1.0)
_LEAST_CHOICES = 10  # of a class


@dataclass(frozen=True, slots=True)
class Load:
    """A measured load: what it is of, and its figures as measured and as predicted.

    asked: model, lengths.  deployment: engine, format, degrees.  tokens: output tokens a second and
    GPU.  tpot_s: seconds.  Each of the last two as (measured, predicted).
    spread: of measured over predicted TPOT; None for a prediction that is taken as certain.
    """

    asked: Key
    system: str
    deployment: Key
    users: int
    devices: int
    tpot_s: tuple[float, float]
    tokens: tuple[float, float]
    spread: Interval | None = None

    def chance(self, target_s: float) -> float:
        """The probability that the measured TPOT meets a target."""
        if self.spread is None:
            return float(self.tpot_s[1] <= target_s)
        slack = np.array(math.log(target_s / self.tpot_s[1]))
        return float(probability_below(slack, self.spread))


def measured_loads(predicted: Mapping[str, Latencies], known: str = "") -> list[Load]:
    """The measured serving runs that have a prediction.

    predicted: by id.  known: what held-out points their intervals rest on, "" for certain ones.
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
    )


# ------------------------------------------------------------------------------- questions


@dataclass(frozen=True, slots=True)
class Choice:
    """What is given away where a target is asked for.

    regret: share of the best measured throughput.  missed: the choice misses the target.  none:
    nothing meets it by prediction.  rule: regret of the fewest GPUs that were measured to meet it.
    said: the probability that the choice meets it; met: whether it does.
    """

    model: str
    system: str
    target_s: float
    regret: float
    missed: bool
    none: bool
    rule: float
    said: float = 0.0
    met: bool = False


def choices(loads: Sequence[Load]) -> list[Choice]:
    """Every question that some measured load answers, and what the prediction chooses."""
    found = []
    for (asked, system), members in _grouped(loads).items():
        if len({load.deployment for load in members}) < 2:
            continue
        for target in TARGETS_S:
            good = [load for load in members if load.tpot_s[0] <= target]
            if good:
                found.append(_choice(asked[0], system, target, members, good))
    return found


def _choice(
    model: str, system: str, target_s: float, members: Sequence[Load], good: Sequence[Load]
) -> Choice:
    best = max(load.tokens[0] for load in good)
    fewest = max(good, key=lambda load: (-load.devices, load.tokens[0]))
    rule = 1.0 - fewest.tokens[0] / best
    chosen = max(members, key=lambda load: load.tokens[1] * load.chance(target_s))
    said = chosen.chance(target_s)
    if not said:
        return Choice(model, system, target_s, 1.0, missed=False, none=True, rule=rule)
    missed = chosen.tpot_s[0] > MISSED * target_s
    regret = 1.0 if missed else max(0.0, 1.0 - chosen.tokens[0] / best)
    met = chosen.tpot_s[0] <= target_s
    return Choice(
        model, system, target_s, regret, missed=missed, none=False, rule=rule, said=said, met=met
    )


def _grouped(loads: Sequence[Load]) -> dict[tuple[Key, str], list[Load]]:
    groups: dict[tuple[Key, str], list[Load]] = defaultdict(list)
    for load in loads:
        groups[load.asked, load.system].append(load)
    return groups


def gpu_pairs(loads: Sequence[Load]) -> list[bool]:
    """Whether two GPUs are ranked as measured, for each pair, target and model at some lengths.

    By the most tokens a second and GPU within the target; pairs within 5 % of each other are left
    out.
    """
    by_asked: dict[Key, list[Load]] = defaultdict(list)
    for load in loads:
        by_asked[load.asked].append(load)
    right = []
    for members in by_asked.values():
        for target in TARGETS_S:
            both = [_best_of_each(members, target, of) for of in (0, 1)]
            for one, other in combinations(sorted(both[0].keys() & both[1].keys()), 2):
                measured, predicted = (best[one] / best[other] for best in both)
                if abs(measured - 1.0) >= _ALIKE:
                    right.append((measured > 1.0) == (predicted > 1.0))
    return right


def _best_of_each(members: Sequence[Load], target_s: float, of: int) -> dict[str, float]:
    """The most tokens of each system within a target.  of: 0 for measured, 1 for predicted."""
    best: dict[str, float] = defaultdict(float)
    for load in members:
        if load.tpot_s[of] <= target_s:
            best[load.system] = max(best[load.system], load.tokens[of])
    return best


def most_users(loads: Sequence[Load]) -> Iterator[float]:
    """Predicted over measured most users within a target, of each deployment that some loads miss
    it with and some meet it; half a user where none is predicted to meet it."""
    by_deployment: dict[Any, list[Load]] = defaultdict(list)
    for load in loads:
        by_deployment[load.asked, load.system, load.deployment].append(load)
    for members in by_deployment.values():
        if len(members) < _LEAST_LOADS:
            continue
        for target in TARGETS_S:
            met, said = (
                [load.users for load in members if load.tpot_s[of] <= target] for of in (0, 1)
            )
            if met and len(met) < len(members):
                yield max(said, default=0.5) / max(met)


# ------------------------------------------------------------------------------- tables


def scores(loads: Sequence[Load]) -> Row:
    """Regret of the choices, GPUs ranked and most users, in percent, with their numbers."""
    made, ranked, users = choices(loads), gpu_pairs(loads), list(most_users(loads))
    return {
        **_regret([one.regret for one in made]),
        "target missed %": _share([one.missed for one in made]),
        "none found %": _share([one.none for one in made]),
        "GPU pairs": len(ranked),
        "ranked as measured %": _share(ranked),
        "most users asked": len(users),
        "same %": _share([ratio == 1.0 for ratio in users]),
        "too many %": _share([ratio > 1.0 for ratio in users]),
    }


def _regret(values: Sequence[float]) -> Row:
    ordered = sorted(values)
    return {
        "questions": len(ordered),
        "given away %": _percent(statistics.mean(ordered)) if ordered else None,
        "median %": _percent(statistics.median(ordered)) if ordered else None,
        "within 5 % of the best %": _share([value <= _WITHIN for value in ordered]),
    }


def _share(true: Sequence[bool]) -> float | None:
    return _percent(statistics.mean(map(float, true))) if true else None


def _percent(share: float) -> float:
    return round(100.0 * share, 1)


def split_table(by_split: Mapping[str, Sequence[Load]]) -> list[Row]:
    """`scores` of each split, beside the choice of the fewest GPUs that were measured to do."""
    rows = [{"split": split, **scores(loads)} for split, loads in by_split.items()]
    whole = next(iter(by_split.values()), ())
    if rule := [one.rule for one in choices(whole)]:
        rows.append({"split": RULE, **_regret(rule)})
    names = list(rows[0]) if rows else []
    return [{name: row.get(name) for name in names} for row in rows]


def group_table(by_split: Mapping[str, Sequence[Load]], by: str) -> list[Row]:
    """Regret by split and "model", "system" or "target"."""
    rows = []
    for split, loads in by_split.items():
        groups: dict[str, list[float]] = defaultdict(list)
        for one in choices(loads):
            named = f"{one.target_s * 1e3:g} ms" if by == "target" else getattr(one, by)
            groups[named].append(one.regret)
        rows += [{"split": split, by: name, **_regret(groups[name])} for name in groups]
    return rows


def choice_rows(by_split: Mapping[str, Sequence[Load]]) -> list[Row]:
    """Every choice of every split, a row each."""
    return [{"split": s, **asdict(one)} for s, loads in by_split.items() for one in choices(loads)]


def loads_by_split() -> dict[str, list[Load]]:
    """The measured loads with their predictions, as they ship and with runs left out.

    Held-out predictions are those that `python -m app.engine_fit` keeps.
    """
    found = {IN_SAMPLE: measured_loads(in_sample(), _INTERVALS[IN_SAMPLE])}
    return found | held_out_loads()


def held_out_loads() -> dict[str, list[Load]]:
    """The measured loads with predictions that they taught nothing, by what was left out."""
    predictions = {split: held_out(split) for split in list(KNOWN)[1:]}
    return {
        split: measured_loads(predicted, _INTERVALS[split])
        for split, predicted in predictions.items()
        if predicted
    }


def in_sample() -> dict[str, Latencies]:
    """Predictions of the measured serving runs as the product makes them, by id."""
    found: dict[str, dict[str, float]] = defaultdict(dict)
    for record in measured_points.serving():
        if record["status"] == "ok":
            found[record["id"]][record["metric"]] = record["predicted_s"]
    return {name: (one["ttft_s"], one["tpot_s"]) for name, one in found.items() if len(one) == 2}


def held_out(split: str) -> dict[str, Latencies]:
    """Predictions with what a run shares with others left out, by id; {} where none was kept."""
    rows = {r["id"]: r for r in tables.table("engines", "held_out") if r["split"] == split}
    return {
        row["id"]: (
            float(rows[row["id"]]["ttft_s_ratio"]) * float(row["measured_ttft_s"]),
            float(rows[row["id"]]["tpot_s_ratio"]) * float(row["measured_tpot_s"]),
        )
        for row in measured_points.measured_rows("serving")
        if row["id"] in rows
    }


# ------------------------------------------------------------------------------- said and met


@dataclass(frozen=True, slots=True)
class Correction:
    """Of the probability that a chosen plan meets its targets, in standard deviations.

    The normal deviate z of a probability becomes slope z + shift: errors that the choice picked in
    its favour shift it down, runs that are far off flatten it.  choices: behind it.
    """

    slope: float = 1.0
    shift: float = 0.0
    choices: int = 0

    def of(self, probability: Any) -> Any:
        """A probability as it is met, at most as it was said; NaN stays."""
        said = np.asarray(probability, dtype=float)
        inner = np.clip(np.nan_to_num(said, nan=0.5), _NEVER, 1.0 - _NEVER)
        deviate = np.vectorize(_NORMAL.inv_cdf, otypes=[float])(inner)
        met = np.vectorize(_NORMAL.cdf, otypes=[float])(self.slope * deviate + self.shift)
        kept = np.where((said > 0.0) & ~np.isnan(said), np.minimum(met, said), said)
        return kept if np.ndim(probability) else float(kept)


def correction(made: Sequence[Choice]) -> Correction:
    """The correction under which what was met of some choices is most likely.

    The slope is between 0 and 1, the shift not above 0: no choice makes a target surer.
    """
    known = [one for one in made if not one.none]
    said = np.array([one.said for one in known])
    met = np.array([one.met for one in known])
    found = [Correction(slope, shift, len(known)) for slope in _SLOPES for shift in _SHIFTS]
    return max(found, key=lambda one: _likelihood(one.of(said), met))


def _likelihood(said: Any, met: Any) -> float:
    sure = np.clip(said, _NEVER, 1.0 - _NEVER)
    return float(np.sum(np.log(np.where(met, sure, 1.0 - sure))))


def reliability_rows(made: Sequence[Choice], corrected: Correction) -> list[Row]:
    """How often choices met their target by what was said of them, by class of probability.

    said, met: percent; band: ends of the share that would be met nine times of ten if what is said
    were true.
    """
    known = [one for one in made if not one.none]
    said = np.asarray(corrected.of(np.array([one.said for one in known])))
    met = np.array([one.met for one in known], dtype=float)
    place = np.clip(np.searchsorted(_CLASSES, said, side="right") - 1, 0, len(_CLASSES) - 2)
    rows = []
    for at in range(len(_CLASSES) - 1):
        here = place == at
        if here.sum() < _LEAST_CHOICES:
            continue
        mean, count = float(said[here].mean()), int(here.sum())
        half = _NORMAL.inv_cdf(0.95) * math.sqrt(mean * (1.0 - mean) / count)
        rows.append({
            "probability": f"{_CLASSES[at]:.0%} to {_CLASSES[at + 1]:.0%}",
            "choices": count,
            "said %": _percent(mean),
            "met %": _percent(float(met[here].mean())),
            "band %": f"{max(100 * (mean - half), 0):.0f} to {min(100 * (mean + half), 100):.0f}",
        })  # fmt: skip
    return rows


# ------------------------------------------------------------------------------- kept tables


def choice_corrections(by_split: Mapping[str, Sequence[Load]]) -> list[Row]:
    """The correction of each split, a row each."""
    rows = []
    for split, loads in by_split.items():
        if split != IN_SAMPLE:
            found = correction(choices(loads))
            rows.append({"split": split, **asdict(found)})
    return rows


def choices_path() -> Path:
    """Where `choice_corrections` are kept."""
    return tables.folder("measurements") / f"{KEPT_CHOICES}.csv"


def shipped_correction(split: str) -> Correction:
    """The kept correction of a split; one that changes nothing before any was written."""
    for row in tables.table("measurements", KEPT_CHOICES):
        if row["split"] == split:
            return Correction(float(row["slope"]), float(row["shift"]), int(row["choices"]))
    return Correction()


def kept_rows(by_split: Mapping[str, Sequence[Load]], day: str = "") -> list[Row]:
    """`split_table` with the day of its pricing, today's unless given."""
    day = day or datetime.datetime.now(datetime.UTC).date().isoformat()
    return [{**row, "date": day} for row in split_table(by_split)]


def kept_path() -> Path:
    """Where `kept_rows` are kept."""
    return tables.folder("measurements") / f"{KEPT}.csv"


def shipped_table() -> list[Row]:
    """The kept rows, numbers as floats; [] before any was written."""
    return [
        {
            name: text if name == "split" else _cell(text)
            for name, text in row.items()
            if name != "date"
        }
        for row in tables.table("measurements", KEPT)
    ]


def _cell(text: str) -> float | int | None:
    if not text:
        return None
    return float(text) if "." in text else int(text)


def given_away(split: str) -> Row | None:
    """The kept row of a split; None before it was written."""
    return next((row for row in shipped_table() if row["split"] == split), None)

"""Scores of choices, and tables of scores by what was left out of the fit."""

import math
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict

import numpy as np

from app.accuracy.decisions.choices import Choice, choices, gpu_pairs, most_users
from app.accuracy.decisions.correction import Correction, correction
from app.accuracy.decisions.loads import IN_SAMPLE, Load
from app.accuracy.tables import Row

RULE = "fewest GPUs"
#: Added to the name of a split without the runs below the bounds of their stated loads.
PLAUSIBLE = ", plausible runs"
#: Regret up to which a choice counts as good as the best: judgement.
_WITHIN = 0.05
#: Edges of the probability classes, narrower near 1, where plans are chosen: judgement.
_CLASSES = (0.0, 0.5, 0.7, 0.85, 0.925, 0.975, 1.0)
#: Fewest choices of a class for its share to be meaningful: judgement.
_LEAST_CHOICES = 10
#: Quantile of the normal distribution: 90 % lie between it and its negative.
_UPPER = statistics.NormalDist().inv_cdf(0.95)


def scores(loads: Sequence[Load]) -> Row:
    """Regret of the choices, ranking of GPUs and largest numbers of users, in percent, with
    counts.
    """
    made, ranked, users = choices(loads), gpu_pairs(loads), list(most_users(loads))
    return {
        **_regret([one.regret for one in made]),
        "target missed %": _share([one.missed for one in made]),
        "no plan %": _share([one.none for one in made]),
        "GPU pairs": len(ranked),
        "ranked correctly %": _share(ranked),
        "user limits": len(users),
        "limit exact %": _share([ratio == 1.0 for ratio in users]),
        "limit too high %": _share([ratio > 1.0 for ratio in users]),
    }


def _regret(values: Sequence[float]) -> Row:
    ordered = sorted(values)
    return {
        "questions": len(ordered),
        "throughput lost %": _percent(statistics.mean(ordered)) if ordered else None,
        "median %": _percent(statistics.median(ordered)) if ordered else None,
        "within 5 % of the best %": _share([value <= _WITHIN for value in ordered]),
    }


def _share(true: Sequence[bool]) -> float | None:
    return _percent(statistics.mean(map(float, true))) if true else None


def _percent(share: float) -> float:
    return round(100.0 * share, 1)


def split_table(by_split: Mapping[str, Sequence[Load]]) -> list[Row]:
    """`scores` of each split, of all its runs and of those that are plausible, and of the rule that
    chooses the fewest GPUs measured within the target.
    """
    rows = [{"split": split, **scores(loads)} for split, loads in by_split.items()]
    rows += [
        {"split": split + PLAUSIBLE, **scores([load for load in loads if load.plausible])}
        for split, loads in by_split.items()
    ]
    whole = next(iter(by_split.values()), ())
    if rule := [one.rule for one in choices(whole)]:
        rows.append({"split": RULE, **_regret(rule)})
    names = list(rows[0]) if rows else []
    return [{name: row.get(name) for name in names} for row in rows]


def group_table(by_split: Mapping[str, Sequence[Load]], by: str) -> list[Row]:
    """Regret by split and by "model", "system" or "target"."""
    rows = []
    for split, loads in by_split.items():
        groups: dict[str, list[float]] = defaultdict(list)
        for one in choices(loads):
            named = f"{one.target_s * 1e3:g} ms" if by == "target" else getattr(one, by)
            groups[named].append(one.regret)
        rows += [{"split": split, by: name, **_regret(groups[name])} for name in groups]
    return rows


def choice_rows(by_split: Mapping[str, Sequence[Load]]) -> list[Row]:
    """Every choice of every split, one row each."""
    return [{"split": s, **asdict(one)} for s, loads in by_split.items() for one in choices(loads)]


def choice_corrections(by_split: Mapping[str, Sequence[Load]]) -> list[Row]:
    """The correction of each split, one row each."""
    rows = []
    for split, loads in by_split.items():
        if split != IN_SAMPLE:
            found = correction(choices(loads))
            rows.append({"split": split, **asdict(found)})
    return rows


def reliability_rows(made: Sequence[Choice], corrected: Correction) -> list[Row]:
    """How often choices met their target, by class of predicted probability.

    said, met: percent; band: range that would hold the met share in nine of ten cases if the
    predicted probability were true.
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
        half = _UPPER * math.sqrt(mean * (1.0 - mean) / count)
        rows.append({
            "probability": f"{_CLASSES[at]:.0%} to {_CLASSES[at + 1]:.0%}",
            "choices": count,
            "said %": _percent(mean),
            "met %": _percent(float(met[here].mean())),
            "band %": f"{max(100 * (mean - half), 0):.0f} to {min(100 * (mean + half), 100):.0f}",
        })  # fmt: skip
    return rows

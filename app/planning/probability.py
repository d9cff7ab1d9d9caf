"""Probability that a deployment meets its targets, from the intervals' error model.

An interval is 80 % of measured over predicted on points that fitted nothing.  Its logarithm is
taken as normal between the ends, a tenth of the mass beyond either.  TTFT and TPOT err on their
own; what follows from TPOT (throughput, cost, the highest rate) errs with it.
Kinds that no measurement validates have twice the spread of plain deployments, an assumption.
`app.planning.reliability` shows how often targets were met by what probability.
"""

from __future__ import annotations

import numpy as np

from app.planning import demand
from app.planning.candidates import Candidates
from app.planning.targets import Target
from app.planning.track_record import correction_of
from app.question.question import Question
from genz_core.types import Array
from hardware_db.intervals import Interval, probability_below


def likely(candidates: Candidates, targets: tuple[Target, ...], question: Question) -> Array:
    """`meets` of candidates of which the best is chosen, [candidates].

    Who chooses the best of many chooses errors in its favour: as often as such choices met their
    targets on measured frontiers (`app.accuracy.decisions.correction`).
    """
    alone = meets(candidates, targets, question)
    if not targets:
        return alone
    result = alone.copy()
    for number, family in enumerate(candidates.families):
        at = candidates.family == number
        result[at] = correction_of(family).of(alone[at])
    return result


def meets(candidates: Candidates, targets: tuple[Target, ...], question: Question) -> Array:
    """P(all targets are met and the load is sustained), [candidates].

    NaN without any interval, and where nobody measured a degree or a format of the candidate.
    """
    result = np.full(len(candidates), np.nan)
    for number, family in enumerate(candidates.families):
        at = np.flatnonzero(candidates.family == number)
        those = candidates.picked(at)
        of = family.evidence(those.columns)
        known = family.error_model(those.novelty, of)
        ttft, tpot = known["ttft_s"], known["tpot_s"]
        if ttft is not None and tpot is not None:
            chance = _of_family(those, targets, demand.is_closed(question), ttft, tpot)
            result[at] = np.where(of.without & (chance > 0.0), np.nan, chance)
    return result


def _of_family(
    candidates: Candidates,
    targets: tuple[Target, ...],
    closed: bool,
    ttft: Interval,
    tpot: Interval,
) -> Array:
    columns, size = candidates.columns, len(candidates)
    certain = np.ones(size, dtype=bool)
    first = np.full(size, np.inf)
    later = np.full(size, np.inf)
    for target in targets:
        slack = target.slack(columns[target.figure.column])
        kind = _errs_with(target, closed)
        if kind == "ttft":
            first = np.minimum(first, slack)
        elif kind == "e2e":
            first, later = np.minimum(first, slack), np.minimum(later, slack)
        elif kind == "tpot":
            later = np.minimum(later, slack)
        else:
            certain &= target.met(columns[target.figure.column])
    if not closed:
        with np.errstate(divide="ignore", invalid="ignore"):
            later = np.minimum(later, -np.log(columns["utilisation"]))
    chance = probability_below(first, ttft) * probability_below(later, tpot)
    return np.where(certain & (candidates.status == "ok"), chance, 0.0)


def _errs_with(target: Target, closed: bool) -> str:
    """What a figure errs with: "ttft", "tpot", both ("e2e") or nothing ("")."""
    name = target.figure.name
    if target.figure.latency:
        return target.figure.latency
    if name == "interactivity":
        return "tpot"
    if name in ("devices", "usd_per_hour") or not closed:
        return ""
    return "tpot"

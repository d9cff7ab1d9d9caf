"""Probability that a deployment meets its targets, from the error model of the intervals.

An interval covers 80 % of measured over predicted values on points that were not fitted.  Its
logarithm is taken as normal, with a tenth of the mass beyond either end.  Errors of TTFT and TPOT
are independent; figures that follow from TPOT (throughput, cost, the highest rate) share its error.
Kinds of deployments without validation have twice the spread of plain ones, an assumption.
`app.planning.reliability` shows how often targets were met at each probability.
"""

import numpy as np

from app.planning import demand
from app.planning.candidates import Candidates
from app.planning.targets import Target
from app.planning.track_record import correction_of
from app.question.question import Question
from genz_core.types import Array
from hardware_db.intervals import Interval, probability_below


def likely(
    candidates: Candidates,
    targets: tuple[Target, ...],
    question: Question,
    leeway: float = 1.0,
) -> Array:
    """`meets`, corrected for choosing the best of many candidates, [candidates].

    Choosing the best of many favours candidates with errors in their favour; the correction is the
    rate at which such choices met their targets on measured frontiers
    (`app.accuracy.decisions.correction`).

    leeway: factor on every uncertain target.
    """
    alone = meets(candidates, targets, question, leeway)
    if not targets:
        return alone
    result = alone.copy()
    for family, at in candidates.by_family():
        result[at] = correction_of(family).of(alone[at])
    return result


def meets(
    candidates: Candidates,
    targets: tuple[Target, ...],
    question: Question,
    leeway: float = 1.0,
) -> Array:
    """P(all targets are met and the load is sustained), [candidates].

    NaN without any interval, and where a degree or a format of the candidate was never measured.
    leeway: factor on every uncertain target.
    """
    closed, more = demand.is_closed(question), float(np.log(leeway))
    result = np.full(len(candidates), np.nan)
    for family, at in candidates.by_family():
        those = candidates.picked(at)
        of = family.evidence(those.columns)
        known = family.error_model(those.novelty, of)
        ttft, tpot = known["ttft_s"], known["tpot_s"]
        if ttft is not None and tpot is not None:
            chance = _of_family(those, targets, closed, ttft, tpot, more)
            result[at] = np.where(of.without & (chance > 0.0), np.nan, chance)
    return result


def _of_family(
    candidates: Candidates,
    targets: tuple[Target, ...],
    closed: bool,
    ttft: Interval,
    tpot: Interval,
    leeway: float,
) -> Array:
    """leeway: added to the slack of uncertain targets, a logarithm."""
    columns, size = candidates.columns, len(candidates)
    certain = np.ones(size, dtype=bool)
    first = np.full(size, np.inf)
    later = np.full(size, np.inf)
    for target in targets:
        slack = target.slack(columns[target.figure.column]) + leeway
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
    """Which error a figure shares: "ttft", "tpot", both ("e2e") or none ("")."""
    name = target.figure.name
    if target.figure.latency:
        return target.figure.latency
    if name == "interactivity":
        return "tpot"
    if name in ("devices", "usd_per_hour") or not closed:
        return ""
    return "tpot"

"""Probability that a deployment meets its targets, from the intervals' error model.

An interval is 80 % of measured over predicted on points that fitted nothing.  Its logarithm is
taken as normal between the ends, a tenth of the mass beyond either.  TTFT and TPOT err on their
own; what follows from TPOT (throughput, cost, the highest rate) errs with it.
Kinds that no measurement validates have twice the spread of plain deployments, an assumption.
`app.planning.reliability` shows how often targets were met by what probability.
"""

from __future__ import annotations

import math

import numpy as np

from app.planning import demand
from app.planning.candidates import Candidates
from app.planning.targets import Target
from app.question.question import Question
from genz_core.types import Array
from hardware_db.intervals import Interval

_DECILE = 1.2815515655446004  # of a standard normal, beyond which a tenth lies
_LEAST_SPREAD = 1e-6


def probability_below(slack: Array, interval: Interval) -> Array:
    """P(measured / predicted < exp(slack)); NaN where the interval is.

    slack: ln(target / predicted), NaN for a figure that there is none of: 0.
    interval: of measured / predicted, of all or of each.
    """
    low, high = np.log(interval.low), np.log(interval.high)
    centre = (low + high) / 2.0
    spread = np.maximum((high - low) / 2.0 / _DECILE, _LEAST_SPREAD)
    deviations = (np.asarray(slack, dtype=float) - centre) / spread
    chance = np.nan_to_num(_normal_below(deviations), nan=0.0)
    return np.where(np.isnan(spread), np.nan, chance)


def _normal_below(deviations: Array) -> Array:
    """P(a standard normal number lies below each), by the C library's error function."""
    flat = [math.erfc(-value * math.sqrt(0.5)) / 2.0 for value in deviations.ravel().tolist()]
    return np.array(flat).reshape(deviations.shape)


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

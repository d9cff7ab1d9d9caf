"""Calibrate a deployment's step times with one measured TPOT.

The scale is a single factor on the time of every step, chosen so that the simulated mean TPOT
equals the measured one under the same load.  It applies to one model, format, engine and system,
however they are split.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import brentq

from app.question.question import Question
from app.question.validity import drafts, has_pool
from app.scenario.description import load_words
from app.scenario.scenario import Resolved
from app.simulation import offered_load, rows
from app.simulation.run import Run, run
from genz_core.common.progress import Cancel, Progress, never, silent
from genz_core.deployment import recipe_key
from genz_core.errors import InvalidValue
from hardware_db import recipes
from hardware_db.recipes import StepScale

#: A scale outside these limits means that the run was not the deployment described.
LEAST, MOST = 0.1, 10.0
_TOLERANCE = 1e-4
_MOST_RUNS = 30


@dataclass(frozen=True, slots=True)
class StepFit:
    """A scale of the step times, and the simulation that uses it."""

    run: Run
    scale: StepScale


def fit(
    resolved: Resolved,
    measured_tpot_s: float,
    objects: Mapping[str, Any] | None = None,
    progress: Progress = silent,
    cancelled: Cancel = never,
) -> StepFit:
    """Find the scale for which the simulated mean TPOT equals the measured one.

    Args:
        resolved: the resolved question, with the measured load.
        objects: its trace and lengths, see `app.simulation.run.run`.

    Raises:
        InvalidValue: drafts or a prefill pool, no positive TPOT, outputs of one token, or a scale
            outside [0.1, 10].
        RidgelineError, Cancelled: as `app.simulation.run.run`.
    """
    question, objects = resolved.scenario, objects or {}
    if drafts(question) or has_pool(question):
        raise InvalidValue(
            "one measured TPOT determines the step time only if each step writes one token per "
            "request and prompts run in the same steps: calibrate without speculation and without "
            "a prefill pool"
        )
    if not 0 < measured_tpot_s < math.inf:
        raise InvalidValue(f"measured TPOT = {measured_tpot_s:g}: give seconds above 0")
    drawn = offered_load.drawn(question, objects, cancelled)
    runs: dict[float, tuple[float, Run]] = {}

    def miss(log_scale: float) -> float:
        if log_scale not in runs:
            scale = math.exp(log_scale)
            share = min(len(runs) / _MOST_RUNS, 1.0)
            progress(share, f"simulation {len(runs) + 1}, steps x {scale:.3f}")
            tried = replace(resolved, scenario=replace(question, step_scale=scale))
            answer = run(tried, objects, cancelled=cancelled, drawn=drawn)
            runs[log_scale] = _error(answer, measured_tpot_s), answer
        return runs[log_scale][0]

    low, high = _bracket(miss)
    if low < high:
        brentq(miss, low, high, xtol=_TOLERANCE / 10)
    nearest = min(runs, key=lambda tried: abs(runs[tried][0]))
    found = runs[nearest][1]
    words, today = _words(question, found.requests), date.today().isoformat()
    split = recipes.degrees_of(question.parallelism)
    return StepFit(found, StepScale(math.exp(nearest), measured_tpot_s, words, today, split))


def _error(answer: Run, measured_tpot_s: float) -> float:
    """Logarithm of simulated over measured mean TPOT."""
    tpot_s = answer.simulation.summary()["tpot_mean_s"]
    if math.isnan(tpot_s):
        raise InvalidValue("no request of this load has a second token: there is no TPOT to match")
    return math.log(tpot_s / measured_tpot_s)


def _bracket(miss: Callable[[float], float]) -> tuple[float, float]:
    """Logarithms of two scales that bracket the measured TPOT, or of one that matches it."""
    here, at = miss(0.0), 0.0
    while abs(here) > _TOLERANCE:
        nearest = at - here
        following = float(np.clip(nearest - 0.1 * np.sign(here), math.log(LEAST), math.log(MOST)))
        there = miss(following)
        if here * there <= 0:
            return min(at, following), max(at, following)
        if following in (math.log(LEAST), math.log(MOST)):
            raise InvalidValue(
                f"no scale of the step from {LEAST:g} to {MOST:g} gives the measured TPOT: check "
                "that model, parallelism, format, engine and load are those of the run"
            )
        here, at = there, following
    return at, at


def keep(fitted: StepFit) -> Path:
    """Save a scale among the user's calibrations; returns its file."""
    resolved = fitted.run.resolved
    key = recipe_key(resolved.engine, resolved.model, resolved.system)
    return recipes.keep_step_scale(key, fitted.scale)


def forget(resolved: Resolved) -> bool:
    """Delete the scale that applies to a deployment; returns whether there was one."""
    key = recipe_key(resolved.engine, resolved.model, resolved.system)
    return recipes.forget_step_scale(key)


def beside(fitted: StepFit, measured: Mapping[str, float]) -> list[dict[str, Any]]:
    """Measured and simulated figures, one row each, where both are known."""
    simulated = rows.figures(fitted.run)
    return [
        {
            "figure": name,
            "measured": value,
            "simulated": simulated[name],
            "error": simulated[name] / value - 1.0,
        }
        for name, value in measured.items()
        if name in simulated and value > 0
    ]


def _words(question: Question, count: int) -> str:
    own = question.trace or question.lengths
    lengths = "" if own else f" of {question.isl}/{question.osl} tokens"
    return f"{load_words(question)}: {count:,} requests{lengths}"

"""One measured TPOT sets the scale of a deployment's steps; the simulation tells the rest.

The scale is the one factor on the time of every step with which the simulated mean TPOT equals
the measured one, under the same load.  It holds for one model, format, engine, system and split.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import brentq

from app.scenario.scenario import Resolved
from app.simulation import rows
from app.simulation.run import Run, Settings, run
from genz_core.deployment import recipe_key
from genz_core.errors import InvalidValue
from genz_core.progress import Cancel, Progress, never, silent
from hardware_db import recipes
from hardware_db.recipes import StepScale

#: A scale beyond these says that something else ran than what is described.
LEAST, MOST = 0.1, 10.0
_TOLERANCE = 1e-4
_MOST_RUNS = 30


@dataclass(frozen=True, slots=True)
class StepFit:
    """A scale of the step, and the simulation with it."""

    run: Run
    scale: StepScale


def fit(
    resolved: Resolved,
    settings: Settings,
    measured_tpot_s: float,
    progress: Progress = silent,
    cancelled: Cancel = never,
) -> StepFit:
    """Find the scale with which the simulated mean TPOT is the measured one.

    Raises:
        InvalidValue: drafts or a prefill pool, no positive TPOT, outputs of one token, or a scale
            outside [0.1, 10].
        RidgelineError, Cancelled: as `app.simulation.run.run`.
    """
    if settings.drafting.speculation or settings.prefill:
        raise InvalidValue(
            "one measured TPOT tells the time of a step only where a step writes a token and reads "
            "prompts too: calibrate without speculation and without a prefill pool"
        )
    if not 0 < measured_tpot_s < math.inf:
        raise InvalidValue(f"a measured TPOT of {measured_tpot_s:g}: give seconds above 0")
    drawn = settings.load.drawn(cancelled)
    runs: dict[float, tuple[float, Run]] = {}

    def miss(log_scale: float) -> float:
        if log_scale not in runs:
            scale = math.exp(log_scale)
            share = min(len(runs) / _MOST_RUNS, 1.0)
            progress(share, f"simulation {len(runs) + 1}, steps x {scale:.3f}")
            tried = replace(settings, step_scale=scale)
            answer = run(resolved, tried, cancelled=cancelled, drawn=drawn)
            runs[log_scale] = _error(answer, measured_tpot_s), answer
        return runs[log_scale][0]

    low, high = _bracket(miss)
    if low < high:
        brentq(miss, low, high, xtol=_TOLERANCE / 10)
    nearest = min(runs, key=lambda tried: abs(runs[tried][0]))
    words = _words(settings, len(drawn.requests))
    today = date.today().isoformat()
    return StepFit(runs[nearest][1], StepScale(math.exp(nearest), measured_tpot_s, words, today))


def _error(answer: Run, measured_tpot_s: float) -> float:
    """Logarithm of the simulated over the measured mean TPOT.

    Raises:
        InvalidValue: no request has a second token.
    """
    tpot = answer.simulation.tpot_s
    if not np.isfinite(tpot).any():
        raise InvalidValue("no request of this load has a second token: there is no TPOT to match")
    return math.log(float(np.nanmean(tpot)) / measured_tpot_s)


def _bracket(miss: Callable[[float], float]) -> tuple[float, float]:
    """Logarithms of two scales on both sides of the measured TPOT, or one that meets it.

    Raises:
        InvalidValue: no scale in [LEAST, MOST] meets it.
    """
    here, at = miss(0.0), 0.0
    while abs(here) > _TOLERANCE:
        nearest = at - here
        following = float(np.clip(nearest - 0.1 * np.sign(here), math.log(LEAST), math.log(MOST)))
        there = miss(following)
        if here * there <= 0:
            return min(at, following), max(at, following)
        if following in (math.log(LEAST), math.log(MOST)):
            raise InvalidValue(
                f"no scale of the step from {LEAST:g} to {MOST:g} gives the measured TPOT: was "
                "another model, split, format, engine or load measured?"
            )
        here, at = there, following
    return at, at


def keep(fitted: StepFit) -> Path:
    """Save a scale among the user's own calibrations; returns their file."""
    resolved = fitted.run.resolved
    key = recipe_key(resolved.engine, resolved.model, resolved.system)
    return recipes.keep_step_scale(key, resolved.scenario.parallelism, fitted.scale)


def forget(resolved: Resolved) -> bool:
    """Drop the scale of a deployment; returns whether one was kept."""
    key = recipe_key(resolved.engine, resolved.model, resolved.system)
    return recipes.forget_step_scale(key, resolved.scenario.parallelism)


def beside(fitted: StepFit, measured: Mapping[str, float]) -> list[dict[str, Any]]:
    """Measured figures beside the simulated ones, a row each, where both are known."""
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


def _words(settings: Settings, count: int) -> str:
    load = settings.load
    if load.concurrency:
        asked = f"concurrency {load.concurrency}"
    elif load.rate:
        asked = f"{load.rate:g} requests/s"
    else:
        asked = "a trace"
    lengths = "" if load.trace or load.lengths is not None else f" of {load.isl}/{load.osl} tokens"
    return f"{asked}: {count:,} requests{lengths}"

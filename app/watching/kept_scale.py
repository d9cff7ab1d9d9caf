"""The calibration that a watch updates: the scale of a deployment's steps."""

import math
from datetime import date
from pathlib import Path

from scipy.optimize import brentq

from app.calibration.from_one_run import LEAST, MOST
from app.question.query import Query
from app.scenario.scenario import resolve
from app.watching.prediction import Pricing, mean_of
from app.watching.watch import LEARN
from app.watching.windows import Watched
from genz_core.deployment import recipe_key
from genz_core.errors import InvalidValue
from hardware_db import recipes
from hardware_db.recipes import StepScale


def scale_of(query: Query, found: Watched) -> StepScale:
    """The scale of the steps for which the predicted TPOT equals that of the latest windows.

    Raises:
        InvalidValue: too few windows could be judged, or no scale from 0.1 to 10 does it.
    """
    recent = [one for one in found.windows if not one.why and one.measured["tpot_s"] > 0][-LEARN:]
    if len(recent) < LEARN:
        raise InvalidValue(
            f"{len(recent)} windows with a TPOT that can be compared: watch at least {LEARN}"
        )
    pricing, where = Pricing(query), mean_of([one.conditions for one in recent])
    measured = sum(one.measured["tpot_s"] for one in recent) / len(recent)

    def miss(log: float) -> float:
        return math.log(pricing.at(where, math.exp(log)).values["tpot_s"] / measured)

    ends = math.log(LEAST), math.log(MOST)
    low, high = map(miss, ends)
    if not low * high < 0:
        raise InvalidValue(
            f"no scale of the step from {LEAST:g} to {MOST:g} gives the measured TPOT: check that "
            "model, parallelism, format and engine are those of the server"
        )
    words = f"{len(recent)} windows of a live server, {where.users:.3g} requests in flight"
    scale = math.exp(float(brentq(miss, *ends, xtol=1e-4)))
    split = recipes.degrees_of(query.question.parallelism)
    return StepScale(scale, measured, words, date.today().isoformat(), split)


def keep(query: Query, scale: StepScale) -> Path:
    """Save a scale among the user's own calibrations; returns their file."""
    resolved = resolve(query.question, query.objects)
    key = recipe_key(resolved.engine, resolved.model, resolved.system)
    return recipes.keep_step_scale(key, scale)

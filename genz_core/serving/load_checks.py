"""Checks of a load, and its conversion for a kind of model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from genz_core.errors import InvalidValue, UnsupportedModel
from genz_core.graphs import Model
from genz_core.models.model_kinds import generates, model_kind
from genz_core.serving.traffic import Traffic
from genz_core.types import Array, Num, Workload

#: Tokens by which a product of lengths and ratios may miss a whole number.
_ROUNDING = 1e-6


def of_kind(model: Model, traffic: Traffic) -> Traffic:
    """The load adapted to the kind of model: an encoder's requests end with their single pass.

    Raises:
        UnsupportedModel: a diffusion model, whose batching under load is not described.
    """
    if model_kind(model) == "diffusion":
        raise UnsupportedModel(
            f"{model.name} is a block-diffusion model, whose batching under load is not modelled: "
            "predict a static batch with estimate or sweep"
        )
    return traffic if generates(model) else replace(traffic, osl=1)


def check_load(traffic: Traffic) -> None:
    """Raise `InvalidValue` for a load or a length ratio outside its range, see `serve`."""
    if (traffic.concurrency is None) == (traffic.rate_per_s is None):
        raise InvalidValue("give either a concurrency or an arrival rate")
    if traffic.concurrency is not None:
        users = np.atleast_1d(np.asarray(traffic.concurrency, dtype=float))
        wrong = users[~(np.isfinite(users) & (users >= 1.0) & (users == np.floor(users)))]
        if wrong.size:
            raise InvalidValue(f"concurrency = {wrong[0]:g}: give a whole number of at least 1")
    ratio = np.atleast_1d(np.asarray(traffic.length_ratio, dtype=float))
    wrong = ratio[~((ratio > 0.0) & (ratio <= 1.0))]
    if wrong.size:
        raise InvalidValue(
            f"length_ratio = {wrong[0]:g}: give a ratio of shortest to nominal length above 0, up "
            "to 1"
        )
    limits = (("stream_interval", 1), ("recv_interval", 1), ("batch_wait", 0), ("pause_s", 0))
    for name, least in limits:
        asked = getattr(traffic, name)
        if not (np.asarray(asked, dtype=float) >= least).all():
            raise InvalidValue(f"{name} = {np.min(asked):g}: give a number of at least {least}")
    if traffic.rate_per_s is not None and np.any(~(rates(traffic) > 0)):
        raise InvalidValue(
            f"an arrival rate must be above 0 requests per second, not {rates(traffic).min():g}"
        )


def rates(traffic: Traffic) -> Array:
    """Arrival rates [requests/s], [configs]."""
    return np.atleast_1d(np.asarray(traffic.rate_per_s, dtype=float))


def whole_lengths(nominal: Num, ratio: Num) -> tuple[Array, Array]:
    """Shortest and longest length in whole tokens, where lengths are uniform in [ratio, 1] of the
    nominal one.
    """
    longest = np.asarray(nominal, dtype=float)
    most = np.floor(longest + _ROUNDING)
    least = np.minimum(np.ceil(longest * ratio - _ROUNDING), most)
    return np.maximum(least, 1.0), np.maximum(most, 1.0)


def longest_lengths(load: Workload, ratio: Num) -> Workload:
    """The load with its longest lengths; equal ones as they are."""
    equal = np.asarray(ratio) == 1.0
    isl, osl = (
        np.where(equal, nominal, whole_lengths(nominal, ratio)[1])
        for nominal in (load.isl, load.osl)
    )
    return Workload(load.batch, isl, osl)


def real_lengths(load: Workload, ratio: Num) -> Workload:
    """The load with mean lengths, where real lengths are `whole_lengths` of the nominal ones."""
    isl, osl = (sum(whole_lengths(nominal, ratio)) / 2.0 for nominal in (load.isl, load.osl))
    return Workload(load.batch, isl, osl)

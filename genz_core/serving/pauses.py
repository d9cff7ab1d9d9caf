"""Users of a closed loop who pause: how many requests are open, and what they cost.

Of N users, each sends a request every E + Z seconds: it is open for E, and then its user pauses for
Z.  A request finds each of the others open for this share of the time, so that it is one of

    n = 1 + (N - 1) E(n) / (E(n) + Z)

open requests, itself included.  This is mean value analysis (Reiser and Lavenberg 1980,
doi:10.1145/322186.322195) with the approximation of Schweitzer (1979) that a request finds the
others as they are on average.  Without pauses n is N; after very long ones it is 1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import numpy as np

from genz_core.serving.traffic import MEANS, ServingEstimate, Traffic
from genz_core.types import Array

#: Accepted imbalance, relative to the open requests, and most numbers of them tried.
_TOLERANCE, _TRIES = 1e-4, 40


def with_pauses(traffic: Traffic, price: Callable[[Traffic], ServingEstimate]) -> ServingEstimate:
    """The figures of a load whose users pause for `traffic.pause_s` after each request.

    Pauses do not change a load of a given rate.

    price: serves a load without pauses; its number of open requests may be a fraction.

    Raises:
        InvalidValue: see `genz_core.serve`.
    """
    if traffic.concurrency is None or not np.any(traffic.pause_s):
        return price(traffic)

    asked = np.broadcast_arrays(np.asarray(traffic.concurrency, dtype=float), traffic.pause_s)

    def of(open_requests: Array) -> ServingEstimate:
        return price(replace(traffic, concurrency=open_requests, pause_s=0.0))

    one, many = of(np.ones_like(asked[0])), of(asked[0])
    users, pause_s = (np.broadcast_to(values, many.status.shape) for values in asked)

    def between(open_requests: Array) -> ServingEstimate:
        return _beside(one, of(np.maximum(open_requests, 2.0)), open_requests)

    found = _balanced(between, (one, many), users, pause_s)
    requests_per_s = users / (_open_s(found) + pause_s)
    paused = replace(
        found,
        output_tokens_per_s=requests_per_s * found.osl * found.traffic.sharing.kept,
        traffic=replace(found.traffic, concurrency=users, pause_s=pause_s),
    )
    return replace(paused, running=np.minimum(found.running, paused.open_requests))


def _beside(
    one: ServingEstimate, several: ServingEstimate, open_requests: Array
) -> ServingEstimate:
    """The figures of `several` open requests, below two of them between those and those of `one`,
    because a request either meets others or does not.
    """
    alone = np.clip(2.0 - open_requests, 0.0, 1.0)
    if not alone.any():
        return several

    def mean(first: Array, later: Array) -> Array:
        return np.where(alone > 0.0, alone * first + (1.0 - alone) * later, later)

    means: dict[str, Any] = {
        each.name: mean(getattr(one, each.name), getattr(several, each.name))
        for each in fields(several)
        if each.name in MEANS
    }
    requests_per_s = open_requests / mean(_open_s(one), _open_s(several))
    return replace(
        several,
        **means,
        running=mean(one.running, several.running),
        output_tokens_per_s=requests_per_s * several.osl * several.traffic.sharing.kept,
        traffic=replace(several.traffic, concurrency=open_requests),
    )


def _balanced(
    of: Callable[[Array], ServingEstimate],
    ends: tuple[ServingEstimate, ServingEstimate],
    users: Array,
    pause_s: Array,
) -> ServingEstimate:
    """The figures of n open requests, by false position (in the Illinois variant: an end that is
    kept twice counts half).

    ends: of one, and of all users.
    """
    low, high = np.ones_like(users), users
    under, over = (_beyond(found, users, pause_s) for found in ends)
    middle, settled = high, np.zeros(users.shape, dtype=bool)
    rose = settled
    for tried in range(_TRIES):
        share = np.clip(-under / np.maximum(over - under, 1e-300), 0.0, 1.0)
        tries = np.where(np.isfinite(share), low + (high - low) * share, 1.0)
        middle = np.where(settled, middle, tries)
        found = of(middle)
        beyond = _beyond(found, users, pause_s)
        settled = ~(np.abs(beyond) > _TOLERANCE * middle)
        if settled.all():
            break
        rises = beyond < 0.0
        half = np.where((rises == rose) & (tried > 0), 0.5, 1.0)
        low, under = np.where(rises, (middle, beyond), (low, under * half))
        high, over = np.where(rises, (high, over * half), (middle, beyond))
        rose = rises
    return found


def _beyond(found: ServingEstimate, users: Array, pause_s: Array) -> Array:
    """Open requests of `found`, minus those that a request of as many users finds, and itself."""
    open_s = _open_s(found)
    others = (users - 1.0) * open_s / (open_s + pause_s)
    return np.asarray(found.traffic.concurrency, dtype=float) - 1.0 - others


def _open_s(found: ServingEstimate) -> Array:
    """Time for which a request is open, by Little's law [s]."""
    return np.asarray(found.traffic.concurrency, dtype=float) / found.requests_per_s

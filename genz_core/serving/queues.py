"""Queueing formulas used by several parts of serving, each with its source.

Sources: Sakasegawa, Annals of the Institute of Statistical Mathematics 29 (1977), 67-75 (several
servers); Kleinrock, Queueing Systems 1 (1975) (M/M/1, M/G/1); Ridgeline's where marked as derived.
"""

from __future__ import annotations

import math

import numpy as np

from genz_core.types import Array, Num

POISSON_TERMS = 64  # terms of the sum for the largest of several Poisson numbers
_NOTHING = 1e-20  # terms up to this size are negligible
MANY = 30.0  # the mean from which a Poisson number is taken as nearly normal
_DEVIATIONS = np.linspace(-8.0, 8.0, 401)  # standard deviations from the mean
_BELOW = np.array([0.5 * (1.0 + math.erf(far / math.sqrt(2.0))) for far in _DEVIATIONS])

#: Utilisation up to which a queue is taken to have a finite length: judgement.
FULLEST = 0.9995
#: Arrivals per prefill step above which the step is taken to be full: judgement.
MOST_READING = 6.0


def all_busy(used: Array, servers: Num) -> Array:
    """Probability that an arrival finds all servers busy, M/M/c (Sakasegawa).

    used: share of time that a server is busy.
    """
    return np.asarray(used ** (np.sqrt(2.0 * (servers + 1.0)) - 1.0))


def all_occupied(open_: Array, servers: Num) -> tuple[Array, Array]:
    """Probability that no server is without a request, and the mean share of those with some, where
    each request is sent to the server with the fewest.

    open_: mean of the number of requests, a Poisson number.
    """
    most = np.broadcast_to(servers, np.shape(open_)).astype(float)
    term = np.exp(-open_)
    below, some = np.zeros_like(term), np.zeros_like(term)  # P(n < servers), E[n; n < servers]
    for number in range(int(most.max(initial=0.0))):
        fewer = number < most
        below, some = below + fewer * term, some + fewer * number * term
        term = term * open_ / (number + 1.0)
    full = np.maximum(1.0 - below, 0.0)
    return full, (some + most * full) / most


def waited(used: Array, servers: Num) -> Array:
    """Mean wait in units of the service time, M/M/c (Sakasegawa).

    For M/D/c it is half: exact for one server (Pollaczek-Khinchine), an approximation for several.

    used: share of time that a server is busy, below 1.
    """
    return all_busy(used, servers) / servers / (1.0 - used)


def busy_share(used: Array, arriving: Array, several: Array) -> Array:
    """Share of time that a server is busy if it processes all waiting requests in one step.

    A step is followed by another unless no request arrived during it: e^a steps in a row, then a
    pause of 1 / a steps.  Derived for Poisson arrivals, a of them per step.

    used: utilisation with one request per step.  arriving: a.  several: whether a step can hold
    more than one, 0 to 1.
    """
    arriving = np.minimum(arriving, MOST_READING)
    chain = arriving * np.exp(arriving)
    return used + several * np.maximum(chain / (1.0 + chain) - used, 0.0)


def median_share(waits: Array) -> Array:
    """Median over mean of a wait that only a share of the arrivals has, with an exponential tail.

    Derived from P(W > t) = p e^(-p t / mean), as in M/M/c (Kleinrock).
    waits: p.
    """
    some = np.maximum(waits, 0.5)
    return np.log(2.0 * some) / some


def at_most(most: Array, mean: Array) -> Array:
    """P(N <= most) of a Poisson number N with this mean; 0 where `most` is negative."""
    term = np.exp(-mean)
    found = np.where(most >= 0.0, term, 0.0)
    for number in range(1, int(np.max(most, initial=0.0)) + 1):
        term = term * mean / number
        if term.max(initial=0.0) < _NOTHING and number > np.max(mean, initial=0.0):
            break
        found = found + np.where(most >= number, term, 0.0)
    return np.minimum(found, 1.0)


def largest(mean: Array, of: Array) -> tuple[Array, Array]:
    """P(any), and the mean of the largest of `of` Poisson numbers with this mean, given any."""
    any_at_all = -np.expm1(-mean * of)
    safe = np.maximum(any_at_all, 1e-300)
    if (of == 1.0).all():
        return any_at_all, np.where(mean > 1e-12, mean / safe, 1.0)
    few = np.minimum(mean, MANY)
    term = below = np.exp(-few)
    total = 1.0 - below**of
    for number in range(1, POISSON_TERMS):
        term = term * few / number
        below = np.minimum(below + term, 1.0)
        total = total + 1.0 - below**of
        if term.max(initial=0.0) < _NOTHING and number > few.max(initial=0.0):
            break
    if np.any(mean > MANY):
        total = np.where(mean > MANY, _largest_of_many(mean, of), total)
    return any_at_all, np.where(mean > 1e-12, np.maximum(total / safe, 1.0), 1.0)


def _largest_of_many(mean: Array, of: Array) -> Array:
    """Mean of the largest of `of` Poisson numbers of a large mean.

    Quantiles of one are mean + sqrt(mean) z + (z^2 - 1) / 6, with those of a normal number z
    (Cornish and Fisher, Revue de l'Institut International de Statistique 5 (1938), 307-320).
    """
    sizes, places = np.unique(of, return_inverse=True)
    chances = np.diff(_BELOW ** sizes[:, None], axis=1)
    middle = (_DEVIATIONS[1:] + _DEVIATIONS[:-1]) / 2.0
    first, second = (
        (chances @ power)[places].reshape(np.shape(of)) for power in (middle, middle**2)
    )
    largest: Array = mean + np.sqrt(mean) * first + (second - 1.0) / 6.0
    return largest

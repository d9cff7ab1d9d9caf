"""Queueing formulas used by several parts of serving, each with its source.

Sources: Sakasegawa, Annals of the Institute of Statistical Mathematics 29 (1977), 67-75 (several
servers); Kleinrock, Queueing Systems 1 (1975) (M/M/1, M/G/1); Ridgeline's where marked as derived.
"""

from __future__ import annotations

import numpy as np

from genz_core.types import Array, Num

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

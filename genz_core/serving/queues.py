"""Formulas of queues that several parts of serving share, each with its source.

Sources: Sakasegawa, Annals of the Institute of Statistical Mathematics 29 (1977), 67-75 (several
servers); Kleinrock, Queueing Systems 1 (1975) (M/M/1, M/G/1); Ridgeline's where it says derived.
"""

from __future__ import annotations

import numpy as np

from genz_core.types import Array, Num

#: Share of what is sustained at which a queue still has a finite length: judgement.
FULLEST = 0.9995
#: Arrivals in a step that reads, beyond which its length is that of its room: judgement.
MOST_READING = 6.0


def all_busy(used: Array, servers: Num) -> Array:
    """Chance that an arrival finds all servers busy, M/M/c (Sakasegawa).

    used: share of the time that a server is busy.
    """
    return np.asarray(used ** (np.sqrt(2.0 * (servers + 1.0)) - 1.0))


def waited(used: Array, servers: Num) -> Array:
    """Mean wait in times of a service, M/M/c (Sakasegawa).

    M/D/c has half of it: exact for one server (Pollaczek-Khinchine), an approximation for several.

    used: share of the time that a server is busy, below 1.
    """
    return all_busy(used, servers) / servers / (1.0 - used)


def busy_share(used: Array, arriving: Array, several: Array) -> Array:
    """Share of the time that a server which reads all that wait in one step is busy.

    One step follows another unless nobody arrived while it ran: e^a in a row, then a pause of 1 / a
    steps.  Derived for Poisson arrivals, a of them in a step.

    used: where a step reads one.  arriving: a.  several: whether a step has room for more, 0 to 1.
    """
    arriving = np.minimum(arriving, MOST_READING)
    chain = arriving * np.exp(arriving)
    return used + several * np.maximum(chain / (1.0 + chain) - used, 0.0)


def median_share(waits: Array) -> Array:
    """Median over mean of a wait that a share of the arrivals has, with an exponential tail.

    Derived from P(W > t) = p e^(-p t / mean), as in M/M/c (Kleinrock).
    waits: p.
    """
    some = np.maximum(waits, 0.5)
    return np.log(2.0 * some) / some

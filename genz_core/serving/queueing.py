"""Latencies of requests under continuous batching, in closed form.

A step of the engine serves D decodes and, when a request enters, the tokens of its prompt.  With
t(D) the decode step, W the time that one prompt adds to the steps it rides on, and every request
entering once per osl tokens of its predecessor::

    D     = min(C, sequences whose cache fits, sequences the engine runs)
    TPOT  = t(D) + W (D - 1) / osl / dp^0.7
    rho   = W (D - 1) / (osl TPOT)                    share of time spent on others' prompts
    TTFT  = request + queue_steps t(D) + own prefill + (chunks - 1) t(D)
            + W [first_wave (D - 1) / 2  +  (1 - first_wave) rho / (2 (1 - rho)) (1 - 1/D)]
            + (C / D - 1)+ 0.8 osl TPOT               waiting for the cache of others

The first of the `waves` of a closed-loop benchmark arrives at once, so its requests wait for half
of the others' prompts; later ones meet an M/D/1-like queue.
Source of the queue's term: Kleinrock, Queueing Systems 1 (1975), ch. 5; the form as a whole is
Ridgeline's and is validated by `ridgeline validate serving`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from genz_core.engine import EngineProfile
from genz_core.types import Array

_HOLD = 0.8  # of a resident's stay that a request waits when the cache is full
_RANKS = 0.7  # exponent of dp in how prompts spread over attention ranks
_RHO_MAX = 0.95


@dataclass(frozen=True, slots=True)
class Steps:
    """Times of the steps of a load [s], [configs].

    decode_s: t(D).  added_s: W.  alone_s: prefill of one prompt; own_s: the same under load, with
    the decode steps that its further chunks ride on.
    bound_decode_s, bound_alone_s: the least that t(D) and a prompt alone can take.
    """

    decode_s: Array
    bound_decode_s: Array
    added_s: Array
    alone_s: Array
    own_s: Array
    bound_alone_s: Array


@dataclass(frozen=True, slots=True)
class Residents:
    """Sequences and users that share the steps, [configs].

    running: sequences in a step, D.  users: open requests, C.  osl: tokens each generates.
    ranks: attention data parallel ranks they spread over, dp.
    """

    running: Array
    users: Array
    osl: Array
    ranks: Array


@dataclass(frozen=True, slots=True)
class Latencies:
    """Latencies of a request [s], and the share of time spent on others' prompts, [configs]."""

    ttft_s: Array
    ttft_median_s: Array
    tpot_s: Array
    share: Array


def gap_s(steps: Steps, load: Residents) -> tuple[Array, Array]:
    """TPOT [s], and the share of time spent on other requests' prompts, [configs]."""
    others = np.maximum(load.running - 1.0, 0.0)
    stolen = steps.added_s * others / np.maximum(load.osl, 1.0) / load.ranks**_RANKS
    tpot = steps.decode_s + stolen
    return tpot, np.minimum(stolen / tpot, _RHO_MAX)


def latencies(steps: Steps, load: Residents, engine: EngineProfile, waves: float) -> Latencies:
    """TTFT, mean (the equation of the module's docstring) and median, and TPOT [s], [configs].

    The steady queue is empty with probability 1 - rho and has an exponential tail beyond, so
    half of the requests wait less than tau ln(2 rho), tau its mean where there is a queue.

    Args:
        steps, load: the times of the steps and the sequences that share them.
        waves: requests per slot of a closed loop, 0 for a loop without a start.
    """
    tpot, share = gap_s(steps, load)
    first = 1.0 / waves if waves else 0.0
    burst = np.maximum(load.running - 1.0, 0.0) / 2.0
    queue = share / (2.0 * (1.0 - share)) * (1.0 - 1.0 / load.running)
    busy = np.maximum(share, 0.5)
    half = np.where(share > 0.5, queue / busy * np.log(2.0 * busy), 0.0)
    start = engine.host_request_s + engine.queue_steps * steps.decode_s + steps.own_s
    waiting = np.maximum(load.users / load.running - 1.0, 0.0)
    start = start + waiting * _HOLD * load.osl * tpot
    mean = start + steps.added_s * (first * burst + (1.0 - first) * queue)
    return Latencies(mean, np.minimum(start + steps.added_s * half, mean), tpot, share)

"""Where a load and an engine's steps agree: sequences that decode, times of their requests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from genz_core.serving.arrivals import paced, read_s
from genz_core.serving.queueing import Batching, Pace
from genz_core.types import Array, Mask, Places

_GRID = 14  # numbers of decodes that a balance is looked for among
_OPEN_GRID = 20  # the same at a rate, without a closer look
_FINER = 9  # between two of them
_CLOSER = 3  # times that it is looked for between two of those
#: Of the requests admitted that a balance may have too many or too few.
_TOLERANCE = 0.002
_LEAST = 1e-8  # of the requests admitted that decode in a closed loop
_LEAST_OPEN = 1e-4  # of those that may decode at a rate
#: Gaps between the tokens of a request of one token, so that it is priced as one of a little more.
_READER_GAPS = 1e-5


@dataclass(frozen=True, slots=True)
class Balance:
    """A load in balance, [configs].

    running: admitted requests.  ttft_s, ttft_median_s: of a request; cycle_s: between two of its
    steps.  outside_s: of a TTFT, what measured runs say of a wait outside of steps.
    requests_per_s: completed.  utilisation: see `ServingEstimate`.
    most_per_s: requests that the deployment sustains, infinite in a closed loop.
    """

    running: Array
    ttft_s: Array
    ttft_median_s: Array
    outside_s: Array
    cycle_s: Array
    requests_per_s: Array
    utilisation: Array
    most_per_s: Array


def closed_loop(
    batching: Batching, of: Places, users: Array, limit: Array, ranks: Array, steps: Array
) -> Balance:
    """Closed loop: each user sends its next request when the last one completes.

    The requests admitted decode or wait for their first token, D + X TTFT of them by Little's law;
    the others wait for their room, or outside of the engine.  of: the batching that each load has,
    of those priced.  users, limit: per rank; steps: measured over priced time of one, [configs].
    """
    reader = batching.steps[of] <= 1.0
    batching = replace(batching, steps=np.maximum(batching.steps, 1.0 + _READER_GAPS))
    batching = replace(batching, joined=batching.in_step())
    clump = batching.clump_steps()
    pace, mean_s = _decoding(batching, clump)
    inside, median, cycle = (seconds[of] * steps for seconds in _paced(batching, pace, mean_s))
    late = 1.0 + np.broadcast_to(batching.wait, batching.isl.shape)[of]
    gaps, admitted = batching.steps[of] - 1.0, batching.admitted[of]
    first = inside * late
    served = np.minimum(admitted / (inside + gaps * cycle), users / (first + gaps * cycle))
    if np.any(reader):
        at_most = batching.prompts_per_s()[of] / steps
        several = np.minimum(batching.wave_steps(), batching.admitted)
        full = (several >= 2.0)[of]  # while a step is read others fill the next one
        served = np.where(reader, np.where(full, at_most, np.minimum(served, at_most)), served)
        first = np.where(reader, users / served, first)
        median = np.where(reader, first / late, median)
    answer = np.where(reader, 0.0, gaps * cycle)
    queue = np.maximum(users / served - answer - first, 0.0)
    burst: Array | float = 0.0
    if np.any(batching.waves):
        waves, wave = batching.waves[of], batching.first_wave_s()[of] * steps * late
        behind = np.maximum(wave - first, 0.0) / np.where(waves > 0, waves, 1.0)
        burst = np.where(waves > 0, behind, 0.0)
    mean = first + burst + queue
    return Balance(
        running=np.minimum(users, limit) * ranks,
        ttft_s=mean,
        ttft_median_s=np.minimum(median * late, first + burst) + queue,
        outside_s=inside * (late - 1.0),
        cycle_s=cycle,
        requests_per_s=served * ranks,
        utilisation=np.where(reader, 1.0, 1.0 - np.minimum(pace.plain_s[of] * steps / cycle, 1.0)),
        most_per_s=np.full_like(mean, np.inf),
    )


def _decoding(batching: Batching, clump: Array) -> tuple[Pace, Array]:
    """Requests of a rank that decode in balance, of those admitted, [configs], and their TTFT [s].

    Looked for more closely where a queue is so near its limit that few more would end it.
    """
    decodes, low, high = _root(
        partial(_beyond, batching, clump), _LEAST * batching.admitted, batching.most_decodes(),
        (_GRID, _FINER),
    )  # fmt: skip
    pace = batching.pace(decodes, clump)
    first = batching.ttft_s(pace)
    for _ in range(_CLOSER):
        off = _unbalanced(batching, pace, first)
        if not np.any(off):
            break
        at = np.flatnonzero(off)
        beyond = partial(_beyond, batching.picked(at), clump[at])
        decodes[at], low[at], high[at] = _root(beyond, low[at], high[at], (_FINER,))
        pace = batching.pace(decodes, clump)
        first = batching.ttft_s(pace)
    return pace, first


def _requests_per_s(batching: Batching, pace: Pace) -> Array:
    """Requests that so many decodes complete [1/s], unscaled."""
    return pace.decodes / ((batching.steps - 1.0) * pace.cycle_s)


def _beyond(batching: Batching, clump: Array, decodes: Array) -> Array:
    """Requests that decode or wait for a first token, beyond those admitted.

    Or, where a request waits outside of the engine too, beyond those of all users.
    """
    pace = batching.pace(decodes, clump)
    return _beyond_at(batching, pace, batching.ttft_s(pace))


def _beyond_at(batching: Batching, pace: Pace, ttft_s: Array) -> Array:
    decodes, waiting = pace.decodes, _requests_per_s(batching, pace) * ttft_s
    beyond: Array = decodes + waiting - batching.admitted
    if np.any(batching.wait):
        beyond = np.maximum(beyond, decodes + waiting * (1.0 + batching.wait) - batching.users)
    return beyond


def _unbalanced(batching: Batching, pace: Pace, ttft_s: Array) -> Mask:
    """Where requests that decode are too many or too few for those admitted."""
    off: Mask = np.abs(_beyond_at(batching, pace, ttft_s)) > _TOLERANCE * batching.admitted
    return off


def _paced(batching: Batching, pace: Pace, mean: Array) -> tuple[Array, Array, Array]:
    """Mean and median TTFT inside the engine, and the cycle, of requests of a closed loop [s].

    No more requests are served than the work on all that are admitted lets be.  Where prompts come
    first, half of those that are read together delay a first token, and the others those behind;
    requests in step are all read together.  That moves time between first tokens and later ones:
    as many requests are served, also where one waits outside as long as its first token takes.
    mean: TTFT of requests that decode at this pace [s].
    """
    decodes, cycle, gaps = pace.decodes, pace.cycle_s, batching.steps - 1.0
    median = batching.ttft_s(pace, median=True)
    admitted, users, late = batching.admitted, batching.users, 1.0 + batching.wait
    steep = _unbalanced(batching, pace, mean)
    left = np.minimum(admitted - decodes, (users - decodes) / late)
    told = left / _requests_per_s(batching, pace)
    mean, median = np.where(steep, told, mean), np.where(steep, told, median)
    served = np.minimum(admitted / (mean + gaps * cycle), users / (mean * late + gaps * cycle))
    slower = np.maximum(sum(batching.wave_s(decodes)) * served / admitted, 1.0)
    mean, median, cycle, served = mean * slower, median * slower, cycle * slower, served / slower
    if not batching.mixed:
        together, answer = batching.joined, gaps * pace.plain_s
        wave = batching.host_s + batching.half_wave_s(decodes)
        apart = np.minimum(mean, wave + batching.running_s(decodes))
        least = np.minimum(admitted / served - answer, (users / served - answer) / late)
        mean = np.minimum(apart + together * (wave - apart), np.maximum(least, 0.0))
        median = np.where(together > 0.5, mean, np.minimum(median, mean))
        lasts = np.minimum(admitted / served, users / served - mean * (late - 1.0))
        cycle = (lasts - mean) / gaps
    return mean, median, cycle


def open_loop(batching: Batching, of: Places, rate: Array, ranks: Array, steps: Array) -> Balance:
    """Open loop: requests arrive at `rate` [1/s]; as many decode as keep up with them.

    of: the batching that each load has, of those priced; steps: measured over priced time of one,
    [configs].
    """
    grid, sustained = _sustained(batching)
    batching = batching.picked(of)
    reader = batching.steps <= 1.0
    reading = batching.prompts_per_s() / steps
    most_per_s = np.where(reader, reading, sustained[-1, of] / steps)
    each = np.minimum(rate / ranks, most_per_s)
    decodes = np.array(
        [
            np.interp(asked, sustained[:, kind], grid[:, kind])
            for asked, kind in zip(each * steps, of, strict=True)
        ]
    )
    found = paced(batching, each * steps, decodes)
    decodes, cycle = found.decodes, found.cycle_s * steps
    mean, median = found.ttft_s * steps, found.median_s * steps
    utilisation = rate / ranks / most_per_s
    if np.any(reader):
        mean = np.where(reader, read_s(batching, each * steps) * steps, mean)
        median = np.where(reader, mean, median)
    full, late = utilisation >= 1.0, 1.0 + batching.wait
    return Balance(
        running=(decodes + each * np.where(full, 0.0, mean)) * ranks,
        ttft_s=np.where(full, np.inf, mean * late),
        ttft_median_s=np.where(full, np.inf, np.minimum(median, mean) * late),
        outside_s=mean * (late - 1.0),
        cycle_s=cycle,
        requests_per_s=rate,
        utilisation=utilisation,
        most_per_s=most_per_s * ranks,
    )


def _sustained(batching: Batching) -> tuple[Array, Array]:
    """Numbers of decodes of a rank, and the requests that they complete at most [1/s].

    Both [nodes, configs]; unscaled.
    """
    steps = np.maximum(batching.steps, 1.0)
    gaps = np.maximum(batching.steps - 1.0, 1e-9)
    most = batching.most_decodes()
    grid = np.geomspace(_LEAST_OPEN * np.ones_like(most), most, _OPEN_GRID)
    completed = grid / (gaps * batching.pace(grid, steps).cycle_s)
    return grid, np.maximum.accumulate(completed, axis=0)


def _root(
    beyond: Callable[[Array], Array], low: Array, high: Array, numbers: Sequence[int]
) -> tuple[Array, Array, Array]:
    """Where an increasing function [configs] crosses zero between two bounds, else the nearer.

    With the last bounds around it.  numbers: of places between the bounds, one after another.
    """
    places = np.arange(low.size)
    spaced: Callable[..., Array] = np.geomspace
    for number in numbers:
        grid = spaced(low, high, number)
        values = beyond(grid)
        at = np.clip((values < 0).sum(0), 1, number - 1)
        low, high = grid[at - 1, places], grid[at, places]
        below, above = values[at - 1, places], values[at, places]
        spaced = np.linspace
    share = np.clip(-below / np.maximum(above - below, 1e-300), 0.0, 1.0)
    root: Array = low + share * (high - low)
    return root, low, high

"""Balance between a load and an engine's steps: decoding sequences and request times."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from genz_core.serving.arrivals import paced, read_s
from genz_core.serving.queueing import Batching, Pace
from genz_core.types import Array, Mask, Places

_GRID = 14  # numbers of decoding requests tried
_OPEN_GRID = 20  # the same in an open loop, without refinement
_FINER = 9  # numbers tried between two of them
_CLOSER = 3  # number of refinements
#: Accepted imbalance, relative to the admitted requests.
_TOLERANCE = 0.002
_LEAST = 1e-8  # least share of admitted requests that decode in a closed loop
_LEAST_OPEN = 1e-4  # least share of possible decodes in an open loop


@dataclass(frozen=True, slots=True)
class Balance:
    """A load in balance, [configs].

    running: most requests that run at once.  ttft_s, ttft_median_s: of a request; cycle_s: between
    two of its decode steps.  outside_s: part of TTFT that measured runs attribute to waits outside
    of steps.
    requests_per_s: completed.  utilisation, prompt_share: see `ServingEstimate`.
    most_per_s: sustained request rate of the deployment, infinite in a closed loop.
    """

    running: Array
    ttft_s: Array
    ttft_median_s: Array
    outside_s: Array
    cycle_s: Array
    requests_per_s: Array
    utilisation: Array
    prompt_share: Array
    most_per_s: Array

    def no_slower(self, two: Balance) -> Balance:
        """The balance with at least the requests of `two`, whose answers are a step longer."""
        requests_per_s = np.maximum(self.requests_per_s, two.requests_per_s)
        sooner = 1.0 - self.requests_per_s / requests_per_s
        return replace(
            self,
            ttft_s=self.ttft_s * (1.0 - sooner),
            ttft_median_s=self.ttft_median_s * (1.0 - sooner),
            requests_per_s=requests_per_s,
        )

    def beside(self, one: Balance, share: Array) -> Balance:
        """The balance if this share of the requests ends with its first token, as in `one`, and
        the others a step later, as here, [configs].
        """

        def mean(later: Array, first: Array) -> Array:
            return np.where(share > 0.0, later + share * (first - later), later)

        return Balance(
            running=self.running,
            ttft_s=mean(self.ttft_s, one.ttft_s),
            ttft_median_s=mean(self.ttft_median_s, one.ttft_median_s),
            outside_s=mean(self.outside_s, one.outside_s),
            cycle_s=self.cycle_s,
            requests_per_s=1.0 / mean(1.0 / self.requests_per_s, 1.0 / one.requests_per_s),
            utilisation=self.utilisation,
            prompt_share=mean(self.prompt_share, one.prompt_share),
            most_per_s=self.most_per_s,
        )


def closed_loop(
    batching: Batching, of: Places, users: Array, limit: Array, ranks: Array, steps: Array
) -> Balance:
    """Closed loop: each user sends its next request when the last one completes.

    Admitted requests either decode or wait for their first token: D + X TTFT of them by Little's
    law.  The others wait for a place, or outside of the engine.  Answers of one to two steps on
    average are partly of one, partly of two.  Groups of users take turns in answers of one token,
    and of two where steps are planned ahead (`Batching.round_s`).

    of: index of each load in the priced batchings.  users, limit: per rank; steps: measured over
    priced step time, [configs].
    """
    few = batching.steps < 2.0
    if not few.any():
        return _several_tokens(batching, of, users, limit, ranks, steps)
    share = np.clip(2.0 - batching.steps, 0.0, 1.0)[of]
    longer = replace(
        batching,
        steps=np.maximum(batching.steps, 2.0),
        steps_spread=np.where(few, 0.0, batching.steps_spread),
    )
    two = _several_tokens(longer, of, users, limit, ranks, steps)
    one = _one_token(batching, of, users, limit, ranks, steps)
    return two.beside(one.no_slower(two), share)


def _one_token(
    batching: Batching, of: Places, users: Array, limit: Array, ranks: Array, steps: Array
) -> Balance:
    """The same for answers of one token, whose users are either read or wait to be."""
    late = 1.0 + np.broadcast_to(batching.wait, batching.isl.shape)[of]
    served = batching.read_per_s()[of] / steps
    first = users / served
    return Balance(
        running=np.minimum(np.minimum(users, limit), batching.most_running()[of]) * ranks,
        ttft_s=first,
        ttft_median_s=first,
        outside_s=first * (1.0 - 1.0 / late),
        cycle_s=np.zeros_like(first),
        requests_per_s=served * ranks,
        utilisation=np.full_like(first, np.nan),
        prompt_share=np.ones_like(first),
        most_per_s=np.full_like(first, np.inf),
    )


def _several_tokens(
    batching: Batching, of: Places, users: Array, limit: Array, ranks: Array, steps: Array
) -> Balance:
    """The same for answers of two tokens and more."""
    batching = replace(batching, joined=batching.in_step())
    clump = batching.clump_steps()
    pace, *first_s = _decoding(batching, clump)
    inside, median, cycle = (seconds[of] * steps for seconds in _paced(batching, pace, *first_s))
    late = 1.0 + np.broadcast_to(batching.wait, batching.isl.shape)[of]
    gaps, admitted = batching.steps[of] - 1.0, batching.admitted[of]
    first = inside * late
    served = np.minimum(admitted / (inside + gaps * cycle), users / (first + gaps * cycle))
    queue = np.maximum(users / served - gaps * cycle - first, 0.0)
    burst: Array | float = 0.0
    if batching.waves.any():
        waves, wave = batching.waves[of], batching.first_wave_s()[of] * steps * late
        behind = np.maximum(wave - first, 0.0) / np.where(waves > 0, waves, 1.0)
        burst = np.where(waves > 0, behind, 0.0)
    mean = first + burst + queue
    median = np.minimum(median * late, first + burst) + queue
    if batching.ahead_steps and np.any(short := 1.0 - batching.beside_prompts()):
        gap = batching.group_gap_s()[of] * steps
        round_s = np.maximum(batching.round_s(batching.steps - 1.0)[of] * steps, gaps * gap)
        round_s = np.maximum(round_s, batching.admitted[of] / batching.prompts_per_s()[of] * steps)
        alone = users / batching.inside[of] * round_s - gaps * gap
        # users beyond those admitted fill every step
        share = short[of] * np.clip(2.0 * admitted / users - 1.0, 0.0, 1.0)
        cycle = cycle + share * (gap - cycle)
        mean, median = mean + share * (alone - mean), median + share * (alone - median)
        served = users / (mean + gaps * cycle)
    return Balance(
        running=np.minimum(np.minimum(users, limit), batching.most_running()[of]) * ranks,
        ttft_s=mean,
        ttft_median_s=median,
        outside_s=inside * (late - 1.0),
        cycle_s=cycle,
        requests_per_s=served * ranks,
        utilisation=np.full_like(mean, np.nan),
        prompt_share=1.0 - np.minimum(pace.plain_s[of] * steps / cycle, 1.0),
        most_per_s=np.full_like(mean, np.inf),
    )


def _decoding(batching: Batching, clump: Array) -> tuple[Pace, Array, Array]:
    """The number of decoding requests per rank in balance, [configs], and their `first_token`.

    The search is refined where a queue is so short that a few more decodes would empty it.
    """
    decodes, low, high = _root(
        partial(_beyond, batching, clump), _LEAST * batching.admitted, batching.most_decodes(),
        (_GRID, _FINER),
    )  # fmt: skip
    pace = batching.pace(decodes, clump)
    first, standing = batching.first_token(pace, "mean", "median")
    for _ in range(_CLOSER):
        off = _unbalanced(batching, pace, first[0], standing)
        if not off.any():
            break
        at = np.flatnonzero(off)
        beyond = partial(_beyond, batching.picked(at), clump[at])
        decodes[at], low[at], high[at] = _root(beyond, low[at], high[at], (_FINER,))
        pace = batching.pace(decodes, clump)
        first, standing = batching.first_token(pace, "mean", "median")
    return pace, first, standing


def _requests_per_s(batching: Batching, pace: Pace) -> Array:
    """Rate at which this number of decoding requests completes [1/s], unscaled."""
    return pace.decodes / ((batching.steps - 1.0) * pace.cycle_s)


def _beyond(batching: Batching, clump: Array, decodes: Array) -> Array:
    """Decoding requests plus those waiting for a first token, minus the admitted ones.

    If a request also waits outside of the engine: minus those of all users.  Decoding requests are
    counted per cycle, not per second: the others cannot decode in a step that one's own prompt
    makes longer (`Batching.first_token`), so that time counts for no one.
    """
    pace = batching.pace(decodes, clump)
    first, standing = batching.first_token(pace, "mean")
    return _beyond_at(batching, pace, first[0], standing)


def _beyond_at(batching: Batching, pace: Pace, ttft_s: Array, standing_s: Array) -> Array:
    decodes, waiting = pace.decodes, _requests_per_s(batching, pace) * (ttft_s - standing_s)
    beyond: Array = decodes + waiting - batching.admitted
    if np.asarray(batching.wait).any():
        beyond = np.maximum(beyond, decodes + waiting * (1.0 + batching.wait) - batching.users)
    return beyond


def _unbalanced(batching: Batching, pace: Pace, ttft_s: Array, standing_s: Array) -> Mask:
    """Where too many or too few requests decode for the number admitted."""
    beyond = _beyond_at(batching, pace, ttft_s, standing_s)
    off: Mask = np.abs(beyond) > _TOLERANCE * batching.admitted
    return off


def _paced(
    batching: Batching, pace: Pace, first: Array, standing: Array
) -> tuple[Array, Array, Array]:
    """Mean and median TTFT inside the engine, and the cycle time, in a closed loop [s].

    The rate is limited by the total work of all admitted requests.  If prefill has priority, the
    first token of a request waits for half of the prompts prefilled in the same step, and for the
    prompts before them; synchronised requests are all prefilled together.  This moves time between
    the first token and later ones at the same rate, with or without a wait outside the engine.
    first, standing: `first_token` at this pace, mean and median [s].
    """
    mean, median = first
    decodes, cycle, gaps = pace.decodes, pace.cycle_s, batching.steps - 1.0
    admitted, users, late = batching.admitted, batching.users, 1.0 + batching.wait
    steep, most = _unbalanced(batching, pace, mean, standing), batching.most_decodes()
    left = np.minimum(admitted - decodes, (users - decodes) / late)
    rate = _requests_per_s(batching, pace)
    full = steep & (left > 0) & (decodes >= most * (1.0 - 1e-6)) & (most < admitted)
    if full.any():  # a queue that never empties fills every step
        rate = np.where(full, np.maximum(batching.full_steps_per_s(decodes), rate), rate)
        cycle = np.where(full, decodes / (gaps * rate), cycle)
    told = left / rate + standing
    mean, median = np.where(steep, told, mean), np.where(steep, told, median)
    served = np.minimum(admitted / (mean + gaps * cycle), users / (mean * late + gaps * cycle))
    first_s = batching.first_s()
    reading, answering = batching.wave_s(decodes)
    session = reading + answering + batching.joined * batching.host_s + first_s
    slower = np.maximum(session * served / admitted, 1.0)
    mean, median, cycle, served = mean * slower, median * slower, cycle * slower, served / slower
    if not batching.mixed:
        together, answer = batching.joined, gaps * pace.plain_s
        wave = batching.host_s + batching.half_wave_s(decodes, reading) + first_s
        apart = np.minimum(mean, wave + batching.running_s(decodes))
        least = np.minimum(admitted / served - answer, (users / served - answer) / late)
        mean = np.minimum(apart + together * (wave - apart), np.maximum(least, 0.0))
        median = np.where(together > 0.5, mean, np.minimum(median, mean))
        lasts = np.minimum(admitted / served, users / served - mean * (late - 1.0))
        # those in step take a session, and a step planned while one of theirs returned
        in_step = session + batching.ahead_steps * pace.plain_s
        lasts = lasts + together * np.minimum(in_step - lasts, 0.0)
        cycle = (lasts - mean) / gaps
    return mean, median, cycle


def open_loop(batching: Batching, of: Places, rate: Array, ranks: Array, steps: Array) -> Balance:
    """Open loop: requests arrive at `rate` [1/s]; the number of decoding requests follows.

    of: index of each load in the priced batchings; steps: measured over priced step time,
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
        running=np.minimum(decodes + each * np.where(full, 0.0, mean), batching.most_running())
        * ranks,
        ttft_s=np.where(full, np.inf, mean * late),
        ttft_median_s=np.where(full, np.inf, np.minimum(median, mean) * late),
        outside_s=mean * (late - 1.0),
        cycle_s=cycle,
        requests_per_s=rate,
        utilisation=utilisation,
        prompt_share=np.full_like(mean, np.nan),
        most_per_s=most_per_s * ranks,
    )


def _sustained(batching: Batching) -> tuple[Array, Array]:
    """Numbers of decoding requests per rank, and the largest completion rate at each [1/s].

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
    """The zero of an increasing function [configs] between two bounds, or the nearer bound.

    Also returns the last bounds around it.  numbers: of points tried between the bounds in each
    iteration.
    """
    places = np.arange(low.size)
    for turn, number in enumerate(numbers):
        part = np.arange(number)[:, None] / (number - 1.0)
        grid = low + (high - low) * part if turn else low * (high / low) ** part
        values = beyond(grid)
        at = np.minimum(np.maximum((values < 0).sum(0), 1), number - 1)
        low, high = grid[at - 1, places], grid[at, places]
        below, above = values[at - 1, places], values[at, places]
    share = np.clip(-below / np.maximum(above - below, 1e-300), 0.0, 1.0)
    root: Array = low + share * (high - low)
    return root, low, high

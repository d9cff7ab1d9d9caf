"""Cycles of a rank's batch: steps with and without prompts, and the prompts in each.

A rank decodes D sequences, one token each per cycle.  As many requests enter as complete, so a
cycle has p prompts on average, whatever its length::

    p = D (1 - 1/C) / ((osl - 1) lanes)         prompts per step of a pipeline's lane
    q = 1 - exp(-p ranks)                       share of steps with a prompt on any lock-step rank
    T = (1 - q) t(D, 0) + q t(D, n)             n tokens on the busiest rank, at most the budget

If prefill has priority, requests that end while others are on their way back are prefilled right
after these (`_gathered`).  Longer steps delay all lanes of a pipeline (`delayed_steps`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self, TypeAlias

import numpy as np

from genz_core.serving.deduplicate import picked_columns
from genz_core.serving.held_prompts import (
    Readings,
    at_once,
    chosen,
    of_several_ranks,
    of_single_rank,
)
from genz_core.serving.queues import FULLEST, MANY, POISSON_TERMS, at_most, largest
from genz_core.serving.step_times import StepTimes
from genz_core.steps.step_correction import StepCorrection
from genz_core.types import Array, Places

_NOTHING_MORE = 1e-9  # of a request, from rounding

#: Latency and stage time of a step [s].
StepPair: TypeAlias = tuple[Array, Array]


@dataclass(frozen=True, slots=True)
class StepCycles:
    """How an engine handles a load, per rank, [configs].

    times: of its steps.  isl: mean prompt tokens.  steps: of a request after its prefill, including
    the last prefill step: its output tokens, or fewer with accepted drafts.
    steps_spread: from the shortest to the longest output, in whole steps.  nominal_spread: the same
    before lengths are rounded to whole tokens.
    admitted: largest number of requests of a rank in prefill or decode.  others: share of the load
    from other requests (1 - 1/C in a closed loop, 1 in an open one).
    lanes: pipeline stages, each with a part of the batch.  budget: tokens per step, 0 for whole
    prompts.  waves: total requests of a user of a closed loop, 0 for a steady loop.
    late_steps: decode steps between the first token and its delivery.  look_every: decode steps
    between two looks at new requests.  batch_wait: most decode steps that a prompt waits for others
    to be prefilled with it.  ahead_steps: see `EngineProfile`.  closed: whether a user's next
    request follows the end of the last.
    mixed: whether prompts and decodes share a step.  whole: whether prompts are never split.
    host_s: of a request; apart_s: from the shortest prompt to the longest.
    routed: ranks over which a router distributes requests.  joined: see `in_step`.
    wait: of a request outside of its steps and host time, as a share of TTFT without it; users:
    open requests, inside the engine or outside.
    """

    times: StepTimes
    isl: Array
    steps: Array
    steps_spread: Array
    nominal_spread: Array
    admitted: Array
    others: Array
    lanes: int
    budget: Array
    waves: Array
    late_steps: Array
    look_every: Array
    batch_wait: Array
    ahead_steps: float
    closed: bool
    mixed: bool
    whole: bool
    host_s: Array | float
    apart_s: Array | float = 0.0
    routed: Array | float = 1.0
    joined: Array | float = 0.0
    wait: Array | float = 0.0
    users: Array | float = np.inf
    present: Array | float = np.inf

    def picked(self, chosen: Places) -> Self:
        """A selection of the configurations."""
        columns: dict[str, Any] = picked_columns(self, chosen)
        return replace(self, times=self.times.picked(chosen), **columns)

    def corrected(self, correction: StepCorrection, users: Array) -> Self:
        """A copy with the corrections from measured runs, except the scale of all steps.

        The caller multiplies every resulting time by that scale, so the host's time is divided by
        it here.

        users: open requests per rank, [configs].
        """
        alike = bool((correction.prompts == 1.0).all())
        return replace(
            self,
            times=replace(self.times, prompts=1.0 if alike else correction.prompts),
            host_s=self.host_s / correction.steps,
            wait=correction.wait,
            users=users,
        )

    # --------------------------------------------------------------------------- a step

    def room(self, decodes: Array) -> Array:
        """Most prompt tokens of a step, beside the decodes of its lane."""
        left = self.budget - (decodes / self.lanes if self.mixed else 0.0)
        left = np.maximum(left, 1.0)
        room = np.maximum(np.floor(left / self.isl), 1.0) * self.isl if self.whole else left
        return np.minimum(room, self.times.sizes.tokens)

    def _lane(
        self, decodes: Array, tokens: Array, elsewhere: Array, launched: Array | None = None
    ) -> StepPair:
        """Latency and stage time of a step of one lane [s]; arguments as of `StepTimes`.

        Prompts that share no step with decodes have a step of their own.
        """
        if self.mixed:
            return self.times(self._of_lane(decodes), tokens, elsewhere, launched)
        if not (tokens > 0.0).any():
            return self.plain(decodes)
        prompt, prompt_stage = self.times(np.zeros_like(decodes), tokens, elsewhere)
        if not (decodes > 0.0).any():
            return prompt, prompt_stage
        latency, stage = self.plain(decodes)
        return latency + prompt, stage + prompt_stage

    def plain(self, decodes: Array) -> StepPair:
        """Latency and stage time of a step of one lane without prompts [s]."""
        return self.times.of_decodes(self._of_lane(decodes))

    def _of_lane(self, decodes: Array) -> Array:
        """Decodes of the fullest lane, at least one where there is any."""
        each = decodes / self.lanes * self.fullest_lane
        return np.where(decodes > 0, np.maximum(each, 1.0), 0.0)

    def cycle_s(
        self,
        decodes: Array,
        tokens: Array,
        elsewhere: Array | None = None,
        launched: Array | None = None,
    ) -> Array:
        """Time of a cycle in which all lanes have the same contents [s].

        elsewhere: prompt tokens on each of the other lock-step ranks, none by default.
        launched: see `StepTimes`.
        """
        others = np.zeros_like(tokens) if elsewhere is None else elsewhere
        return self._of_lanes(*self._lane(decodes, tokens, others, launched))

    def _of_lanes(self, latency: Array, stage: Array) -> Array:
        """Time of a cycle of lanes whose steps have this latency and stage time [s]."""
        return np.maximum(latency, self.lanes_taken * stage)

    @property
    def lanes_taken(self) -> Array | float:
        """Lanes with any requests: few requests leave some empty."""
        if self.lanes == 1:
            return 1.0
        return np.clip(np.minimum(self.admitted, self.present), 1.0, self.lanes)

    def with_requests(self, present: Array) -> Self:
        """The same with this number of requests of a rank, in the mean: fewer than one of each lane
        or rank leave some empty.
        """
        found = self if self.lanes == 1 else replace(self, present=present)
        if not np.any((self.times.ranks > 1.0) & (present < 1.0)):
            return found
        return replace(found, times=self.times.with_share(np.minimum(present, 1.0)))

    @property
    def fullest_lane(self) -> Array | float:
        """Requests of the fullest lane relative to the mean of all lanes.  The others wait for it,
        because the first stage takes lanes in turn.
        """
        if self.lanes == 1 or not self.closed:
            return 1.0
        each = np.maximum(self.admitted, 1.0) / self.lanes
        return np.ceil(each - _NOTHING_MORE) / each

    def prompts(self, decodes: Array) -> Array:
        """New prompts per step of a rank's lane, p."""
        prompts: Array = decodes * self.others / (np.maximum(self.steps - 1.0, 1e-9) * self.lanes)
        return prompts

    def launched_share(self, decodes: Array, prompts: Array, own: float = 0.0) -> Array | None:
        """Share of the steps with a Poisson number of prompts that replay no graph, because the
        prompts of some rank and its decodes exceed one; None if none holds any prompt.

        prompts: mean number on a rank, of the steps with any.  own: further prompts of each step.
        """
        free = self.times.graph_room(self._of_lane(decodes)) if self.mixed else None
        if free is None:
            return None
        held = at_most(np.floor(free / self.isl) - own, prompts) ** self.times.ranks
        if own:
            return 1.0 - held
        nothing = np.exp(-prompts * self.times.ranks)
        return np.minimum((1.0 - held) / np.maximum(1.0 - nothing, 1e-300), 1.0)

    def beside_prompts(self) -> Array:
        """Share of the steps of answers that may hold prompts of other requests, if a step is
        planned while one runs, 0 to 1.

        Answers of two tokens: all requests prefilled together end with the next step, and nothing
        runs while the following step is planned, so all waiting requests are in that step and none
        in theirs.  In a closed loop, requests of two groups wait in turn, as far as a step holds
        each.
        """
        longest = self.steps - 1.0 + self.steps_spread / 2.0
        room = self.room(np.zeros_like(self.isl))
        together = (self.times.ranks == 1) & (self.isl <= room)
        several = np.clip(longest - 1.0, 0.0, 1.0)
        if self.closed:
            waiting = np.clip(self.admitted * self.isl / room - 2.0, 0.0, 1.0)
            several = np.maximum(several, waiting)
        return np.where(together, several, 1.0)

    def mixed_cycle_s(
        self,
        decodes: Array,
        prompts: Array,
        without: StepPair | None = None,
        before_s: Array | None = None,
    ) -> Array:
        """Mean cycle time if each step of a lane has a Poisson number of prompts [s].

        without: `plain` for this number of decodes, if the caller has it.
        before_s: of prompts that arrive at any time, the previous iteration of this cycle time.
        """
        without = without or self.plain(decodes)
        plain, plain_stage = without
        if self.gathers:
            step = np.maximum(plain / self.lanes, plain_stage)
            gathered = self._gathered(step, prompts)
            any_prompt, busiest = gathered.readings, gathered.busiest
        else:
            any_prompt, busiest = self.readings(prompts, decodes).busiest
        tokens, room = busiest * self.isl, self.room(decodes)
        ranks = self.times.ranks
        share = any_prompt * np.maximum(tokens / room, 1.0)
        if self.mixed:  # ranks prefill in parallel
            of_rank = (1.0 - (1.0 - any_prompt) ** (1.0 / ranks)) * np.maximum(tokens / room, 1.0)
            share = 1.0 - np.maximum(1.0 - of_rank, 0.0) ** ranks
        tokens = np.minimum(tokens, room)
        left = ranks * prompts * self.isl / np.maximum(share, 1e-12) - tokens
        elsewhere = np.clip(left / np.maximum(ranks - 1.0, 1.0), 0.0, tokens)
        launched = self.launched_share(decodes, prompts)
        if self.lanes == 1:
            return plain + share * (self._lane(decodes, tokens, elsewhere, launched)[0] - plain)
        if not self.mixed:
            reading = self.times(np.zeros_like(decodes), tokens, elsewhere)
            return self.between_readings_s(share, without, reading)
        delayed = delayed_steps(share, self.lanes)
        several = np.clip(2.0 - 2.0 * busiest * self.isl / room, 0.0, 1.0)
        of_prompts = delayed_by_prompts(prompts, ranks, self.lanes) / busiest
        delayed = delayed + several * (of_prompts - delayed)
        full = self._lane(decodes, tokens, elsewhere, launched)
        apart = None  # a lane with a prompt finds none in another that reads for a share of time
        if before_s is not None:
            apart = 1.0 - np.minimum(share * self._alone_s(without, full) / before_s, FULLEST)
        return self._in_order_s(share, delayed, without, full, apart)

    def between_readings_s(
        self, readings: Array, plain: StepPair, reading: StepPair, per_s: Array | None = None
    ) -> Array:
        """Mean time between two decode steps of a pipeline's lane that has prefill steps between
        them [s].

        readings: prefill steps per decode step.  plain, reading: a step of each; the shorter ones
        wait in the stages for those before them.  per_s: of requests that arrive at any time; those
        that arrive while a longer step is in the first stage follow it.
        """
        share = np.where(reading[1] > plain[1], readings, 1.0) / (1.0 + readings)
        short = np.minimum(plain[0], reading[0]), np.minimum(plain[1], reading[1])
        longer = np.maximum(plain[0], reading[0]), np.maximum(plain[1], reading[1])
        delayed = delayed_steps(share, self.lanes)
        apart = None if per_s is None else np.exp(-per_s * longer[1])
        return (1.0 + readings) * self._in_order_s(share, delayed, short, longer, apart)

    def _in_order_s(
        self,
        share: Array,
        delayed: Array,
        plain: StepPair,
        longer: StepPair,
        apart: Array | None,
    ) -> Array:
        """Mean cycle time of a pipeline's lanes, of whose steps some are longer [s].

        A longer step delays every lane: by its own latency if it follows none in the stages, else
        by the time of a stage.

        share: of the steps that are longer.  delayed: see `delayed_steps`.  apart: share of the
        longer steps that follow no other, None where steps are longer independently.
        """
        cycle_s = self._of_lanes(*plain)
        alone = self._alone_s(plain, longer) - cycle_s
        behind = (self._of_lanes(*longer) - cycle_s) / self.lanes
        first = (delayed - share) / (self.lanes - 1.0)
        if apart is not None:
            by_itself = np.maximum(1.0 - share, _NOTHING_MORE)
            first = first * np.minimum(apart / by_itself, 1.0)
        found: Array = cycle_s + self.lanes * (share * behind + first * (alone - behind))
        return found

    def _alone_s(self, plain: StepPair, longer: StepPair) -> Array:
        """Cycle time of a pipeline with one longer step in its stages [s]."""
        return np.maximum(longer[0], longer[1] + (self.lanes_taken - 1.0) * plain[1])

    @property
    def gathers(self) -> bool:
        """Whether requests gather on their way back while prompts have steps of their own."""
        return self.closed and not self.mixed and not self.batch_wait.any()

    def _gathered(self, step: Array, prompts: Array) -> Gathered:
        """How the prompts of a closed loop are grouped if prefill has priority.

        The first request that ends after a pause takes `host_s` to return, and then waits for the
        planned step.  Requests that end meanwhile, in H decode steps, n during the return and a
        planned ones, are prefilled right after it; only then comes the next decode step.  With q
        the probability that a step ends some requests, 1 / q + H decode steps have 1 + a q + r
        prefill steps, where r is the probability that some requests were on their way.  Requests
        prefilled together decode in step, and with equal answers they end together: all requests of
        a pause then form one group.
        step: time of a decode-only step [s].  prompts: new prompts per step of a rank.
        """
        ranks, ahead = self.times.ranks, self.ahead_steps
        way = np.maximum(self.host_s / step, 0.5) + 0.5 if np.any(self.host_s) else 0.0
        way = np.where(np.asarray(self.host_s) > 0, way, 0.0)
        some, one = largest(prompts, ranks)
        later, many = largest(prompts * np.maximum(way, 1e-9), ranks)
        pause = 1.0 / (1.0 + some * (way + ahead))
        singles, multiples = some * pause * (1.0 + ahead * some), some * pause * later
        loose = singles + multiples
        loose_busiest = (singles * one + multiples * many) / np.maximum(loose, 1e-12)
        alike = 1.0 / (1.0 + self.steps_spread)
        joined = some * pause
        joined_busiest = np.maximum(largest(prompts * (1.0 + way + ahead), ranks)[1], 1.0)
        readings = (1.0 - alike) * loose + alike * joined
        busiest = (
            (1.0 - alike) * loose * loose_busiest + alike * joined * joined_busiest
        ) / np.maximum(readings, 1e-12)
        met = (1.0 - alike) * some * pause * way
        planned = (1.0 - alike) * some * pause * ahead * (1.0 + way)
        return Gathered(readings, busiest, met, planned)

    def readings(self, prompts: Array, decodes: Array) -> Readings:
        """When prompts are read; with `batch_wait` they wait for one another.

        prompts: new ones per step of a rank.
        """
        ranks, longest = self.times.ranks, self.batch_wait
        once = at_once(prompts, ranks)
        if not longest.any():
            return once
        filled = np.maximum(self.times.sizes.tokens / self.isl, 1.0)
        alone = of_single_rank(prompts, filled, longest, np.minimum(decodes, 1.0))
        most, beside = np.maximum(self.room(decodes) / self.isl, 1.0), np.clip(decodes - 1.0, 0, 1)
        users = self.admitted if self.closed else np.inf
        several = of_several_ranks(prompts, ranks, most, longest, beside, users)
        return chosen(longest > 0, chosen(ranks > 1, several, alone), once)


@dataclass(frozen=True, slots=True)
class Gathered:
    """Grouping of prompts that gather on their way back, [configs].

    readings: prefill steps per decode step.  busiest: prompts of one on its busiest rank.
    met: share of the requests that return during a prefill step.  planned: share of these for which
    the planned step is a prefill step.
    """

    readings: Array
    busiest: Array
    met: Array
    planned: Array


def delayed_steps(share: Array, lanes: int) -> Array:
    """Share of a pipeline's steps that longer ones delay, each by the extra time of one stage.

    No step overtakes another, so a longer step delays the steps behind it in every stage, unless it
    directly follows another longer step.  For independent steps, this is exact with two lanes and
    within 4 % of a simulation with up to eight.

    share: of the steps that are longer.
    """
    share = np.minimum(share, 1.0)
    return np.asarray(share * (lanes - share) / (1.0 + (lanes - 2.0) * share))


def delayed_by_prompts(mean: Array, of: Array, lanes: int) -> Array:
    """`delayed_steps` of steps whose length grows with their prompts, summed over these.

    The busiest of `of` ranks has the largest of Poisson numbers with this mean.
    """
    few = np.minimum(mean, MANY)
    term = below = np.exp(-few)
    total = np.zeros_like(few)
    for number in range(1, POISSON_TERMS):
        at_least = 1.0 - below**of
        total = total + delayed_steps(at_least, lanes) - at_least
        term = term * few / number
        below = np.minimum(below + term, 1.0)
    any_at_all, busiest = largest(mean, of)
    more: Array = any_at_all * busiest + total * np.sqrt(mean / np.maximum(few, 1e-300))
    return more

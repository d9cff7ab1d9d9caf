"""Cycles of a rank's batch: steps with and without prompts, and the prompts that one reads.

A rank decodes D sequences, one token each in a cycle.  As many requests enter as complete, so a
cycle carries p prompts on average, however long it takes::

    p = D (1 - 1/C) / ((osl - 1) lanes)         prompts that ride on a step of a pipeline's lane
    q = 1 - exp(-p ranks)                       steps with a prompt on any rank in lock-step
    T = (1 - q) t(D, 0) + q t(D, n)             n tokens of the busiest rank, at most the budget

Where prompts are read first, those that end while others are on their way are read right after
them (`_gathered`), and the lanes of a pipeline wait for the stage (`_stage_wait_s`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from genz_core.serving.deduplicate import picked_columns
from genz_core.serving.step_times import StepTimes
from genz_core.step_correction import StepCorrection
from genz_core.types import Array, Places

_POISSON = 64  # terms of the largest of several Poisson numbers
_NOTHING = 1e-20  # a term that adds nothing, nor do smaller ones
_MANY = 30.0  # prompts a step, from which their number is taken as nearly normal
_DEVIATIONS = np.linspace(-8.0, 8.0, 401)  # of a normal number about its mean
_BELOW = np.array([0.5 * (1.0 + math.erf(far / math.sqrt(2.0))) for far in _DEVIATIONS])


@dataclass(frozen=True, slots=True)
class StepCycles:
    """What an engine does with a load, per rank, [configs].

    times: of its steps.  isl: mean prompt of a request.  steps: that it takes once its prompt is
    read, the prompt's last included: its output tokens, or fewer where drafts are accepted.
    steps_spread: from the shortest to the longest output.
    admitted: requests of a rank that are decoded or read at most.  others: share of the load that
    the requests beside one's own are (1 - 1/C in a closed loop, 1 at a rate).
    lanes: pipeline stages, each with a part of the batch.  budget: tokens of a step, 0 for whole
    prompts.  waves: requests that a user of a closed loop sends in all, 0 without a start.
    late_steps: decode steps between the first token and its delivery.  look_every: decode steps
    between two looks at new requests.  batch_wait: that a prompt waits at most for others to
    be read with it.  ahead_steps: see `EngineProfile`.  closed: a user's next request follows the
    end of its last.
    mixed: prompts and decodes share a step.  whole: prompts are never cut.  host_s: of a request.
    routed: ranks that a router spreads requests over.  joined: see `in_step`.
    wait: of a request outside of its steps and host, as a share of its first token without it;
    users: requests that are open, inside the engine or outside.
    """

    times: StepTimes
    isl: Array
    steps: Array
    steps_spread: Array
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
    routed: Array | float = 1.0
    joined: Array | float = 0.0
    wait: Array | float = 0.0
    users: Array | float = np.inf

    def picked(self, chosen: Places) -> Self:
        """That of some configurations."""
        columns: dict[str, Any] = picked_columns(self, chosen)
        return replace(self, times=self.times.picked(chosen), **columns)

    def corrected(self, correction: StepCorrection, users: Array) -> Self:
        """With what measured runs say beyond the scale of all steps, which is left to the caller:
        every time that comes out is to be multiplied by it, so the host's is divided here.

        users: open requests of a rank, [configs].
        """
        return replace(
            self,
            times=replace(self.times, prompts=correction.prompts),
            host_s=self.host_s / correction.steps,
            wait=correction.wait,
            users=users,
        )

    # --------------------------------------------------------------------------- a step

    def room(self, decodes: Array) -> Array:
        """Prompt tokens of a step at most, beside the decodes of its lane."""
        left = self.budget - (decodes / self.lanes if self.mixed else 0.0)
        left = np.maximum(left, 1.0)
        room = np.maximum(np.floor(left / self.isl), 1.0) * self.isl if self.whole else left
        return np.minimum(room, self.times.sizes.tokens)

    def _lane(self, decodes: Array, tokens: Array, elsewhere: Array) -> tuple[Array, Array]:
        """Latency and stage time of a step of one lane [s]."""
        part = np.where(decodes > 0, np.maximum(decodes / self.lanes, 1.0), 0.0)
        if self.mixed:
            return self.times(part, tokens, elsewhere)
        none = np.zeros_like(part)
        latency, stage = self.times(part, none, none)
        prompt, prompt_stage = self.times(none, tokens, elsewhere)
        return latency + prompt, stage + prompt_stage

    def cycle_s(self, decodes: Array, tokens: Array, elsewhere: Array | None = None) -> Array:
        """Time of a cycle of all lanes with the same in each [s].

        elsewhere: prompt tokens on each of the other ranks in lock-step, none by default.
        """
        others = np.zeros_like(tokens) if elsewhere is None else elsewhere
        return self._of_lanes(*self._lane(decodes, tokens, others))

    def _of_lanes(self, latency: Array, stage: Array) -> Array:
        """Time of a cycle of lanes whose steps have this latency and hold a stage so long [s]."""
        return np.maximum(latency, self.lanes * stage)

    def plain(self, decodes: Array) -> tuple[Array, Array]:
        """Latency and stage time of a step of one lane without prompts [s]."""
        none = np.zeros_like(decodes)
        return self._lane(decodes, none, none)

    def prompts(self, decodes: Array) -> Array:
        """Prompts that enter with a step of a lane of a rank, p."""
        prompts: Array = decodes * self.others / (np.maximum(self.steps - 1.0, 1e-9) * self.lanes)
        return prompts

    def mixed_cycle_s(
        self, decodes: Array, prompts: Array, without: tuple[Array, Array] | None = None
    ) -> Array:
        """Mean cycle where each step of a lane meets Poisson many prompts [s].

        without: `plain` of so many decodes, where the caller has it.
        """
        plain, plain_stage = without or self.plain(decodes)
        if self.gathers:
            step = np.maximum(plain / self.lanes, plain_stage)
            gathered = self._gathered(step, prompts)
            any_prompt, busiest = gathered.readings, gathered.busiest
        else:
            any_prompt, busiest = self._grouped(prompts)
        tokens, room = busiest * self.isl, self.room(decodes)
        ranks = self.times.ranks
        share = any_prompt * np.maximum(tokens / room, 1.0)
        if self.mixed:  # ranks read side by side
            of_rank = (1.0 - (1.0 - any_prompt) ** (1.0 / ranks)) * np.maximum(tokens / room, 1.0)
            share = 1.0 - np.maximum(1.0 - of_rank, 0.0) ** ranks
        tokens = np.minimum(tokens, room)
        left = ranks * prompts * self.isl / np.maximum(share, 1e-12) - tokens
        elsewhere = np.clip(left / np.maximum(ranks - 1.0, 1.0), 0.0, tokens)
        full, full_stage = self._lane(decodes, tokens, elsewhere)
        if self.lanes == 1:
            return plain + share * (full - plain)
        mean = plain + share * (full - plain)
        slack = np.maximum(plain - self.lanes * plain_stage, 0.0)
        longer = np.maximum(full_stage - plain_stage, 0.0)
        cycle_s: Array = mean + self._stage_wait_s(share, longer, prompts, tokens / room, slack)
        return cycle_s

    def _stage_wait_s(
        self, share: Array, longer: Array, prompts: Array, filled: Array, slack: Array
    ) -> Array:
        """Mean time that a lane waits for the first stage, which the others hold longer [s].

        A cycle is as long as its lane's own step, or as the stages of all lanes one after another:
        the mean excess of the others over one's own, taken as normal, and at most as if one's own
        never read.
        share: of the steps that read.  longer: that they hold a stage.  filled: share of a step's
        room that is taken.  slack: of a step over its stages.
        """
        share, others = np.minimum(share, 1.0), self.lanes - 1
        of_steps = share * (1.0 - share) * longer**2
        of_prompts = (share * longer) ** 2 / np.maximum(prompts, 1e-12)
        several = np.clip(2.0 - 2.0 * filled, 0.0, 1.0)
        spread = np.sqrt(of_steps + several * np.maximum(of_prompts - of_steps, 0.0))
        spread = np.maximum(spread * np.sqrt(self.lanes * others), 1e-15)
        far = slack / spread
        beyond = 0.5 * (1.0 - np.tanh(np.sqrt(2.0 / np.pi) * (far + 0.044715 * far**3)))
        normal = spread * np.exp(-far * far / 2.0) / np.sqrt(2.0 * np.pi) - slack * beyond
        any_other = 1.0 - (1.0 - share) ** others
        most = np.maximum(others * share * longer - slack * any_other, 0.0)
        wait: Array = np.clip(normal, 0.0, most)
        return wait

    @property
    def gathers(self) -> bool:
        """Whether requests gather on their way back while prompts are read alone."""
        return self.closed and not self.mixed and not np.any(self.batch_wait > 0)

    def _gathered(self, step: Array, prompts: Array) -> Gathered:
        """How the prompts of a closed loop come to be read where they are read first.

        The first that ends after a pause is on its way for `host_s`, and then waits for the step
        that is planned; those that end meanwhile, in H decode steps of n on the way and a planned
        ones, are read right after it, and only then comes the next decode step.  With q the chance
        that a step ends some, 1 / q + H decode steps have 1 + a q + r readings, r the chance that
        some were on the way.  Those that are read together decode in step, and where their answers
        are alike they end together: then all of a pause are one group from then on.
        step: of decodes alone [s].  prompts: that enter with one of a rank.
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

    def group(self, prompts: Array) -> Array:
        """Prompts that are read in one step, as they wait for one another.

        On several ranks one of each, else at most as many as fill a step.  prompts: that enter
        with a step of a rank.
        """
        ranks = self.times.ranks
        most = np.where(ranks > 1, ranks, np.maximum(self.times.sizes.tokens / self.isl, 1.0))
        return np.minimum(1.0 + prompts * ranks * self.batch_wait, most)

    def _grouped(self, prompts: Array) -> tuple[Array, Array]:
        """P(a step has a prompt), and the mean number that its busiest rank then reads."""
        ranks, group = self.times.ranks, self.group(prompts)
        alone = np.where(ranks > 1, 1.0, group)
        any_prompt, busiest = largest(prompts / alone, ranks / np.where(ranks > 1, group, 1.0))
        return any_prompt, busiest * alone

    def group_wait_steps(self, prompts: Array) -> Array:
        """Decode steps that a prompt waits for those that are read with it, in the mean: the first
        of a group for all that follow, the last for none."""
        group = self.group(prompts)
        arriving = np.maximum(prompts * self.times.ranks, 1e-12)
        window = np.minimum((group - 1.0) / arriving, self.batch_wait)
        return np.where(self.batch_wait > 0, window * (1.0 + group) / (2.0 * group), 0.0)


@dataclass(frozen=True, slots=True)
class Gathered:
    """How prompts are read that gather on their way, [configs].

    readings: steps that read, of a decode step.  busiest: prompts of one on its busiest rank.
    met: share of the requests that come while one reads.  planned: of those for which the planned
    step reads.
    """

    readings: Array
    busiest: Array
    met: Array
    planned: Array


def largest(mean: Array, of: Array) -> tuple[Array, Array]:
    """P(any), and the mean of the largest of `of` Poisson numbers of this mean, given any."""
    any_at_all = -np.expm1(-mean * of)
    safe = np.maximum(any_at_all, 1e-300)
    if np.all(of == 1.0):
        return any_at_all, np.where(mean > 1e-12, mean / safe, 1.0)
    few = np.minimum(mean, _MANY)
    term = below = np.exp(-few)
    total = 1.0 - below**of
    for number in range(1, _POISSON):
        term = term * few / number
        below = np.minimum(below + term, 1.0)
        total = total + 1.0 - below**of
        if term.max(initial=0.0) < _NOTHING and number > few.max(initial=0.0):
            break
    if np.any(mean > _MANY):
        total = np.where(mean > _MANY, _largest_of_many(mean, of), total)
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

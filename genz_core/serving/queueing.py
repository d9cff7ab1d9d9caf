"""Continuous batching in closed form: waves of requests, and the wait of a prompt.

Steps and their cycles are in `genz_core.serving.step_cycles`.

Users of a steady loop start at different times, so prompts arrive in any step.  Requests that
started together also end together: with equal lengths, prompts arrive in the share `clump` of the
steps, and the other steps have none.  The time to a prompt's first token is the rest of the running
step, the tokens queued before it, and its own prefill.  Arrivals at a rate are in
`genz_core.serving.arrivals`.

No request is shorter than `wave_s`, the work of all admitted requests.

This approximates `genz_core.serving.simulation`, which runs the schedulers themselves; `ridgeline
validate simulation` measures the difference.
Source of the wait: Kleinrock, Queueing Systems 1 (1975), ch. 5; the formula as a whole is
Ridgeline's.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from genz_core.schedule import LEAST_REST
from genz_core.serving.queues import FULLEST, largest, median_share
from genz_core.serving.step_cycles import Gathered, StepCycles
from genz_core.types import Array


@dataclass(frozen=True, slots=True)
class Pace:
    """Steps of a rank with a number of decoding requests, [..., configs]; times in seconds,
    unscaled.

    prompts: new prompts per step, in steps that have any.  plain_s: a cycle without prompts;
    mixed_s: mean cycle with prompts; cycle_s: time between two decode steps of a request.
    """

    decodes: Array
    prompts: Array
    plain_s: Array
    mixed_s: Array
    cycle_s: Array


#: Share of the output by which requests of equal length drift apart if prompts and decodes share
#: steps: judgement.
_JITTER = 0.1

#: Share of the requests of a closed loop that fall in step, by the decode steps that remain if each
#: prompt is read alone, in units of the steps within which requests are read together: judgement.
_BEGUN = ((1.0, 2.0), (1.0, 0.0))
#: Share that stays in step, by the steps from the shortest to the longest answer, in these units.
#: Judgement, on 500 simulated loads of ten models on eight devices.
_ALIKE = ((0.5, 2.0), (1.0, 0.0))


@dataclass(frozen=True, slots=True)
class Batching(StepCycles):
    """How an engine handles a load, per rank: when its requests arrive, wait and are prefilled."""

    def clump_steps(self) -> Array:
        """Number of a request's steps in which new prompts arrive together, at most all of them.

        Requests that start together end together, and after n waves spread by sqrt(n) times the
        differences of their lengths, as in a random walk.  Measured runs of one length spread too
        if prompts and decodes share steps, because steps differ in time and users in their start.
        If steps hold prompts alone, all waiting prompts are prefilled before any of them
        decodes, which brings them together again.
        """
        steps = np.maximum(self.steps, 1.0)
        clump = np.minimum(self.wave_steps() + self._walked_steps(), steps)
        reads = np.minimum(self.wave_steps(), steps)
        return np.where(self.waves > 0, clump, steps + self.joined * (reads - steps))

    def _walked_steps(self) -> Array:
        """Steps between the ends of requests that started together."""
        least = _JITTER * self.steps if self.mixed else 0.0
        apart: Array = np.maximum(self.steps_spread, least) * np.sqrt(self.waves / 2.0)
        return apart

    def wave_steps(self) -> Array:
        """Steps needed to prefill all admitted requests."""
        reading = self.admitted * self.isl / self.room(self.admitted) / self.lanes
        return np.maximum(reading, 1.0)

    def in_step(self) -> Array | float:
        """Share of the requests that wait together, are prefilled together, and only then decode: 0
        to 1.

        In a steady loop requests start evenly over the duration of one, and each is prefilled
        alone.  If this leaves almost no step for decodes, all of them end within a few steps: the
        others end before the prompts of the first are read, and stay together if their lengths
        differ by few steps.  Both change gradually, because some loops fall in step in part.
        """
        if self.mixed:
            return 0.0
        together = np.clip(1.0 - self._walked_steps() / self.wave_steps(), 0.0, 1.0)
        none = np.zeros_like(self.isl)
        many = np.maximum(self.admitted, 1.0)
        plain, session = self.cycle_s(many, none), sum(self.wave_s(many))
        alone = self.reading_s(none, self.isl, self.isl, self.room(none), none)
        ranks = self.times.ranks
        apart = np.maximum(session - self.admitted * ranks * alone / self.lanes, 0.0) / plain
        window = 1.0 + self.ahead_steps + np.asarray(self.host_s) / plain
        begun = np.interp(apart / window, *_BEGUN)
        alike = np.interp(self.nominal_spread / window, *_ALIKE)
        if self.lanes > 1:  # fewer steps than lanes leave some lanes without requests
            filled = self.admitted * self.isl / self.room(self.admitted)
            several = np.clip(self.wave_steps() - 1.0, 0.0, 1.0)
            some = np.clip((filled - 1.0) / (self.lanes - 1.0), 0.0, 1.0)
            alike = alike * (several + (1.0 - several) * some)
        company = np.clip(self.admitted * ranks - 1.0, 0.0, 1.0)
        return np.where(self.waves > 0, together, begun * alike * company)

    def pace(self, decodes: Array, clump: Array) -> Pace:
        """The steps of a rank with this number of decoding requests.

        clump: see `clump_steps`; one of these steps is the prefill of the request itself.  If all
        prompts are prefilled before any decodes, the first token of one waits for half of the
        others.
        """
        steps = np.maximum(self.steps, 1.0)
        running = np.maximum(decodes, 1.0)
        prompts = self.prompts(decodes) * steps / clump
        before = self.joined * (np.minimum(self.wave_steps(), clump) - 1.0) / 2.0
        seen = np.clip((clump - 1.0 - before) / np.maximum(steps - 1.0, 1e-9), 0.0, 1.0)
        without = self.plain(running)
        plain, mixed = self._of_lanes(*without), self.mixed_cycle_s(running, prompts, without)
        return Pace(decodes, prompts, plain, mixed, seen * mixed + (1.0 - seen) * plain)

    # --------------------------------------------------------------------------- a first token

    def ttft_s(self, pace: Pace) -> Array:
        """Mean time from the arrival of an admitted request to its first token [s]."""
        mean: Array = self.first_token(pace, "mean")[0][0]
        return mean

    def first_token(self, pace: Pace, *which: Literal["mean", "median"]) -> tuple[Array, Array]:
        """Mean and median time from the arrival of an admitted request to its first token [s],
        [which, ..., configs]; and the part of the first in which no cycle of decodes ends, because
        the request's own prompt makes its steps longer.

        A share `used` of the step's capacity is occupied, so the same share of arrivals finds a
        queue; the length of that queue has an exponential tail.  Prompts that gather while others
        are read are all read before the next decode step, in turn if a step cannot hold them.
        """
        decodes, prompts, step = pace.decodes, pace.prompts, pace.plain_s
        none = np.zeros_like(decodes)
        looks = np.maximum(self.look_every, 1.0)
        gathered = self._gathered(step / self.lanes, prompts) if self.gathers else None
        residual, planned = self._steps_before_s(pace, gathered)
        beside = decodes * self.others
        read = self.readings(prompts, decodes)
        waits = (looks - 1.0) / 2.0 + read.wait
        room = self.room(beside)
        used = np.minimum(prompts * self.isl / room, FULLEST)
        if gathered:
            queued = np.maximum(gathered.busiest * self.isl - np.maximum(room, self.isl), 0.0) / 2.0
            median = queued
        else:
            queued = self.isl * used / 2.0 / (1.0 - used)
            median = queued * median_share(used)
        before = stacked(queued if of == "mean" else median for of in which)
        others = np.maximum(self.admitted - 1.0, 0.0) * (1.0 - self.joined / 2.0)
        before = np.minimum(before, others * self.isl)
        beside_own = gathered.busiest - 1.0 if gathered else read.beside
        ahead, together = before + self.isl, self.isl * (1.0 + np.maximum(prompts, beside_own))
        elsewhere = np.minimum(read.of_rank * self.isl, room)
        running = np.maximum(beside, 1.0)
        launched = self.launched_share(stacked((none, running)), stacked((none, prompts)), own=1.0)
        alone, shared = self.reading_s(  # by itself, and beside other requests
            stacked((none, running))[:, None],
            stacked((ahead, ahead)),
            stacked((self.isl + none, together))[:, None],
            room,
            stacked((none, elsewhere))[:, None],
            None if launched is None else launched[:, None],
        )
        per_s = decodes / (np.maximum(self.steps - 1.0, 1e-9) * pace.cycle_s)
        being_read = per_s * alone * self.isl / ahead * self.others / self.lanes
        # on its own rank a request of several tokens shares the steps of the others
        one_token = np.clip(3.0 - 2.0 * self.steps, 0.0, 1.0)
        on_ranks = 1.0 - one_token if gathered else np.ones_like(one_token)
        being_read = being_read * np.where(self.times.ranks > 1, on_ranks, one_token)
        busy = np.minimum((beside + being_read) * self.times.ranks, 1.0)
        own = alone + busy * (shared - alone)
        waited = busy * (residual + self.ahead_steps * planned + waits * step)
        first: Array = self.host_s + waited + own + self.late_steps * step
        if self.mixed:
            longer = own - np.maximum(ahead / room, 1.0) * pace.cycle_s
            # where others fill the step, it is as long without this request
            return first, np.maximum(longer[0], 0.0) * (1.0 - used)
        return first, (np.minimum(alone, own) * self.isl / ahead)[0]

    def _steps_before_s(self, pace: Pace, gathered: Gathered | None) -> tuple[Array, Array]:
        """Rest of the running step when a request arrives, and time of a mean step [s].

        In a closed loop a request arrives `host_s` after the end of a step, unless that is too long
        ago; in an open loop at any time.
        """

        def left(length: Array) -> Array:
            if not self.closed:
                return length / 2.0
            return np.maximum(length - self.host_s, length / 2.0)

        if self.mixed:
            mean = pace.mixed_s / self.lanes
            return left(mean), mean
        plain, decodes = pace.plain_s / self.lanes, np.maximum(pace.decodes, 1.0)
        if gathered:
            tokens = np.minimum(gathered.busiest * self.isl, self.room(decodes))
            reading = self.cycle_s(np.zeros_like(decodes), tokens) / self.lanes
            half = np.maximum(reading - np.minimum(self.host_s, reading) / 2.0, plain / 2.0)
            residual = left(plain) + gathered.met * (half - left(plain))
            return residual, plain + gathered.planned * np.maximum(reading - plain, 0.0)
        any_prompt, busiest = self.readings(pace.prompts, pace.decodes).busiest
        tokens = np.minimum(busiest * self.isl, self.room(decodes))
        reading = self.cycle_s(np.zeros_like(decodes), tokens) / self.lanes
        longer = np.maximum(reading, plain)
        residual = left(plain) + any_prompt * (left(longer) - left(plain))
        return residual, (plain + any_prompt * reading) / (1.0 + any_prompt)

    def reading_s(
        self,
        decodes: Array,
        tokens: Array,
        together: Array,
        room: Array,
        elsewhere: Array | None = None,
        launched: Array | None = None,
    ) -> Array:
        """Time of the steps that prefill `tokens` prompt tokens [s].

        together: tokens of the step if everything fits in one, including the other prompts in it.
         room: capacity of a step.  elsewhere: prompt tokens in each other rank's step, by default
        as many as here.  launched: of the last step, see `StepTimes`.
        """
        beside = decodes if self.mixed else np.zeros_like(decodes)
        whole = np.floor(tokens / room)
        rest = tokens - whole * room
        last = np.where(whole > 0, rest, np.minimum(together, room))
        some = np.maximum(last, np.where(whole > 0, np.minimum(LEAST_REST, room), 1.0))
        if launched is not None:  # the rest of a prompt is alone in the last of several steps
            launched = np.where(
                whole > 0, some > self.times.graph_room(self._of_lane(beside)), launched
            )
        last_s = self.cycle_s(beside, some, some if elsewhere is None else elsewhere, launched)
        last_s = np.where(last > 0, last_s, 0.0)
        if not whole.any():
            return last_s
        return whole * self.cycle_s(beside, room, room if elsewhere is None else elsewhere) + last_s

    def first_s(self) -> Array:
        """Time for which requests that return together wait for the first of them [s], for the
        share of them that do (`in_step`).

        The first finds nothing running and has a step of its own.  The others' steps are shorter
        without it, which is subtracted.

        Prompts of one length return at once.
        """
        none = np.zeros_like(self.isl)
        waiting = self.joined * (np.asarray(self.apart_s) > 0.0)
        if not np.any(waiting):
            return none
        room, requests = self.room(none), np.maximum(self.admitted * self.times.ranks, 1.0)
        of_rank = np.array([self.admitted, self.admitted * (1.0 - 1.0 / requests)])
        tokens = np.maximum(of_rank, 1.0) * self.isl / self.lanes

        def read_s(tokens: Array) -> Array:
            part = np.clip(tokens, 1.0, room)
            return tokens / part * self.cycle_s(none, part, part)

        alone = self.reading_s(none, self.isl, self.isl, room, none)
        longer = np.maximum(alone + read_s(tokens[1]) - read_s(tokens[0]), 0.0)
        return np.asarray(waiting * np.minimum(requests - 1.0, 1.0) * longer)

    def first_wave_s(self) -> Array:
        """Mean time to the first token if all users start at once [s]."""
        half = np.where(self.steps > 1.0, self.most_decodes() / 2.0, 0.0)
        room = self.room(half)
        tokens = self.admitted * self.isl
        each = np.clip(tokens / self.lanes, np.minimum(self.isl, room), room)
        latency, stage = self._lane(np.zeros_like(half), each, each)
        one_step = np.maximum(latency, self.lanes_taken * stage)
        many = self.cycle_s(half if self.mixed else np.zeros_like(half), room, room)
        mean = (tokens + np.maximum(self.isl, room)) / 2.0 / (room * self.lanes) * many
        return self.host_s + np.where(tokens > room * self.lanes, mean, one_step)

    def most_decodes(self) -> Array:
        """Largest number of decoding sequences for which the steps keep up with their prompts.

        With n prompts per step of a lane, n (steps - 1) sequences decode, and n (isl + steps - 1)
        tokens fill the budget; the number of whole prompts is rounded down.
        """
        if not self.mixed:
            return self.admitted
        each = np.maximum(self.steps - 1.0, 1e-9) / np.maximum(self.others, 1e-9) * FULLEST
        prompts = self.budget / (self.isl + each)
        if self.whole:
            prompts = np.maximum(np.floor(prompts), 1.0)
        most = np.minimum(prompts, self.times.sizes.tokens / self.isl) * each
        if self.whole:  # one prompt more while fewer decode
            most = np.maximum(most, self.budget - (prompts + 1.0) * self.isl)
        return np.minimum(self.admitted, most * self.lanes)

    def most_running(self) -> Array:
        """Largest number of requests of a rank that run at once, [configs].

        A request runs from the step that begins to read its prompt.  Steps that both decode and
        prefill hold only so many prompts; each prompt takes one step or more, and then decodes.
        Further requests wait for room in a step, however many places are free.  If prompts come
        first, all that are admitted are read before any of them ends.
        """
        if not self.mixed:
            return self.admitted
        decodes = self.most_decodes()
        gaps, read = np.maximum(self.steps - 1.0, 1e-9), self.isl / self.room(decodes)
        return np.minimum(self.admitted, decodes * (1.0 + np.maximum(read, 1.0) / gaps))

    def full_steps_per_s(self, decodes: Array) -> Array:
        """Requests prefilled per second if each step with these decodes has no room left [1/s]."""
        prompts = FULLEST * self.room(decodes * self.others) / self.isl
        per_s: Array = prompts * self.lanes / self.mixed_cycle_s(np.maximum(decodes, 1.0), prompts)
        return per_s

    # --------------------------------------------------------------------------- a wave

    def wave_s(self, decodes: Array) -> tuple[Array, Array]:
        """Time to prefill and to answer all admitted requests [s].

        If prompts share steps with decodes, the prefill time includes the answers: it is at least
        the time of full steps, and at least what the prompts add to the decode steps.  If fewer
        than one other request decodes on average, that share of the prompts' steps has a decode.
        """
        none = np.zeros_like(decodes)
        beside = decodes * self.others if self.mixed else none
        room, tokens = self.room(beside), self.admitted * self.isl / self.lanes
        step = np.minimum(tokens, room)
        answering = (self.steps - 1.0) * self.cycle_s(np.maximum(self.admitted, 1.0), none)
        contents = (step, room, none) if self.mixed else (step,)
        with_step, *others = self._beside_s(beside, stacked(contents))
        reading = tokens / step * with_step
        if self.mixed:
            with_room, without = others
            added = with_room - without
            return np.maximum(reading, added * tokens / room + answering), none
        return reading, answering

    def _beside_s(self, decodes: Array, tokens: Array) -> Array:
        """Mean time of a step with these prompt tokens and this mean number of decodes [s].

        A mean below one is a mixture of steps with one decode and steps with none.
        """
        time = self.cycle_s(decodes, tokens, tokens)
        few = (decodes > 0.0) & (decodes < 1.0)
        if not few.any():
            return time
        without = self.cycle_s(np.zeros_like(decodes), tokens, tokens)
        return np.where(few, without + decodes * (time - without), time)

    def running_s(self, decodes: Array) -> Array:
        """Time of the running and planned steps when a request arrives, each without prompts
        [s].
        """
        step = self.cycle_s(np.maximum(decodes, 1.0), np.zeros_like(decodes))
        return (1.0 + self.ahead_steps) * step

    def half_wave_s(self, decodes: Array, wave_s: Array) -> Array:
        """TTFT without the host's time [s] if prompts are prefilled one after another in separate
        steps and earlier requests do not wait for later ones.

        It is half of a wave's steps, the request's own step, and the late delivery; no step is
        running on arrival.

        wave_s: time to prefill all of them, see `wave_s`.
        """
        none, steps = np.zeros_like(decodes), self.wave_steps()
        own = self.reading_s(none, self.isl, self.isl, self.room(none), none)
        read = np.maximum(wave_s * (steps + 1.0) / (2.0 * steps), own)
        waits = self.late_steps + (np.maximum(self.look_every, 1.0) - 1.0) / 2.0
        half: Array = waits * self.cycle_s(np.maximum(decodes, 1.0), none) + read
        return half

    # --------------------------------------------------------------------------- one output token

    def prompts_per_s(self) -> Array:
        """Largest rate at which a rank can process requests with one output token [1/s]."""
        none = np.zeros_like(self.isl)
        room = self.room(none)
        return room * self.lanes / self.isl / self.cycle_s(none, room, room)

    def round_s(self, gaps: Array | float) -> Array:
        """Time between two requests of a user with answers of one or two tokens in a closed loop
        [s], if a step holds all that wait.

        The requests that arrive while a step runs are prefilled together in the next one, and
        return together: the groups of a pipeline are as many as its lanes and one that waits, and
        take turns.  Groups of different sizes in lanes catch up with one another, so that fewer are
        left.  In lock-step, ranks hold different numbers of a group's requests.
        gaps: 0 or 1, steps of an answer after its prefill.
        """
        none, lanes, room = np.zeros_like(self.isl), self.lanes, self.room(np.zeros_like(self.isl))
        each, busiest = self._group()
        left = np.maximum(each - busiest, 0.0) / np.maximum(self.times.ranks - 1.0, 1.0)
        tokens = np.minimum(busiest * self.isl, room)
        step = self.cycle_s(none, tokens, np.minimum(left * self.isl, tokens))
        step = step * np.maximum(busiest * self.isl / room, 1.0)
        alone = self.reading_s(none, self.isl, self.isl, room, none)
        answer = gaps * self.group_gap_s()
        groups = self.inside * self.times.ranks / each
        round_s: Array = np.maximum(
            self.host_s + np.maximum(step, alone) + answer, groups / lanes * (step + answer)
        )
        return round_s

    def group_gap_s(self) -> Array:
        """Time of a step in which a group of `round_s` decodes [s]."""
        return self.cycle_s(self._group()[1], np.zeros_like(self.isl))

    def _group(self) -> tuple[Array, Array]:
        """Requests of a group of `round_s`, and those on its busiest rank."""
        ranks, inside = self.times.ranks, self.inside
        groups = np.clip(inside * ranks, 1.0, self.lanes + 1.0 / self.lanes)
        each = np.maximum(inside * ranks / groups, 1.0)
        mean, apart = each / ranks, np.sqrt(1.0 - 1.0 / groups)
        busiest = mean + (largest(mean, ranks)[1] - mean) * apart
        busiest = np.where(ranks > 1, np.minimum(busiest, inside), mean)
        return each, np.maximum(busiest, 1.0)

    @property
    def inside(self) -> Array:
        """Requests of a rank inside the engine in a closed loop, if all may be prefilled."""
        late = 1.0 + np.broadcast_to(self.wait, self.isl.shape)
        return np.minimum(self.admitted, self.users / late)

    def read_per_s(self) -> Array:
        """Rate at which a rank processes requests with one output token in a closed loop [1/s]."""
        return np.minimum(self.inside / self.round_s(0.0), self.prompts_per_s())


def stacked(arrays: Iterable[Array]) -> Array:
    """Arrays of one shape in a new first axis; much faster than `np.stack`."""
    return np.array([*arrays])

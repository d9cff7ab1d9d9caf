"""A rank under arrivals at a rate: what a request waits for, and what its gaps see.

Arrivals do not wait for the end of a step, so that long steps gather more of them:

* one that arrives lies in a step by its share of the time, E[T^2] / E[T], not in a mean one;
* all that arrive in that step are read together, and while they are, further ones arrive, whose
  prompts the first gaps of an answer see: a step that is longer than the mean by e makes a later
  one longer by rho e, one after that by rho^2 e, where rho is the share of a step for prompts;
* where prompts are read first, a step that reads is followed by another unless nobody arrived
  while it ran, so that decodes wait for b / (1 - a) of them, with b and a the chances that somebody
  arrives in a step that decodes and in one that reads;
* prompts of which a step reads a part queue as at servers of fixed time, M/D/c: a router sends each
  to the least loaded of the ranks.

Sources: Kleinrock, Queueing Systems 1 (1975), ch. 5 (residual life, M/G/1);
`genz_core.serving.queues` for several servers; Ridgeline's for the rest.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from genz_core.serving.queueing import Batching
from genz_core.serving.queues import FULLEST, MOST_READING, busy_share, median_share, waited
from genz_core.serving.step_cycles import largest
from genz_core.types import Array

_ROUNDS = 3  # of the balance of arrivals and requests that decode: judgement


@dataclass(frozen=True, slots=True)
class Paced:
    """Requests of a rank at a rate, [configs]; times in seconds, unscaled.

    decodes: that decode.  cycle_s: between two steps of one.  ttft_s, median_s: mean and median
    time to a first token inside the engine.
    """

    decodes: Array
    cycle_s: Array
    ttft_s: Array
    median_s: Array


def paced(batching: Batching, per_s: Array, decodes: Array) -> Paced:
    """Requests that arrive at `per_s` [1/s] of a rank.

    decodes: that decode where no step is longer than the mean one.
    """
    gaps = np.maximum(batching.steps - 1.0, 0.0)
    ranks, lanes, isl = batching.times.ranks, batching.lanes, batching.isl
    cycle = batching.pace(decodes, np.maximum(batching.steps, 1.0)).cycle_s
    first, longer, none = np.zeros_like(cycle), np.zeros_like(cycle), np.zeros_like(cycle)
    alone = batching.reading_s(none, isl, isl, batching.room(none), none)
    for _ in range(_ROUNDS):
        # an answer is beside those that decode when it comes, and itself
        running = np.minimum(decodes + 1.0 / batching.routed, batching.admitted)
        running = np.maximum(running, 1.0)
        beside = running if batching.mixed else none
        room = batching.room(beside)
        full = batching.cycle_s(beside, room, room)
        plain = batching.cycle_s(running, none)
        cycle, reading = _cycle_s(batching, per_s, (running, cycle, plain), (alone, full))
        prompts = per_s * cycle / lanes
        # of a step: where prompts are read alone, several may come between two that decode
        step = cycle if batching.mixed else cycle / (1.0 + (cycle - plain) / reading)
        open_ = np.maximum(per_s * (first + gaps * cycle), decodes) * ranks
        busy = np.maximum(-np.expm1(-open_), 1e-9)
        longest = full if batching.mixed else plain + full
        met = _met_s(batching, plain, cycle, reading, longest, prompts * ranks / busy)
        used = np.minimum(per_s * isl * full / room / lanes, FULLEST)
        before = _before(batching, used, room)
        together = per_s * met / lanes
        beside_own = np.where(
            ranks > 1, together, np.maximum(together, batching.group(prompts) - 1.0)
        )
        busiest = np.maximum(1.0 + beside_own, largest(together, ranks)[1])
        group, elsewhere = isl * busiest, np.minimum(together * isl, room)
        queue = busy * before / room * full
        own = alone + busy * (batching.reading_s(beside, isl, group, room, elsewhere) - alone)
        own = own + queue
        looks = (np.maximum(batching.look_every, 1.0) - 1.0) / 2.0
        waits = looks + np.minimum(decodes, 1.0) * batching.group_wait_steps(prompts)
        wait = (met / 2.0 + batching.ahead_steps * step) / lanes + waits * plain
        first = batching.host_s + busy * wait + own + batching.late_steps * plain
        longer = _longer_s(batching, own, cycle, plain, longest)
        decodes = np.minimum(per_s * (gaps * cycle + longer), batching.admitted)
    median = first - queue * (1.0 - median_share(used))
    gap = cycle + longer / np.maximum(gaps, 1e-9)
    if batching.ahead_steps and lanes == 1:
        # answers of two tokens: all that were read end with the next step, and nothing runs while
        # the one after it is planned, so that all who wait are in that one and none is in theirs
        longest_gaps = gaps + batching.steps_spread / 2.0
        together = (ranks == 1) & (isl <= room)
        several = np.where(together, np.clip(longest_gaps - 1.0, 0.0, 1.0), 1.0)
        gap = plain + several * (gap - plain)
    return Paced(decodes, gap, first, np.minimum(median, first))


def read_s(batching: Batching, per_s: Array) -> Array:
    """Mean time to the one token of requests that arrive at `per_s` [1/s] of a rank [s].

    All that arrive while a step runs are read in the next, as far as it has room.
    """
    none = np.zeros_like(per_s)
    isl, room, lanes = batching.isl, batching.room(none), batching.lanes
    rate, most = per_s / lanes, np.maximum(room / isl, 1.0)
    full = batching.cycle_s(none, room, room)
    alone = batching.reading_s(none, isl, isl, room, none)
    used = np.minimum(rate * full / most, FULLEST)
    step, group = np.minimum(alone, full), np.ones_like(per_s)
    several = np.clip(most - 1.0, 0.0, 1.0)  # whether a step has room for more than one
    for _ in range(_ROUNDS):
        # as many as arrive while they are read, a step growing evenly with its prompts
        added = np.maximum(full - step, 0.0) / np.maximum(most - group, 1e-9)
        each = rate * (step - added * group) / np.maximum(1.0 - rate * added, 1.0 - FULLEST)
        group = np.where(most > group, np.clip(each, 1.0, most), most)
        step = batching.cycle_s(none, np.minimum(group * isl, room), np.minimum(group * isl, room))
    busy = busy_share(used, rate * batching.times.ranks * step, several)
    beside = isl * busy * rate * step
    own = batching.reading_s(none, isl, isl + beside, room, np.minimum(beside, room))
    queue = _before(batching, used, room) / room * full
    return batching.host_s + busy * step / 2.0 / lanes + queue + np.maximum(own, alone)


def _cycle_s(
    batching: Batching,
    per_s: Array,
    decoding: tuple[Array, Array, Array],
    prompts_s: tuple[Array, Array],
) -> tuple[Array, Array]:
    """Mean time between two steps of a request that decodes, and of a step that reads [s].

    decoding: requests that decode, the time between two of their steps of the round before, and
    that of one without prompts.  prompts_s: of one prompt alone, and of a full step.
    """
    (running, cycle, plain), (one, full) = decoding, prompts_s
    lanes, ranks = batching.lanes, batching.times.ranks
    none = np.zeros_like(running)
    if batching.mixed:
        found = batching.mixed_cycle_s(running, per_s * cycle / lanes)
        if np.any(ranks > 1):
            beside = _side_by_side_s(batching, per_s, running, cycle, plain)
            found = np.where(ranks > 1, beside, found)
        found = np.maximum(found, plain)
        return found, found
    room = batching.room(none)
    arriving = per_s * ranks / lanes
    reading = one
    for _ in range(_ROUNDS - 1):
        chain = np.exp(np.minimum(arriving * reading, MOST_READING))
        reads = -np.expm1(-arriving * plain) * chain
        each = np.maximum(arriving * (plain / np.maximum(reads, 1e-12) + reading), 1.0)
        tokens = np.maximum(each / ranks, 1.0) * batching.isl
        part = np.minimum(tokens, room)
        step = batching.cycle_s(none, part, np.minimum(each / ranks * batching.isl, room))
        reading = np.maximum(tokens / room, 1.0) * step
    work = np.minimum(per_s * batching.isl / room * full / lanes, FULLEST)
    # no more decode than are admitted: then prompts wait for them
    most = batching.admitted / np.maximum(per_s * np.maximum(batching.steps - 1.0, 1e-9), 1e-12)
    least = plain / (1.0 - work)
    found = np.clip(plain + reads * reading, least, np.maximum(most, least))
    return found, np.maximum(reading, one)


def _side_by_side_s(
    batching: Batching, per_s: Array, running: Array, cycle: Array, plain: Array
) -> Array:
    """Mean step of ranks in lock-step that read prompts beside decodes [s].

    Those that arrive while one reads are read together, on whichever ranks they came to.
    """
    ranks, room = batching.times.ranks, batching.room(running)
    arriving = per_s * ranks / batching.lanes
    some = np.minimum(batching.isl, room)
    found, full = cycle, batching.cycle_s(running, some, np.zeros_like(some))
    parts = np.maximum(batching.isl / room, 1.0)
    for _ in range(_ROUNDS):
        follows = np.exp(np.minimum(arriving * parts * full, MOST_READING))
        reads = parts * -np.expm1(-arriving * plain) * follows
        share = reads / (1.0 + reads)
        each = np.maximum(arriving * found * parts / np.maximum(share, 1e-12), 1.0)
        tokens = largest(each / ranks, ranks)[1] * batching.isl
        parts = np.maximum(tokens / room, 1.0)
        part = np.minimum(tokens, room)
        left = np.maximum(each * batching.isl / parts - part, 0.0)
        full = batching.cycle_s(
            running, part, np.minimum(left / np.maximum(ranks - 1.0, 1.0), part)
        )
        found = plain + share * (full - plain)
    return found


def _met_s(
    batching: Batching,
    plain: Array,
    cycle: Array,
    reading: Array,
    longest: Array,
    prompts: Array,
) -> Array:
    """Mean length of the step in which a request arrives [s], E[T^2] / E[T].

    plain, cycle, longest: a step without prompts, the mean one, and a full one; reading: one of
    prompts alone, where they have one.  prompts: of a step, of all ranks.
    """
    added, most = cycle - plain, np.maximum(longest - plain, 1e-12)
    if not batching.mixed:
        return (plain * plain + added * reading) / cycle
    each = np.minimum(added / np.maximum(prompts, 1e-12), most)
    return cycle + added * each * np.maximum(1.0 - added / most, 0.0) / cycle


def _before(batching: Batching, used: Array, room: Array) -> Array:
    """Prompt tokens that wait before those of an arrival, beyond those of the running step.

    M/D/c of whole prompts, less the step that is on its way.
    """
    part = np.minimum(batching.isl, room)
    servers = batching.routed
    tokens = batching.isl * waited(used, servers) - part * used / servers
    return np.maximum(tokens, 0.0) / 2.0


def _longer_s(batching: Batching, own: Array, cycle: Array, plain: Array, longest: Array) -> Array:
    """Time by which the gaps of an answer are longer than as many mean ones, all together [s].

    own: steps that read its prompt, with those before it.  The lanes of a pipeline, and the ranks
    behind a router, take their part of those who arrive meanwhile.
    """
    gaps = np.maximum(batching.steps - 1.0, 0.0)
    lag = 1.0 + batching.ahead_steps
    share = np.clip(1.0 - plain / cycle, 0.0, FULLEST) / batching.lanes
    later = np.maximum(gaps - (lag - 1.0) / 2.0, 0.0) / lag
    followed = share * (1.0 - share**later) / (1.0 - share) / batching.routed
    if not batching.mixed:  # all that arrive are read before a decode, but one that is planned
        at_once = np.clip(gaps - batching.ahead_steps, share, 1.0)
        followed = at_once * share / (1.0 - share) / batching.routed
    longer = np.maximum(own - cycle, 1e-12) * followed
    most = np.maximum(gaps * (longest - cycle), 1e-12)
    # the mean of what is left of an exponential tail that is cut off
    cut: Array = longer * -np.expm1(-most / np.maximum(longer, 1e-12))
    return cut

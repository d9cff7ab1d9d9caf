"""A rank with requests arriving at a rate: their waiting time, and the gaps between their tokens.

Requests arrive at any time, so more of them arrive during long steps:

* an arriving request finds a running step of length E[T^2] / E[T], which is longer than the mean;
* all requests that arrive during that step are prefilled together.  Further requests arrive
meanwhile, and their prompts lengthen the first gaps of an answer: a step longer than the mean by e
makes a later step longer by rho e, the one after that by rho^2 e, where rho is the share of a step
spent on prompts;
* if prefill has priority, a prefill step is followed by another one unless no request arrived
during it.  Decodes therefore wait for b / (1 - a) of them, where b and a are the probabilities of
an arrival during a decode step and during a prefill step;
* prompts that need several steps queue as at servers with constant service time, M/D/c: a router
sends each to the least loaded rank.

Sources: Kleinrock, Queueing Systems 1 (1975), ch. 5 (residual life, M/G/1);
`genz_core.serving.queues` for several servers; the rest is Ridgeline's.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from genz_core.serving.queueing import Batching
from genz_core.serving.queues import (
    FULLEST,
    MOST_READING,
    all_occupied,
    busy_share,
    largest,
    median_share,
    waited,
)
from genz_core.types import Array

#: Iterations of the balance between arrivals and open requests (and of steps that a pipeline
#: shares with prompts), of a step's, and of a pipeline's that prefills first: judgement.
_BALANCES, _ROUNDS, _LAPS = 4, 3, 12


@dataclass(frozen=True, slots=True)
class Paced:
    """Requests of a rank in an open loop, [configs]; times in seconds, unscaled.

    decodes: number of decoding requests.  cycle_s: time between two decode steps of one.  ttft_s,
    median_s: mean and median time to the first token inside the engine.
    """

    decodes: Array
    cycle_s: Array
    ttft_s: Array
    median_s: Array


def paced(batching: Batching, per_s: Array, decodes: Array) -> Paced:
    """The rank in balance, with `per_s` arrivals per second.

    decodes: number of decoding requests if no step were longer than the mean.
    """
    gaps = np.maximum(batching.steps - 1.0, 0.0)
    ranks, lanes, isl = batching.times.ranks, batching.lanes, batching.isl
    cycle = batching.pace(decodes, np.maximum(batching.steps, 1.0)).cycle_s
    longer, none = np.zeros_like(cycle), np.zeros_like(cycle)
    by_itself = batching.with_requests(np.ones_like(cycle))
    alone = by_itself.reading_s(none, isl, isl, batching.room(none), none)
    first = alone
    for _ in range(_BALANCES):
        # an answer decodes together with those that it finds on arrival
        present = np.minimum(decodes + 1.0 / batching.routed, batching.admitted)
        running = np.maximum(present, 1.0)
        beside = running if batching.mixed else none
        room = batching.room(beside)
        full = batching.cycle_s(beside, room, room)
        some = batching.with_requests(present)
        plain = some.cycle_s(running, none)
        busy, beside_decodes = _met_share(batching, per_s * first + decodes)
        beside_s = per_s * beside_decodes
        cycle, reading = _cycle_s(some, beside_s, (running, cycle, plain), (alone, full))
        prompts = beside_s * cycle / lanes
        # per step: with separate prefill steps, several may run between two decode steps
        step = cycle if batching.mixed else cycle / (1.0 + (cycle - plain) / reading)
        longest = full if batching.mixed else plain + full
        met = _met_s(batching, plain, cycle, reading, longest, prompts * ranks / busy)
        used = np.minimum(per_s * isl * full / room / lanes, FULLEST)
        before = _before(batching, used, room)
        together = per_s * met / lanes
        read = batching.readings(prompts, decodes)
        beside_own = np.where(ranks > 1, together, np.maximum(together, read.beside))
        busiest = np.maximum(1.0 + beside_own, largest(together, ranks)[1])
        group, elsewhere = isl * busiest, np.minimum(together * isl, room)
        queue = busy * before / room * full
        launched = some.launched_share(beside, together, own=1.0)
        shared = some.reading_s(beside, isl, group, room, elsewhere, launched)
        own = alone + busy * (shared - alone)
        own = own + queue
        looks = (np.maximum(batching.look_every, 1.0) - 1.0) / 2.0
        waits = looks + read.wait
        wait = (met / 2.0 + batching.ahead_steps * step) / lanes + waits * plain
        first = batching.host_s + busy * wait + own + batching.late_steps * plain
        if batching.mixed:
            longer = _longer_s(batching, own, cycle, plain, longest)
        else:
            longer = _stalled_s(batching, beside_s, own, (cycle, plain, reading), full / room)
        decodes = np.minimum(per_s * (gaps * cycle + longer), batching.admitted)
    median = first - queue * (1.0 - median_share(used))
    gap = cycle + longer / np.maximum(gaps, 1e-9)
    if batching.ahead_steps and lanes == 1:
        # of answers of two tokens those beside prompts that the last step had no room for
        beside_prompts = np.maximum(batching.beside_prompts(), used ** np.maximum(room / isl, 1.0))
        gap = plain + beside_prompts * (gap - plain)
    return Paced(decodes, gap, first, np.minimum(median, first))


def _met_share(batching: Batching, open_: Array) -> tuple[Array, Array]:
    """Share of the arrivals that find others where they are sent, and the rate of those at a rank
    with requests, relative to the mean rate of all ranks.

    The number of open requests is taken as a Poisson number.  Any of them is on the same worker if
    its ranks run in lock-step; otherwise a router sends each to the rank with the fewest, so the
    arrival finds some only if no rank is free.

    open_: mean number of open requests of a rank.
    """
    coupled = batching.times.ranks
    apart = np.where(coupled > 1, 1.0, batching.routed)
    none_free, occupied = all_occupied(open_ * np.maximum(coupled, batching.routed), apart)
    return np.maximum(none_free, 1e-9), none_free / np.maximum(occupied, 1e-9)


def read_s(batching: Batching, per_s: Array) -> Array:
    """Mean time to the only token of requests that arrive at `per_s` [1/s] on a rank [s].

    All requests that arrive during a step are prefilled in the next, as far as they fit.
    """
    none = np.zeros_like(per_s)
    isl, room, lanes = batching.isl, batching.room(none), batching.lanes
    rate, most = per_s / lanes, np.maximum(room / isl, 1.0)
    full = batching.cycle_s(none, room, room)
    alone = batching.reading_s(none, isl, isl, room, none)
    used = np.minimum(rate * full / most, FULLEST)
    step, group = np.minimum(alone, full), np.ones_like(per_s)
    several = np.clip(most - 1.0, 0.0, 1.0)  # whether a step can hold more than one prompt
    for _ in range(_ROUNDS):
        # as many as arrive during their own step, whose time grows linearly with its prompts
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
    """Mean time between two decode steps of a request, and of a prefill step [s].

    decoding: number of decoding requests, their cycle time in the previous iteration, and the cycle
    time without prompts.  prompts_s: time of a single prompt, and of a full step.
    """
    (running, cycle, plain), (one, full) = decoding, prompts_s
    lanes, ranks = batching.lanes, batching.times.ranks
    none = np.zeros_like(running)
    if batching.mixed:
        found = cycle
        for _ in range(1 if lanes == 1 else _BALANCES):
            found = batching.mixed_cycle_s(running, per_s * found / lanes, before_s=found)
        if np.any(ranks > 1):
            beside = _side_by_side_s(batching, per_s, running, cycle, plain)
            found = np.where(ranks > 1, beside, found)
        found = np.maximum(found, plain)
        return found, found
    room = batching.room(none)
    arriving = per_s * ranks / lanes
    reading = one
    alone_share = batching.beside_prompts() if batching.ahead_steps and lanes == 1 else 1.0
    for _ in range(_ROUNDS - 1):
        chain = np.exp(np.minimum(arriving * reading, MOST_READING))
        reads = -np.expm1(-arriving * plain) * chain
        once = -np.expm1(-arriving * (plain + reading))
        reads = once + alone_share * (reads - once)
        each = np.maximum(arriving * (plain / np.maximum(reads, 1e-12) + reading), 1.0)
        tokens = np.maximum(each / ranks, 1.0) * batching.isl
        part = np.minimum(tokens, room)
        step = batching.cycle_s(none, part, np.minimum(each / ranks * batching.isl, room))
        reading = np.maximum(tokens / room, 1.0) * step
    work = np.minimum(per_s * batching.isl / room * full / lanes, FULLEST)
    # at most the admitted requests decode; beyond that prompts wait for them
    most = batching.admitted / np.maximum(per_s * np.maximum(batching.steps - 1.0, 1e-9), 1e-12)
    least = plain / (1.0 - work)
    found = plain + reads * reading
    if lanes > 1:
        found, reading = _in_order(batching, per_s, running, one)
    found = np.clip(found, least, np.maximum(most, least))
    return found, np.maximum(reading, one)


def _in_order(batching: Batching, per_s: Array, running: Array, one: Array) -> tuple[Array, Array]:
    """Mean time between two decode steps of a request, and of a prefill step [s], if prompts come
    first in a pipeline: its next lane prefills all that have arrived since the last one started.

    one: time of a single prompt.
    """
    lanes, ranks = batching.lanes, batching.times.ranks
    none = np.zeros_like(running)
    room, plain = batching.room(none), batching.plain(running)
    cycle, readings = batching.cycle_s(running, none), none
    for _ in range(_LAPS):
        arriving = per_s * ranks * cycle / (1.0 + readings) / lanes
        any_prompt = -np.expm1(-arriving)
        each = np.maximum(arriving / np.maximum(any_prompt, 1e-12), 1.0) / ranks
        tokens = np.maximum(each, 1.0) * batching.isl
        part, parts = np.minimum(tokens, room), np.maximum(tokens / room, 1.0)
        reading = batching.times(none, part, np.minimum(each * batching.isl, room))
        share = np.minimum(any_prompt * parts, FULLEST)
        readings = (readings + share / (1.0 - share)) / 2.0
        cycle = batching.between_readings_s(readings, plain, reading, per_s * ranks)
    return cycle, np.maximum(parts * reading[0], one)


def _side_by_side_s(
    batching: Batching, per_s: Array, running: Array, cycle: Array, plain: Array
) -> Array:
    """Mean step of lock-step ranks that mix prompts and decodes [s].

    Requests that arrive during a step with prompts are prefilled together, whichever rank they are
    on.
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
    """Mean length of the step that is running when a request arrives [s], E[T^2] / E[T].

    plain, cycle, longest: a step without prompts, the mean step, and a full step; reading: a step
    of prompts only, if prefill has its own steps.  prompts: per step, over all ranks.
    """
    added, most = cycle - plain, np.maximum(longest - plain, 1e-12)
    if not batching.mixed:
        return (plain * plain + added * reading) / cycle
    each = np.minimum(added / np.maximum(prompts, 1e-12), most)
    return cycle + added * each * np.maximum(1.0 - added / most, 0.0) / cycle


def _before(batching: Batching, used: Array, room: Array) -> Array:
    """Prompt tokens queued before those of an arriving request, beyond those in the running step.

    M/D/c for whole prompts, minus the step in progress.
    """
    part = np.minimum(batching.isl, room)
    servers = batching.routed
    tokens = batching.isl * waited(used, servers) - part * used / servers
    return np.maximum(tokens, 0.0) / 2.0


def _longer_s(batching: Batching, own: Array, cycle: Array, plain: Array, longest: Array) -> Array:
    """Total time by which the gaps of an answer exceed the same number of mean gaps [s].

    own: steps that prefill its prompt, including the queue before it.  Lanes of a pipeline and
    ranks behind a router share the requests that arrive meanwhile.
    """
    gaps = np.maximum(batching.steps - 1.0, 0.0)
    lag = 1.0 + batching.ahead_steps
    share = np.clip(1.0 - plain / cycle, 0.0, FULLEST) / batching.lanes
    later = np.maximum(gaps - (lag - 1.0) / 2.0, 0.0) / lag
    followed = share * (1.0 - share**later) / (1.0 - share) / batching.routed
    longer = np.maximum(own - cycle, 1e-12) * followed
    most = np.maximum(gaps * (longest - cycle), 1e-12)
    # the mean of what is left of an exponential tail that is cut off
    cut: Array = longer * -np.expm1(-most / np.maximum(longer, 1e-12))
    return cut


def _stalled_s(
    batching: Batching,
    per_s: Array,
    own: Array,
    steps_s: tuple[Array, Array, Array],
    token_s: Array,
) -> Array:
    """Total time by which the gaps of an answer exceed the same number of mean gaps [s], if prompts
    come first.

    The prompts that arrived during its own are prefilled before its first decode step, and so are
    those that arrive meanwhile, except for a step that was already planned.  If a step holds all
    that wait, e^x - 1 steps follow, where x is the number of arrivals during one; otherwise they
    are served one by one, for a time of work / (1 - work) of its own.
    own: steps that prefill its prompt, including the queue before it.  steps_s: mean gap, decode
    step and prefill step.  token_s: of a prompt token in a full step.
    """
    cycle, plain, reading = steps_s
    gaps, lanes, ranks = np.maximum(batching.steps - 1.0, 0.0), batching.lanes, batching.times.ranks
    room = batching.room(np.zeros_like(own))
    work = np.minimum(per_s * batching.isl * token_s / lanes, FULLEST) / lanes
    arriving = np.minimum(per_s * ranks / lanes * reading, MOST_READING)
    at_once = np.maximum(np.expm1(arriving) * reading - (cycle - plain), 0.0)
    in_turn = np.maximum(own - cycle, 0.0) * work / (1.0 - work)
    several = np.clip(room * ranks / batching.isl - 1.0, 0.0, 1.0)
    planned = np.clip(gaps - batching.ahead_steps, work, 1.0)
    if lanes == 1:
        planned = np.where(batching.isl > room, 1.0, planned * batching.beside_prompts())
    longer = planned * np.maximum(in_turn, several * at_once) / batching.routed
    # at most the admitted requests decode
    most = batching.admitted / np.maximum(per_s, 1e-12) - gaps * cycle
    return np.clip(longer, 0.0, np.maximum(most, 0.0))

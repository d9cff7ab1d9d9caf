"""Balance of the load over the stations: running sequences, and latencies of requests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from genz_core.serving.pools.decode_station import AnsweringStation
from genz_core.serving.pools.link import LinkStation
from genz_core.serving.pools.pools_question import Combinations, Habits, Learned
from genz_core.serving.pools.prefill_station import ReadingStation
from genz_core.serving.pools.workers import DecodeWorkers, PrefillWorkers
from genz_core.serving.queues import median_share
from genz_core.serving.traffic import between_tokens
from genz_core.types import Array, Mask, Num, Places

#: Halvings of the interval that holds a balance; the remaining 2^-48 is as small as rounding.
_HALVINGS = 48
#: Largest utilisation in a closed loop, as close to 1 as figures can distinguish.
_FULL = 1.0 - 1e-6
#: Sequences of a decode worker, used instead of none.
_LEAST = 1e-9


@dataclass(frozen=True, slots=True)
class PooledLoad:
    """A load through both pools, [deployments]; times in seconds.

    running: sequences of one decode worker.  use: utilisation of the slower station.
    most_per_s: requests per second that it sustains.  prefill_s, bound_prefill_s: of a single
    prompt.
    travel_s: of its cache on an idle link.  step_s, bound_step_s: the steady decode step, and its
    bound.
    """

    requests_per_s: Array
    ttft_s: Array
    ttft_median_s: Array
    tpot_s: Array
    running: Array
    use: Array
    most_per_s: Array
    prefill_s: Array
    bound_prefill_s: Array
    travel_s: Array
    step_s: Array
    bound_step_s: Array


def pooled_load(
    prefill: PrefillWorkers,
    decode: DecodeWorkers,
    which: Combinations,
    osl: float,
    *,
    rate_per_s: Num = 0.0,
    concurrency: Num = 0.0,
    pause_s: Num = 0.0,
    learned: Learned | None = None,
    habits: Habits | None = None,
) -> PooledLoad:
    """Both pools under an arrival rate, or under `concurrency` users by Little's law.

    rate_per_s, concurrency: one of them, a number or [deployments].  pause_s: mean pause of a user
    after each request, likewise.  learned: nothing by default.
    """
    size = which.prefill.size
    learned, habits = learned or Learned.nothing(size), habits or Habits()
    whole = {name: np.empty(size) for name in PooledLoad.__dataclass_fields__}
    users, rate, pause = (
        np.broadcast_to(np.asarray(x, float), (size,)) for x in (concurrency, rate_per_s, pause_s)
    )
    for shape in np.unique(which.decode):
        at = np.flatnonzero(which.decode == shape)
        some = _Series.of(prefill, decode, which, at, learned.picked(at), habits.picked(at, size))
        closed = np.any(users)
        found = some.closed(users[at], pause[at], osl) if closed else some.open(rate[at], osl)
        for name, column in whole.items():
            column[at] = getattr(found, name)
    return PooledLoad(**whole)


@dataclass(frozen=True, slots=True)
class _Series:
    """Deployments whose decode workers have one shape, [deployments].

    before_s: wait of a request before it reaches a prefill worker.
    """

    reading: ReadingStation
    link: LinkStation
    answering: AnsweringStation
    before_s: Array
    habits: Habits

    @classmethod
    def of(
        cls,
        prefill: PrefillWorkers,
        decode: DecodeWorkers,
        which: Combinations,
        at: Places,
        learned: Learned,
        habits: Habits,
    ) -> _Series:
        """A selection of the combinations.  learned, habits: of these only."""
        readers, writers = which.prefill_workers[at], which.decode_workers[at]
        latency = np.broadcast_to(np.asarray(which.latency_s, float), which.prefill.shape)[at]
        travels = 1.0 if decode.steps > 0 else 0.0
        shape = int(which.decode[at[0]])
        return cls(
            ReadingStation.of(prefill, which.prefill[at], readers, learned.prefill),
            LinkStation(readers, which.busy_s[at] * travels, latency * travels),
            AnsweringStation.of(decode, shape, writers, learned.decode.steps),
            np.broadcast_to(np.asarray(learned.before_s, float), at.shape),
            habits,
        )

    @property
    def most_per_s(self) -> Array:
        """Requests per second that the slowest station sustains."""
        first = np.minimum(self.reading.most_per_s, self.link.most_per_s)
        return np.minimum(first, self.answering.most_per_s)

    def closed(self, users: Array, pause_s: Array, osl: float) -> PooledLoad:
        """A closed loop: users send their next request this long after the last one ends."""
        others = 1.0 - 1.0 / np.maximum(users, 1.0)
        most_per_s = self.most_per_s * _FULL
        if self.answering.steps > 0:
            running, _ = _bisected(
                lambda some: self._users(some, others, pause_s) < users,
                np.full(users.shape, _LEAST), self.answering.most, _geometric_mean,
            )  # fmt: skip
            per_s = np.minimum(self.answering.answers_per_s(running, others), most_per_s)
        else:
            running = np.zeros(users.shape)
            per_s, _ = _bisected(
                lambda rate: rate * (self._first_s(rate * others) + pause_s) < users,
                running, most_per_s, _arithmetic_mean,
            )  # fmt: skip
        return self._figures(per_s, running, others, osl, users, pause_s)

    def open(self, rate: Array, osl: float) -> PooledLoad:
        """An open loop: requests arrive at a rate."""
        per_s, others = np.minimum(rate, self.most_per_s), np.ones(rate.shape)
        running = np.zeros(rate.shape)
        if self.answering.steps > 0:
            _, running = _bisected(
                lambda some: self.answering.answers_per_s(some, others) < per_s,
                np.full(rate.shape, _LEAST), self.answering.most, _geometric_mean,
            )  # fmt: skip
        found = self._figures(per_s, running, others, osl)
        use = rate / self.most_per_s
        full = use >= 1.0
        first, median = (np.where(full, np.inf, t) for t in (found.ttft_s, found.ttft_median_s))
        return replace(found, requests_per_s=rate, use=use, ttft_s=first, ttft_median_s=median)

    def _first_s(self, met: Array) -> Array:
        """Time until a decode worker has the cache of a prompt, at an arrival rate of `met` [s]."""
        travel = self.link.seconds(met, self.reading.ahead(met))
        return self.before_s + self.reading.seconds(met)[0] + travel

    def _users(self, running: Array, others: Array, pause_s: Array) -> Array:
        """Users of whom this many run on a decode worker; not too few where a station is
        saturated.
        """
        step = self.answering.seen_s(running, others)
        per_s = self.answering.answers_per_s(running, others)
        first = self._first_s(np.minimum(per_s, self.most_per_s) * others)
        first = first + self.answering.admission_s(running * others, step, self.habits.look_every)
        found = self.answering.workers * running + per_s * (first + pause_s)
        return np.where(per_s < self.most_per_s * _FULL, found, np.inf)

    def _figures(
        self, per_s: Array, running: Array, others: Array, osl: float,
        users: Array | None = None, pause_s: Array | float = 0.0,
    ) -> PooledLoad:  # fmt: skip
        """The figures of a balanced load.  users, pause_s: of a closed loop."""
        met, decodes = per_s * others, np.maximum(running, _LEAST)
        step = self.answering.seen_s(decodes, others)
        reading, waits, chance = self.reading.seconds(met)
        travel = self.link.seconds(met, self.reading.ahead(met))
        admission = self.answering.admission_s(running * others, step, self.habits.look_every)
        answer = self.answering.steps * step
        first = self.before_s + reading + travel + admission
        queue = np.zeros_like(first)
        if users is not None:
            queue = np.maximum(users / per_s - pause_s - answer - first, 0.0)
            first = first + queue
        skew = 1.0 - median_share(chance)
        if users is not None:
            skew = skew * _open_share(met * waits, self.answering.workers * running)
        median = first - waits * skew
        later = self.habits.late_steps * step
        shown = travel + admission if self.habits.shown_by == "prefill" else 0.0
        gaps = max(osl - 1.0, 1.0)
        return PooledLoad(
            requests_per_s=per_s,
            ttft_s=first + self._burst_s(users, reading + queue) + later - shown,
            ttft_median_s=median + later - shown,
            tpot_s=between_tokens((answer + shown) / gaps, osl),
            running=running,
            use=per_s / self.most_per_s,
            most_per_s=self.most_per_s,
            prefill_s=self.reading.one,
            bound_prefill_s=self.reading.least,
            travel_s=self.link.alone_s,
            step_s=step,
            bound_step_s=self.answering.least_s(np.maximum(decodes, 1.0)),
        )

    def _burst_s(self, users: Array | None, usual: Array) -> Array | float:
        """Extra mean time to first token over all waves due to a common start [s]."""
        if users is None or not np.any(self.habits.waves):
            return 0.0
        waves = np.asarray(self.habits.waves)
        behind = np.maximum(self.reading.burst_s(users) - usual, 0.0)
        return np.where(waves > 0, behind / np.where(waves > 0, waves, 1.0), 0.0)


def _open_share(waiting: Array, decoding: Array) -> Array:
    """How far a queue of a closed loop is skewed as that of an open one, 0 to 1.

    Who does not wait is decoding, and that number varies by its square root: a queue that is long
    beside it is nearly constant, with its median at its mean.  For a gamma distribution the
    distance of the two goes with the square of the relative variation.

    waiting, decoding: mean numbers of requests.
    """
    variance = np.maximum(decoding, _LEAST)
    return np.asarray(variance / (variance + waiting**2))


def _bisected(
    fewer: Callable[[Array], Mask], low: Array, high: Array, middle: Callable[[Array, Array], Array]
) -> tuple[Array, Array]:
    """Adjacent bounds of the place up to which `fewer` holds, [deployments].

    low, high: initial bounds.  middle: function for the point between two bounds.
    """
    for _ in range(_HALVINGS):
        between = middle(low, high)
        below = fewer(between)
        low, high = np.where(below, between, low), np.where(below, high, between)
    return low, high


def _geometric_mean(low: Array, high: Array) -> Array:
    return np.sqrt(low * high)


def _arithmetic_mean(low: Array, high: Array) -> Array:
    return (low + high) / 2.0

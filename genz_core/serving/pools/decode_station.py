"""The second station: decode workers of one shape."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from genz_core.serving.pools.workers import DecodeWorkers
from genz_core.types import Array, Num


@dataclass(frozen=True, slots=True)
class AnsweringStation:
    """Decode workers of one shape, [deployments].

    numbers, per_s, bound_s: sequences of a worker, rate at which they complete steps, least time of
    a step, [numbers].  steps: of an answer, 0 where the first token is the whole answer.
    scale: measured over priced time of a step.  workers: their number.  most: sequences of one.
    apart: workers, or their ranks where these do not wait for one another.
    ahead_steps: steps before an admission, once a cache has arrived.
    """

    numbers: Array
    per_s: Array
    bound_s: Array
    steps: float
    scale: Array
    workers: Array
    most: Array
    apart: Array
    ahead_steps: float

    @classmethod
    def of(
        cls, priced: DecodeWorkers, shape: int, workers: Array, scale: Array
    ) -> AnsweringStation:
        """A number of workers of one shape."""
        return cls(
            numbers=priced.running[:, shape],
            per_s=priced.per_s[:, shape],
            bound_s=priced.bound_s[:, shape],
            steps=max(priced.steps, 0.0),
            scale=scale,
            workers=workers,
            most=np.broadcast_to(priced.most_running[shape], workers.shape),
            apart=workers * (1.0 if priced.coupled else priced.ranks[shape]),
            ahead_steps=float(priced.ahead_steps[shape]),
        )

    @property
    def most_per_s(self) -> Array:
        """Answers per second that all workers can complete."""
        if self.steps > 0:
            return self.workers * self.most / (self.steps * self.step_s(self.most))
        return np.full(self.workers.shape, np.inf)

    def step_s(self, running: Array) -> Array:
        """Time of a decode step with this many sequences on a worker [s]."""
        per_s = np.interp(running, self.numbers, self.per_s)
        return np.maximum(self.scale * running / per_s, self.least_s(running))

    def least_s(self, running: Array) -> Array:
        """Lower bound of the time of a step with `running` sequences [s]."""
        return np.interp(running, self.numbers, self.bound_s)

    def seen_s(self, running: Array, others: Array) -> Array:
        """Mean step that an answer sees [s] where `running` sequences run on a worker on average.

        It sees those that run when it arrives, plus itself.  others: their share of the load.
        """
        beside = running * others + 1.0 / self.workers
        return self.step_s(np.minimum(np.maximum(beside, 1.0), np.maximum(self.most, running)))

    def answers_per_s(self, running: Array, others: Array) -> Array:
        """Answers per second of all workers with this many sequences on each."""
        return self.workers * running / (self.steps * self.seen_s(running, others))

    def admission_s(self, running: Array, step: Array, look_every: Num) -> Array:
        """Rest of the running step when a cache arrives, plus the steps before its admission [s].

        Half of the running step, and half of the steps between two looks, since a cache arrives at
        any time. A step is running unless a Poisson number of sequences is 0: judgement.
        running: sequences of each worker, without this one.
        """
        busy = -np.expm1(-running * self.workers / self.apart)
        looks = (np.maximum(look_every, 1.0) - 1.0) / 2.0
        some = 1.0 if self.steps > 0 else 0.0
        return some * busy * (0.5 + self.ahead_steps + looks) * step

"""The last station: decode workers of one shape."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from genz_core.serving.pools.workers import DecodeWorkers
from genz_core.types import Array, Num


@dataclass(frozen=True, slots=True)
class AnsweringStation:
    """Decode workers of one shape, [deployments].

    numbers, per_s, bound_s: sequences of a worker, that generate per second, least step,
    [numbers].  steps: of an answer, 0 where a prompt has all that is asked.
    scale: measured over priced time of a step.  workers: their number.  most: sequences of one.
    apart: workers, or their ranks where these do not wait for one another.
    ahead_steps: before an admission, when a cache arrives.
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
        """So many workers of one shape."""
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
        """Answers that all workers complete at most [1/s]."""
        if self.steps > 0:
            return self.workers * self.most / (self.steps * self.step_s(self.most))
        return np.full(self.workers.shape, np.inf)

    def step_s(self, running: Array) -> Array:
        """A decode step of so many sequences of a worker [s]."""
        per_s = np.interp(running, self.numbers, self.per_s)
        return np.maximum(self.scale * running / per_s, self.least_s(running))

    def least_s(self, running: Array) -> Array:
        """The least that it can be [s]."""
        return np.interp(running, self.numbers, self.bound_s)

    def seen_s(self, running: Array, others: Array) -> Array:
        """The steps of an answer where so many run on a worker in the mean [s]: beside those that
        run when it comes, and itself.  others: share of the load that they are."""
        beside = running * others + 1.0 / self.workers
        return self.step_s(np.minimum(np.maximum(beside, 1.0), np.maximum(self.most, running)))

    def answers_per_s(self, running: Array, others: Array) -> Array:
        """Answers that so many sequences of each worker complete, of all workers [1/s]."""
        return self.workers * running / (self.steps * self.seen_s(running, others))

    def admission_s(self, running: Array, step: Array, look_every: Num) -> Array:
        """What is left of the running step when a cache arrives, and the steps before its admission
        [s].

        Half of the running step, and of the steps between two looks: a cache arrives at any time of
        them.  A step runs unless no sequence does, of a Poisson number: judgement.
        running: of each worker, those of others.
        """
        busy = -np.expm1(-running * self.workers / self.apart)
        looks = (np.maximum(look_every, 1.0) - 1.0) / 2.0
        some = 1.0 if self.steps > 0 else 0.0
        return some * busy * (0.5 + self.ahead_steps + looks) * step

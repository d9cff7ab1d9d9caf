"""The first station: prefill ranks that serve one queue, singly or in groups."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from genz_core.serving.pools.workers import PrefillWorkers
from genz_core.serving.queues import FULLEST, all_busy, busy_share, waited
from genz_core.steps.step_correction import StepCorrection
from genz_core.types import Array, Places


@dataclass(frozen=True, slots=True)
class ReadingStation:
    """Prefill ranks, [deployments]; times in seconds.

    servers: ranks; groups: ranks that read together, `abreast` ranks each.
    together: prompts of a full step of a group.  one, each, full: step time with one prompt (at
    least `least`), with one prompt per rank, and when full.  most_per_s: prompts per second of all
    ranks.
    """

    servers: Array
    groups: Array
    together: Array
    abreast: Array
    one: Array
    least: Array
    each: Array
    full: Array
    most_per_s: Array

    @classmethod
    def of(
        cls, priced: PrefillWorkers, shape: Places, workers: Array, learned: StepCorrection
    ) -> ReadingStation:
        """A number of workers of some shapes, with corrections from measured runs."""
        (one, _), (each, _), (full, gap) = (
            part.seconds(shape, learned) for part in (priced.one, priced.each, priced.full)
        )
        ranks, group = priced.ranks[shape], priced.group[shape]
        return cls(
            servers=workers * ranks,
            groups=workers * ranks / group,
            together=priced.together * group,
            abreast=group,
            one=one,
            least=priced.one.bound_s[shape],
            each=np.maximum(each, one),
            full=np.maximum(full, np.maximum(each, one)),
            most_per_s=workers * priced.together * ranks / gap,
        )

    def together_s(self, prompts: Array) -> Array:
        """Time in which a group reads this many prompts, at most a full step [s].

        Interpolated linearly up to one prompt per rank, and linearly beyond that.
        """
        some = np.clip(prompts, 1.0, self.together)
        wide, deep = self.abreast - 1.0, self.together - self.abreast
        low = np.minimum(some, self.abreast) - 1.0
        abreast = self.one + (self.each - self.one) * low / np.maximum(wide, 1.0)
        high = np.maximum(some - self.abreast, 0.0)
        return np.asarray(abreast + (self.full - self.each) * high / np.maximum(deep, 1e-9))

    def _met(self, rate: Array) -> Array:
        """Prompts n that a group reads together: as many as arrive during the step, n = rate x
        `together_s`(n).
        """
        wide = (self.each - self.one) / np.maximum(self.abreast - 1.0, 1e-9)
        deep = (self.full - self.each) / np.maximum(self.together - self.abreast, 1e-9)
        abreast = rate * (self.one - wide) / np.maximum(1.0 - rate * wide, 1e-9)
        beyond = rate * (self.each - deep * self.abreast) / np.maximum(1.0 - rate * deep, 1e-9)
        found = np.where(rate * self.each < self.abreast, abreast, beyond)
        return np.asarray(np.clip(found, 1.0, self.together))

    def seconds(self, per_s: Array) -> tuple[Array, Array, Array]:
        """(wait plus reading of a prompt, wait alone [s], probability of a wait) at a total rate.

        The wait is half of a running step (the residual of equal steps), plus the queue of M/D/c
        (`genz_core.serving.queues`).  The delay by others in the same step is Ridgeline's estimate.
        """
        rate = per_s / self.groups
        used = np.minimum(per_s / self.most_per_s, FULLEST)
        step = self.together_s(self._met(rate))
        several = np.clip(self.together - 1.0, 0.0, 1.0)
        busy = busy_share(used, rate * step, several)
        held = all_busy(busy, self.groups)
        each = self.full * self.abreast / self.together
        queue = np.maximum(waited(used, self.servers) - used / self.servers, 0.0) / 2.0 * each
        # at the same ranks, while others have as little work; long steps gather more prompts
        beside = rate * held / np.maximum(busy, 1e-12)
        longer = self.together_s(1.0 + beside * step)
        wait = held * longer / 2.0 + queue
        own = self.one + held * (self.together_s(1.0 + beside * longer) - self.one)
        return wait + own, wait + own - self.one, held

    def ahead(self, per_s: Array) -> Array:
        """Prompts of the same step whose caches are sent earlier: half of those that arrive during
        a reading step, at most half of the others of a full step.
        """
        return np.clip(per_s / self.groups * self.one, 0.0, self.together - 1.0) / 2.0

    def burst_s(self, users: Array) -> Array:
        """Mean time until a prompt is read where all users send one at once [s]: half of them are
        read before it, and half of its own step's prompts; all in one step where they fit.
        """
        rounds = users / (self.groups * self.together)
        return np.where(
            rounds > 1.0,
            (users / self.most_per_s + self.full) / 2.0,
            self.together_s(users / self.groups),
        )

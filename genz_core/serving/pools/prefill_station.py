"""The first station: ranks that read prompts from one queue, alone or in groups."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from genz_core.serving.pools.workers import PrefillWorkers
from genz_core.serving.queues import FULLEST, all_busy, busy_share, waited
from genz_core.step_correction import StepCorrection
from genz_core.types import Array, Places


@dataclass(frozen=True, slots=True)
class ReadingStation:
    """Ranks that read, [deployments]; times in seconds.

    servers: ranks; groups: those that read together, each of `abreast` ranks.
    together: prompts of a full step of a group.  one, each, full: its time with one prompt (at
    least `least`), with one on each rank, and full.  most_per_s: prompts of all ranks at most.
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
        """So many workers of some shapes, with what measured runs say of their steps."""
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
        """Time in which a group reads so many prompts, at most those of a full step [s].

        Evenly more with each up to one on every rank, and evenly more beyond.
        """
        some = np.clip(prompts, 1.0, self.together)
        wide, deep = self.abreast - 1.0, self.together - self.abreast
        low = np.minimum(some, self.abreast) - 1.0
        abreast = self.one + (self.each - self.one) * low / np.maximum(wide, 1.0)
        high = np.maximum(some - self.abreast, 0.0)
        return np.asarray(abreast + (self.full - self.each) * high / np.maximum(deep, 1e-9))

    def _met(self, rate: Array) -> Array:
        """Prompts n that a group reads together: as many as arrive while they are read, so that
        n = rate x `together_s`(n)."""
        wide = (self.each - self.one) / np.maximum(self.abreast - 1.0, 1e-9)
        deep = (self.full - self.each) / np.maximum(self.together - self.abreast, 1e-9)
        abreast = rate * (self.one - wide) / np.maximum(1.0 - rate * wide, 1e-9)
        beyond = rate * (self.each - deep * self.abreast) / np.maximum(1.0 - rate * deep, 1e-9)
        found = np.where(rate * self.each < self.abreast, abreast, beyond)
        return np.asarray(np.clip(found, 1.0, self.together))

    def seconds(self, per_s: Array) -> tuple[Array, Array, Array]:
        """(wait and reading of a prompt, the wait alone [s], chance of one) at a rate of all.

        The wait is what is left of a running step, half of it (a residual of even steps), and the
        queue of M/D/c beyond (`genz_core.serving.queues`).  What others that are read with a prompt
        add is Ridgeline's.
        """
        rate = per_s / self.groups
        used = np.minimum(per_s / self.most_per_s, FULLEST)
        step = self.together_s(self._met(rate))
        several = np.clip(self.together - 1.0, 0.0, 1.0)
        busy = busy_share(used, rate * step, several)
        held = all_busy(busy, self.groups)
        each = self.full * self.abreast / self.together
        queue = np.maximum(waited(used, self.servers) - used / self.servers, 0.0) / 2.0 * each
        # to the same ranks, where others stand with as little to do; long steps gather more
        beside = rate * held / np.maximum(busy, 1e-12)
        longer = self.together_s(1.0 + beside * step)
        wait = held * longer / 2.0 + queue
        own = self.one + held * (self.together_s(1.0 + beside * longer) - self.one)
        return wait + own, wait + own - self.one, held

    def ahead(self, per_s: Array) -> Array:
        """Prompts of the same step whose caches travel before one's own: half of those that come
        while one is read, at most half of the others of a full step."""
        return np.clip(per_s / self.groups * self.one, 0.0, self.together - 1.0) / 2.0

    def burst_s(self, users: Array) -> Array:
        """Mean time until a prompt is read where all users send one at once [s]: half of them are
        read before it, and half of its own step; in one step where all fit one."""
        rounds = users / (self.groups * self.together)
        return np.where(
            rounds > 1.0,
            (users / self.most_per_s + self.full) / 2.0,
            self.together_s(users / self.groups),
        )

"""Between the stations: a prompt's cache on the links of the workers that read."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from genz_core.serving.queues import FULLEST
from genz_core.types import Array


@dataclass(frozen=True, slots=True)
class LinkStation:
    """Links, one of each worker that reads, [deployments].

    workers: that read.  busy_s: of a prompt's cache on a link; latency_s: on top.
    """

    workers: Array
    busy_s: Array
    latency_s: Array

    @property
    def alone_s(self) -> Array:
        """Time of a prompt's cache on its way where no other travels [s]."""
        return self.latency_s + self.busy_s

    @property
    def most_per_s(self) -> Array:
        """Caches that all links carry at most [1/s]."""
        return self.workers / np.maximum(self.busy_s, 1e-15)

    def seconds(self, per_s: Array, ahead: Array) -> Array:
        """Time of a prompt's cache on its way [s], behind `ahead` that were read with it, or behind
        those of other steps.

        The larger of the two: judgement.  Source of the latter: the Pollaczek-Khinchine formula for
        M/D/1 (Kleinrock, Queueing Systems 1 (1975), ch. 5).
        """
        used = np.minimum(per_s / self.workers * self.busy_s, FULLEST)
        queue = used / (2.0 * (1.0 - used))
        return self.latency_s + self.busy_s * (1.0 + np.maximum(ahead, queue))

"""Between the stations: sending a prompt's cache over the links of the prefill workers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from genz_core.serving.queues import FULLEST
from genz_core.types import Array


@dataclass(frozen=True, slots=True)
class LinkStation:
    """Links, one per prefill worker, [deployments].

    workers: prefill workers.  busy_s: time of a prompt's cache on a link; latency_s: added to it.
    """

    workers: Array
    busy_s: Array
    latency_s: Array

    @property
    def alone_s(self) -> Array:
        """Time to send a prompt's cache on an idle link [s]."""
        return self.latency_s + self.busy_s

    @property
    def most_per_s(self) -> Array:
        """Caches per second that all links can carry."""
        return self.workers / np.maximum(self.busy_s, 1e-15)

    def seconds(self, per_s: Array, ahead: Array) -> Array:
        """Time to send a prompt's cache [s], behind `ahead` others of the same step, or behind
        those of other steps.

        The larger of the two: judgement.  Source of the latter: the Pollaczek-Khinchine formula for
        M/D/1 (Kleinrock, Queueing Systems 1 (1975), ch. 5).
        """
        used = np.minimum(per_s / self.workers * self.busy_s, FULLEST)
        queue = used / (2.0 * (1.0 - used))
        return self.latency_s + self.busy_s * (1.0 + np.maximum(ahead, queue))

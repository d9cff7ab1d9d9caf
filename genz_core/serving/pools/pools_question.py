"""The question for both pools: which deployments, what measured runs taught about them, and the
arrivals.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from genz_core.steps.step_correction import StepCorrection
from genz_core.types import Array, Num, Places


@dataclass(frozen=True, slots=True)
class Combinations:
    """Deployments of both pools, [deployments].

    prefill, decode: indices of the shapes.  prefill_workers, decode_workers: number of each.
    busy_s, latency_s: time of a prompt's cache on the link of a worker, and added latency.
    """

    prefill: Places
    decode: Places
    prefill_workers: Array
    decode_workers: Array
    busy_s: Array
    latency_s: Num = 0.0


@dataclass(frozen=True, slots=True)
class Learned:
    """Corrections from measured runs for the steps of both pools, [deployments] or one for all.

    prefill, decode: of their steps.  before_s: wait of a request before it reaches a worker.
    """

    prefill: StepCorrection
    decode: StepCorrection
    before_s: Num = 0.0

    @classmethod
    def nothing(cls, size: int, before_s: Num = 0.0) -> Learned:
        """No corrections: steps as priced."""
        plain = StepCorrection(np.ones(size), np.ones(size), np.zeros(size))
        return cls(plain, plain, before_s)

    def picked(self, at: Places) -> Learned:
        """A selection of the deployments."""
        before = self.before_s if np.ndim(self.before_s) == 0 else np.asarray(self.before_s)[at]
        return Learned(self.prefill.picked(at), self.decode.picked(at), before)


@dataclass(frozen=True, slots=True)
class Habits:
    """How requests arrive, and how the decode workers admit them.

    waves: requests that each user sends from a common start, 0 for a steady loop; a number or
    [deployments].  late_steps: decode steps between the first token and its delivery.
    look_every: decode steps between two looks at new requests.
    shown_by: the pool that shows the user the first token, see `Transfer`.
    """

    waves: Num = 0.0
    late_steps: Num = 0.0
    look_every: Num = 1.0
    shown_by: Literal["prefill", "decode"] = "decode"

    def picked(self, at: Places, size: int) -> Habits:
        """A selection of `size` deployments."""

        def of(values: Num) -> Array:
            return np.broadcast_to(np.asarray(values, dtype=float), (size,))[at]

        return replace(
            self,
            waves=of(self.waves),
            late_steps=of(self.late_steps),
            look_every=of(self.look_every),
        )

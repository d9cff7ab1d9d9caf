"""Shared by the simulation tests: an engine, times of steps, and requests of drawn lengths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from genz_core.engine import EngineProfile
from genz_core.serving.simulation import RankWork, Requests, StepTime, draws

ENGINE = EngineProfile(reserve_bytes=1e9, memory_fraction=0.9)


@dataclass
class Linear:
    """A step of `step_s`, plus seconds for a decode and for a token of a prompt."""

    step_s: float = 0.01
    decode_s: float = 1e-4
    token_s: float = 1e-5

    def __call__(self, ranks: Sequence[RankWork]) -> StepTime:
        work = max(
            rank.decodes * self.decode_s + sum(new for new, _ in rank.prompts) * self.token_s
            for rank in ranks
        )
        return StepTime(self.step_s + work, self.step_s + work)


#: Every step takes 10 ms.
EVEN = Linear(decode_s=0.0, token_s=0.0)
#: A step of 10 ms, and 10 us for a token of a prompt.
READING = Linear(decode_s=0.0)


def requests(count=100, isl=500, osl=50, rate=None, ratio=0.5, seed=0) -> Requests:
    """Requests at a rate, or all at once without one."""
    generator = np.random.default_rng(seed)
    arrival = draws.bursty_arrivals(count, rate, 1.0, generator) if rate else np.zeros(count)
    lengths = (draws.uniform_lengths(count, n, ratio, generator) for n in (isl, osl))
    return Requests(arrival, *lengths)

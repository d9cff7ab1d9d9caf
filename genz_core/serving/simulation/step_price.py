"""What a step costs: the protocol used by a simulation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol


class RankWork(NamedTuple):
    """The work of one rank in a step.

    decodes: decoding sequences; tokens: their total tokens in the cache.
    prompts: (new, cached) tokens of every piece of a prompt.
    """

    decodes: int
    tokens: float
    prompts: Sequence[tuple[int, int]] = ()


class StepTime(NamedTuple):
    """latency_s: from the start of a step to its tokens.  stage_s: until the next step may
    start.
    """

    latency_s: float
    stage_s: float


class StepPrice(Protocol):
    """The time of a step of lock-step ranks: our tables, or your own predictor.

    Returns the two numbers of a `StepTime`; a plain pair is faster where millions of steps are
    priced.
    """

    def __call__(self, ranks: Sequence[RankWork]) -> tuple[float, float]: ...


@dataclass(frozen=True, slots=True)
class ScaledPrice:
    """A price scaled by measured over priced time.

    scale: of the whole step.  prompts: additional scale of the time that prompts add.
    """

    price: StepPrice
    scale: float
    prompts: float = 1.0

    def __call__(self, ranks: Sequence[RankWork]) -> tuple[float, float]:
        """See `StepPrice`."""
        latency, stage = self.price(ranks)
        if self.prompts != 1.0:
            for rank in ranks:
                if rank.prompts:
                    break
            else:
                return latency * self.scale, stage * self.scale
            plain, plain_stage = self.price([RankWork(rank.decodes, rank.tokens) for rank in ranks])
            latency = plain + self.prompts * (latency - plain)
            stage = plain_stage + self.prompts * (stage - plain_stage)
        return latency * self.scale, stage * self.scale

"""Speculative decoding in closed form: steps of an answer, time per token, and speed-up.

A step that accepts a tokens of the draft yields 1 + a tokens.  Steps are independent of each other
and of other sequences, so the number of steps of an answer of n tokens is that of a renewal process
reaching n.
"""

from __future__ import annotations

from dataclasses import dataclass

from genz_core.engine import EngineProfile
from genz_core.graphs import Model
from genz_core.models.speculative import Speculation, SpeculativeModel
from genz_core.systems import System
from genz_core.types import Array, Num, Parallelism
from genz_core.workload import decode_step


@dataclass(frozen=True, slots=True)
class Speculated:
    """Decode steps with and without drafts, [configs]; times in seconds.

    step_s: a step that verifies and drafts.  plain_step_s: one that does neither.
    tokens_per_step: mean tokens that a sequence gains in `step_s`.
    """

    step_s: Array
    plain_step_s: Array
    tokens_per_step: float

    @property
    def tpot_s(self) -> Array:
        """Mean time of a token."""
        return self.step_s / self.tokens_per_step

    @property
    def speedup(self) -> Array:
        """Tokens generated in the time of one token without drafts."""
        return self.plain_step_s / self.tpot_s


def speculate(
    model: Model,
    speculation: Speculation,
    system: System,
    batch: Num,
    context: Num,
    parallelism: Parallelism | None = None,
    engine: EngineProfile | None = None,
) -> Speculated:
    """Price decode steps of `batch` sequences of `context` tokens with and without drafts.

    Raises:
        MissingSpec: the system states no peak or link that an operator needs.
    """
    drafting = SpeculativeModel(model, speculation)
    sizes = (batch, context, parallelism, engine)
    return Speculated(
        decode_step(drafting, system, *sizes).total_s,
        decode_step(model, system, *sizes).total_s,
        speculation.acceptance.tokens_per_step,
    )

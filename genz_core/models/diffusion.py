"""Diffusion language models: they refine whole blocks of an answer in passes over all of its
tokens.

Every pass runs over the prompt and the answer together, masked tokens included, without a cache;
each pass fixes some of a block's tokens.  A block is complete after its last pass.
Source: LLaDA, arXiv:2502.09992, section 2.4 and appendix B.4 (semi-autoregressive remasking).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from genz_core.errors import InvalidValue
from genz_core.graphs import Model
from genz_core.models.model_kinds import model_kind
from genz_core.types import Array, Num


@dataclass(frozen=True, slots=True)
class Denoising:
    """How an answer is refined.

    steps: passes for the whole answer, 0 for one per token.  block: tokens that are refined
    together.

    Raises:
        InvalidValue: a negative number of steps, or a block without a token.
    """

    steps: int = 0
    block: int = 32

    def __post_init__(self) -> None:
        if self.steps < 0 or self.block < 1:
            raise InvalidValue(
                f"diffusion_steps = {self.steps}, block_length = {self.block}: give steps of at "
                "least 1, or 0 for one per token, and a block of at least 1"
            )

    def passes(self, osl: Num) -> tuple[Array, Array]:
        """(passes until the first block is complete, passes for the whole answer), [configs]."""
        tokens = np.asarray(osl, dtype=float)
        blocks = np.ceil(tokens / np.minimum(self.block, tokens))
        whole = np.full_like(tokens, float(self.steps)) if self.steps else tokens
        each = np.maximum(np.floor(whole / blocks), 1.0)
        return each, np.asarray(each * blocks)


def denoising(model: Model) -> Denoising | None:
    """How a model refines its answers by denoising; None if it does not."""
    if model_kind(model) != "diffusion":
        return None
    chosen: Denoising = getattr(model, "denoising", None) or Denoising()
    return chosen

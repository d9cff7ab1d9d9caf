"""Copies of the residual stream that a layer predicts and corrects; tables for token sequences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from model_registry.spec.limits import SplitLimit


@dataclass(frozen=True, slots=True)
class AlternatingUpdate:
    """AltUp and LAuReL of Gemma 3n: a layer works on one of `streams` copies of the residual
    stream.

    The other copies are predicted from it and corrected by the layer's result (arXiv:2301.13310).
    rank: of the learned addition to the attention (arXiv:2411.07501).  The block brings its own
    norms.
    """

    module: ClassVar[str] = ""
    streams: int
    rank: int

    def limits(self) -> tuple[SplitLimit, ...]:
        """No limits: its small projections are replicated on every device."""
        return ()


@dataclass(frozen=True, slots=True)
class SequenceTables:
    """Tables looked up by the last several tokens, beside the token table (LongCat-Flash-Lite).

    tables: their number, each with `rows` rows of `width`, projected to the model's width.
    """

    tables: int
    rows: int
    width: int

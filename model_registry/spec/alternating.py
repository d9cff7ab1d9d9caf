"""Copies of the residual stream that a layer predicts and corrects; tables of token sequences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from model_registry.spec.limits import SplitLimit


@dataclass(frozen=True, slots=True)
class AlternatingUpdate:
    """AltUp and LAuReL of Gemma 3n: the layer works on one of `streams` copies of the residual.

    The others are predicted from it and corrected with what the layer made (arXiv:2301.13310).
    rank: of the learned addition to the attention (arXiv:2411.07501).  Brings its norms.
    """

    module: ClassVar[str] = ""
    streams: int
    rank: int

    def limits(self) -> tuple[SplitLimit, ...]:
        """None: its small projections are copied on every device."""
        return ()


@dataclass(frozen=True, slots=True)
class SequenceTables:
    """Tables looked up by the last tokens beside the token table (LongCat-Flash-Lite).

    tables: how many, each of `rows` rows of `width`, projected to the model's width.
    """

    tables: int
    rows: int
    width: int

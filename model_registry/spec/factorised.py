"""Attention whose queries pass through a narrow projection, with few heads of keys and values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from model_registry.spec.limits import SplitLimit


@dataclass(frozen=True, slots=True)
class FactorisedAttention:
    """Multi-matrix factorised attention (Step-3, arXiv:2507.19427).

    query_rank: width between the two projections of the queries, with a norm there.
    """

    module: ClassVar[str] = "attention"
    heads: int
    head_dim: int
    query_rank: int
    kv_heads: int = 1

    def limits(self) -> tuple[SplitLimit, ...]:
        """tp divides its heads; key-value heads are replicated where tp exceeds them."""
        return (
            SplitLimit("tp", self.heads, "attention heads"),
            SplitLimit("tp", self.kv_heads, "KV heads", copied=True),
        )

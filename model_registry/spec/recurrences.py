"""Token mixers with a state of fixed size, other than Mamba and the delta rule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from model_registry.spec.limits import SplitLimit


@dataclass(frozen=True, slots=True)
class ShortConvolution:
    """A gated causal convolution over a few tokens (LFM2): gate, convolve, gate, project.

    kernel: tokens that affect one output.  bias: of the projections and the convolution.
    """

    module: ClassVar[str] = "ssm"
    channels: int
    kernel: int
    bias: bool = False

    def limits(self) -> tuple[SplitLimit, ...]:
        """tp divides its channels."""
        return (SplitLimit("tp", self.channels, "convolution channels"),)


@dataclass(frozen=True, slots=True)
class LightningAttention:
    """Linear attention with a fixed decay per head (arXiv:2401.04658), a norm and an output gate.

    norm: of queries and keys, over one head's width.  rope: queries and keys are rotated.
    """

    module: ClassVar[str] = "linear_attention"
    heads: int
    head_dim: int
    norm: bool = False
    rope: bool = False
    qkv_bias: bool = False

    @property
    def width(self) -> int:
        """Columns of all heads."""
        return self.heads * self.head_dim

    def limits(self) -> tuple[SplitLimit, ...]:
        """tp divides its heads."""
        return (SplitLimit("tp", self.heads, "linear-attention heads"),)


@dataclass(frozen=True, slots=True)
class GatedRecurrence:
    """The real-gated linear recurrence of Griffin (arXiv:2402.19427, section 2.4).

    width: channels of the recurrence, one state each.  heads: blocks of its two gates' weights.
    """

    module: ClassVar[str] = "ssm"
    width: int
    heads: int
    kernel: int

    def limits(self) -> tuple[SplitLimit, ...]:
        """tp divides the blocks of its gates."""
        return (SplitLimit("tp", self.heads, "recurrence heads"),)


@dataclass(frozen=True, slots=True)
class RwkvMixer:
    """RWKV-7's time mixing: a generalised delta rule with a decay for every channel.

    decay_rank, rate_rank, value_rank, gate_rank: of the low-rank projections to decays, rates of
    learning, shares of an earlier layer's values (0 for none) and the output gate.
    Source: arXiv:2503.14456, section 4 and appendix F.
    """

    module: ClassVar[str] = "linear_attention"
    heads: int
    head_dim: int
    decay_rank: int
    rate_rank: int
    value_rank: int
    gate_rank: int

    def limits(self) -> tuple[SplitLimit, ...]:
        """tp divides its heads."""
        return (SplitLimit("tp", self.heads, "linear-attention heads"),)

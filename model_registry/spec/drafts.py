"""What a draft head takes from its target model."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DraftInput:
    """Input of a draft head: hidden states of its target, and the embedding of the last token.

    states: number of the target's hidden states that a projection fuses into one, once per step; 1
    where the last one is used directly.
    projected: state and embedding are joined and projected to the model's width; otherwise the
    first layer reads both side by side (`Attention.inputs`).
    norms: each of them has a norm before that.  own_head: the draft has its own head; otherwise it
    uses the target's.  The token table is always the target's.
    Source: DeepSeek-V3, arXiv:2412.19437, section 2.2; EAGLE, arXiv:2401.15077; EAGLE-3,
    arXiv:2503.01840.
    """

    states: int = 1
    projected: bool = True
    norms: bool = True
    own_head: bool = False

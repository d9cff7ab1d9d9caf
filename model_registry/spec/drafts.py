"""What a draft head takes from the model that it drafts for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DraftInput:
    """Input of a draft head: hidden states of its target beside the embedding of the last token.

    states: hidden states of the target that are fused into one by a projection, once a step;
    1 where the last one is taken as it is.
    projected: state and embedding are joined and projected to the model's width; otherwise the
    first layer reads them side by side (`Attention.inputs`).
    norms: a norm of each in front.  own_head: a head of its own; otherwise it shares the target's.
    The token table is the target's.
    Source: DeepSeek-V3, arXiv:2412.19437, section 2.2; EAGLE, arXiv:2401.15077; EAGLE-3,
    arXiv:2503.01840.
    """

    states: int = 1
    projected: bool = True
    norms: bool = True
    own_head: bool = False

"""Blocks that process each token separately: dense feed-forwards, mixtures of experts, layer
inputs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from genz_core.errors import InvalidValue
from model_registry.spec.limits import SplitLimit


@dataclass(frozen=True, slots=True)
class FeedForward:
    """A dense feed-forward: up (and gate), activation, down.

    activation_weights: learned parameters of the activation (xIELU has two).
    inner_norm: a norm before the last product.
    """

    module: ClassVar[str] = "mlp"
    intermediate: int
    gated: bool = True
    bias: bool = False
    activation_weights: int = 0
    inner_norm: bool = False

    def limits(self) -> tuple[SplitLimit, ...]:
        """tp divides its columns."""
        return (SplitLimit("tp", self.intermediate, "feed-forward columns"),)


@dataclass(frozen=True, slots=True)
class Mixture:
    """A mixture of experts: router, routed experts, and shared experts that process every token.

    shared: width of all shared experts together, 0 for none; shared_gate: a sigmoid gate on
    them.  bias: of the experts' projections.  router_bias: a bias on the router's logits, kept
    as a parameter.  latent: width that tokens are projected to before the routed experts and
    back from after them, 0 for none; latent_norm: a norm there.  router_norm: a norm of the model's
    width before the router.  expert_scale: a learned scale of each expert's output.
    idle_choices: additional choices of the router that pass a token through unchanged
    (LongCat-Flash).
    groups: groups of experts, of which a token may use chosen_groups; 0 where it may use all.

    Raises:
        InvalidValue: more experts per token than there are, or none at all.
    """

    module: ClassVar[str] = "moe"
    experts: int
    top_k: int
    intermediate: int
    gated: bool = True
    shared: int = 0
    shared_gated: bool = True
    shared_gate: bool = False
    bias: bool = False
    router_bias: bool = False
    latent: int = 0
    latent_norm: bool = False
    router_norm: bool = False
    expert_scale: bool = False
    idle_choices: int = 0
    groups: int = 0
    chosen_groups: int = 0

    def __post_init__(self) -> None:
        if self.experts < 1 or not 1 <= self.top_k <= self.experts + self.idle_choices:
            raise InvalidValue(f"{self.top_k} experts per token of {self.experts} in all")

    @property
    def reached(self) -> float:
        """Mean number of experts that a token is sent to, with all choices equally likely."""
        return self.top_k * self.experts / (self.experts + self.idle_choices)

    def limits(self) -> tuple[SplitLimit, ...]:
        """ep divides the experts by number, moe_tp each of them by columns."""
        shared = (SplitLimit("tp", self.shared, "shared-expert columns"),) if self.shared else ()
        return (
            *shared,
            SplitLimit("ep", self.experts, "experts"),
            SplitLimit("moe_tp", self.intermediate, "columns of an expert"),
        )


@dataclass(frozen=True, slots=True)
class ShortcutMixture:
    """Experts parallel to the blocks that follow them (LongCat-Flash).

    They read the normed input of the next block, have no norm of their own, and are summed over tp
    separately.
    """

    module: ClassVar[str] = ""
    mixture: Mixture

    def limits(self) -> tuple[SplitLimit, ...]:
        """The limits of its experts."""
        return self.mixture.limits()


@dataclass(frozen=True, slots=True)
class LayerInput:
    """An input of each token to each layer (Gemma 3n and 4), gated into the stream after the other
    blocks.

    The block brings its own norm.
    """

    module: ClassVar[str] = ""
    width: int

    def limits(self) -> tuple[SplitLimit, ...]:
        """No limits: its small projections are replicated on every device."""
        return ()

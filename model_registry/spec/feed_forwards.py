"""Blocks that treat each token alone: dense feed-forwards, mixtures of experts, layer inputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from genz_core.errors import InvalidValue
from model_registry.spec.limits import SplitLimit


@dataclass(frozen=True, slots=True)
class FeedForward:
    """A dense feed-forward: up (and gate), activation, down.

    activation_weights: numbers that the activation learns (xIELU has two).
    inner_norm: a norm in front of the last product.
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
    """A mixture of experts: router, routed experts, shared experts that see every token.

    shared: width of all shared experts together, 0 for none; shared_gate: a sigmoid gate on
    them.  bias: of the experts' projections.  router_bias: a bias on the router's logits, kept
    as a parameter.  latent: width that tokens are projected to before the routed experts and
    back from after them, 0 for none; latent_norm: a norm there.  router_norm: weights of the
    model's width in front of the router.  expert_scale: one weight an expert on its output.
    idle_choices: further choices of the router that pass a token on as it is (LongCat-Flash).
    groups: of experts, of which a token is routed to chosen_groups; 0 where all are open to it.

    Raises:
        InvalidValue: more experts a token than there are, or none at all.
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
        """Experts that a token is sent to, in the mean over an even choice."""
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
    """Experts beside the blocks that follow them (LongCat-Flash): they read the normed input of
    the next block, bring no norm of their own, and are summed over tp apart."""

    module: ClassVar[str] = ""
    mixture: Mixture

    def limits(self) -> tuple[SplitLimit, ...]:
        """Those of its experts."""
        return self.mixture.limits()


@dataclass(frozen=True, slots=True)
class LayerInput:
    """An input of each token to each layer (Gemma 3n and 4), gated into the stream behind the rest.

    Brings its norm.
    """

    module: ClassVar[str] = ""
    width: int

    def limits(self) -> tuple[SplitLimit, ...]:
        """None: its small projections are copied on every device."""
        return ()

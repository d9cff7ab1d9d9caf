"""How a load is served beyond its lengths: what requests share, adapters, the host, limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from app.scenario.request_shape import FIELDS, PLAIN, RequestShape
from app.scenario.scenario import Resolved
from genz_core.adapters import Adapters, adapted_model
from genz_core.errors import InvalidValue
from genz_core.limits import checked_size
from genz_core.offload import What
from genz_core.speculative import SpeculativeModel

OFFLOADS = ("weights", "kv", "experts")
_LIMITS = ("max_num_seqs", "max_num_batched_tokens")
#: The keywords of `ridgeline.serve` that a `LoadOptions` is made of.
KEYWORDS = (*FIELDS, "lora_rank", "lora_adapters", "offload", *_LIMITS)


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """How a load is served; nothing beyond its lengths by default.

    shape: what requests share.  adapters: LoRA adapters that they name.  offload: what the host
    holds where a device is full, "weights", "kv" or "experts".  max_num_seqs,
    max_num_batched_tokens: sequences and tokens of a step and rank at most, 0 for the engine's
    default.

    Raises:
        InvalidValue: an unknown offload, or a limit that cannot be.
    """

    shape: RequestShape = PLAIN
    adapters: Adapters | None = None
    offload: str = ""
    max_num_seqs: int = 0
    max_num_batched_tokens: int = 0

    def __post_init__(self) -> None:
        if self.offload and self.offload not in OFFLOADS:
            raise InvalidValue(f"offload {self.offload!r}: choose {', '.join(OFFLOADS)}")
        for name in _LIMITS:
            if getattr(self, name):
                checked_size(name, getattr(self, name))

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> LoadOptions:
        """Those of `KEYWORDS`, all of which are given.

        Raises:
            InvalidValue: a keyword whose value cannot be.
        """
        return cls(
            RequestShape(**{name: given[name] for name in FIELDS}),
            adapters(int(given["lora_rank"]), int(given["lora_adapters"])),
            given["offload"],
            *(given[name] for name in _LIMITS),
        )

    @property
    def beyond(self) -> tuple[str, ...]:
        """What no measured run had, in words."""
        said = [*self.shape.words]
        if self.adapters:
            said.append(str(self.adapters))
        if self.offload:
            said.append(f"{self.offload} on the host where a device is full")
        return tuple(said)

    def deployed(self, resolved: Resolved) -> Resolved:
        """A deployment with the adapters of its requests.

        Raises:
            InvalidValue: its model drafts.
        """
        if self.adapters is None:
            return resolved
        if isinstance(resolved.model, SpeculativeModel):
            raise InvalidValue("drafts of a model with LoRA adapters are not priced: leave out one")
        return replace(resolved, model=adapted_model(resolved.model, self.adapters))

    def traffic(self, isl: int, osl: int, length_ratio: float) -> dict[str, Any]:
        """Keywords of `serve_resolved` for requests of these nominal lengths."""
        told: dict[str, Any] = {name: float(getattr(self, name)) for name in _LIMITS}
        told["spill"] = cast(What, self.offload) or None
        if self.shape:
            told["isl"], told["sharing"] = self.shape.nominal(isl, osl, length_ratio)
        return told

    def of_trace(self) -> dict[str, Any]:
        """Keywords of a simulation, for requests that are recorded.

        Raises:
            InvalidValue: what requests share is asked for, or what is not simulated.
        """
        if self.shape:
            raise InvalidValue("a trace has prompts of its own: leave out what requests share")
        if self.beyond:
            raise InvalidValue(f"{self.beyond[0]} is not simulated: leave out the trace")
        return {name: getattr(self, name) for name in _LIMITS}


NOTHING = LoadOptions()


def adapters(rank: int, active: int) -> Adapters | None:
    """LoRA adapters; None for a rank of 0.

    Raises:
        InvalidValue: a number outside of its range.
    """
    if not rank:
        if active != 1:
            raise InvalidValue(f"lora_adapters = {active} without a rank: give lora_rank")
        return None
    for name, value, most in (("lora_rank", rank, 4096), ("lora_adapters", active, 10_000)):
        if not 1 <= value <= most:
            raise InvalidValue(f"{name} = {value}: give a whole number from 1 to {most:,}")
    return Adapters(rank, active)

"""The fitted constants of one device: which set prices an operator, and how far to trust it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from genz_core.errors import MissingSpec
from genz_core.latency.parameters import (
    CollectiveParameters,
    DecodeAttentionParameters,
    GemmParameters,
    MoeParameters,
    Parameters,
    PointwiseParameters,
    PrefillAttentionParameters,
    ScanParameters,
)
from genz_core.precision import format_of

Tier = Literal["measured", "sibling", "default"]


@dataclass(frozen=True, slots=True)
class Fit:
    """Where one parameter set comes from and how well it does on shapes it never saw.

    tier: measured on this device, taken from its family, or global defaults.
    held_out_mape, held_out_bias, held_out_p90: fractions; None where nothing was held out.
    spread: standard deviation of ln(constant) over the devices it was fitted on, by field: the
    prior's width in few-shot calibration.
    """

    tier: Tier
    data_set: str = ""
    points: int = 0
    held_out_points: int = 0
    held_out_mape: float | None = None
    held_out_p90: float | None = None
    held_out_bias: float | None = None
    date: str = ""
    spread: Mapping[str, float] = field(default_factory=dict)


#: The formats whose constants stand in where one has none of its own, nearest first.
_NEAREST: Mapping[str, tuple[str, ...]] = {
    "fp8": ("bf16",),
    "fp8_block": ("fp8", "bf16"),
    "nvfp4": ("mxfp4_mxfp8", "fp8_block", "fp8", "bf16"),
    "mxfp4_mxfp8": ("nvfp4", "fp8_block", "fp8", "bf16"),
    "int8": ("fp8", "bf16"),
    "int8_weight_only": ("int4_weight_only", "bf16"),
    "int4_weight_only": ("int8_weight_only", "bf16"),
    "mxfp4": ("int4_weight_only", "int8_weight_only", "bf16"),
}


def product_format(weights: str, compute: str = "") -> str:
    """The key of the constants of a product: its weights' format and what it multiplies in.

    Weights below 16 bit that multiply in 16 bit are unpacked on the fly ("weight only"), whatever
    the name of their format.

    >>> product_format("fp8", "fp8"), product_format("fp8", "bf16")
    ('fp8', 'int8_weight_only')
    """
    fmt = format_of(weights)
    compute = compute or fmt.compute
    if compute == "int8":
        return "int8"
    if compute == "fp4":
        return "nvfp4"
    if compute == "fp8":
        if fmt.bits < 6:
            return "mxfp4_mxfp8"
        return "fp8_block" if fmt.name in ("fp8_block", "mxfp8") else "fp8"
    if fmt.bits >= 16:
        return "bf16"
    if fmt.name == "mxfp4":
        return "mxfp4"
    return "int8_weight_only" if fmt.bits > 6 else "int4_weight_only"


@dataclass(frozen=True, slots=True)
class LatencyProfile:
    """Fitted constants of one device: {class: {format: parameters}} with the record of each fit.

    Formats are those of `product_format` for `gemm` and `moe` ("bf16", "fp8" ...), "compute/cache"
    for attention ("bf16/fp8"), the phase for `scan`, "default" for `pointwise`, and
    "algorithm.operation" for `collective` ("nccl.all_reduce").
    tier: of the whole; each entry of `fits` (keyed "class.format") says its own.
    """

    name: str
    tier: Tier
    parameters: Mapping[str, Mapping[str, Parameters]]
    fits: Mapping[str, Fit] = field(default_factory=dict)
    note: str = ""

    def fit(self, operator: str, fmt: str) -> Fit:
        """The record behind `constants(operator, fmt)`."""
        key = f"{operator}.{self._format(operator, fmt)}"
        return self.fits.get(key, Fit("default"))

    def constants(self, operator: str, fmt: str) -> Parameters:
        """The constants of a class for a format key, or for the nearest format that has some."""
        known = self._format(operator, fmt)
        return self.parameters[operator][known]

    def gemm(self, weights: str, compute: str = "") -> GemmParameters:
        fmt = product_format(weights, compute)
        return self.constants("gemm", fmt)  # type: ignore[return-value]

    def prefill_attention(
        self, compute: str, kv: str, mla: bool = False
    ) -> PrefillAttentionParameters:
        operator = "mla_prefill" if mla else "prefill_attention"
        return self.constants(operator, attention_format(compute, kv))  # type: ignore[return-value]

    def decode_attention(
        self, compute: str, kv: str, mla: bool = False
    ) -> DecodeAttentionParameters:
        operator = "mla_decode" if mla else "decode_attention"
        return self.constants(operator, attention_format(compute, kv))  # type: ignore[return-value]

    def moe(self, weights: str, compute: str = "") -> MoeParameters:
        fmt = product_format(weights, compute)
        return self.constants("moe", fmt)  # type: ignore[return-value]

    def scan(self, phase: Literal["prefill", "decode"]) -> ScanParameters:
        return self.constants("scan", phase)  # type: ignore[return-value]

    @property
    def pointwise(self) -> PointwiseParameters:
        return self.constants("pointwise", "default")  # type: ignore[return-value]

    def collective(self, operation: str, algorithm: str = "nccl") -> CollectiveParameters:
        return self.constants("collective", f"{algorithm}.{operation}")  # type: ignore[return-value]

    def _format(self, operator: str, fmt: str) -> str:
        known = self.parameters.get(operator, {})
        for candidate in _candidates(operator, fmt):
            if candidate in known:
                return candidate
        raise MissingSpec(
            f"profile {self.name} has no {operator} constants for {fmt!r} "
            f"(it has {', '.join(known) or 'none'}); fit them or use the default profile"
        )


def attention_format(compute: str, kv: str) -> str:
    """The key of the constants of an attention: products in 8 or 16 bit, a cache of 8 or 16."""
    cache = "fp8" if format_of(kv).bits <= 8.5 else "bf16"
    return f"{'fp8' if compute == 'fp8' else 'bf16'}/{cache}"


def _candidates(operator: str, fmt: str) -> tuple[str, ...]:
    if operator in ("gemm", "moe"):
        return (fmt, *_NEAREST.get(fmt, ("bf16",)))
    if "attention" in operator or "mla" in operator:
        return (fmt, "bf16/" + fmt.partition("/")[2], "bf16/bf16")
    if operator == "collective":
        algorithm, _, operation = fmt.partition(".")
        return (fmt, f"nccl.{operation}", f"{algorithm}.all_reduce", "nccl.all_reduce")
    return (fmt, "default")

"""Fitted constants of one device: a parameter set for each operator class and format, and
its fit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from genz_core.errors import MissingSpec
from genz_core.latency.parameters import Parameters
from genz_core.latency.residual import Residual
from genz_core.latency.residual_grid import Grid
from genz_core.precision import format_of

Tier = Literal["measured", "sibling", "default"]


@dataclass(frozen=True, slots=True)
class Fit:
    """Origin of a parameter set, and its errors on shapes that were held out of the fit.

    tier: measured on this device, taken from its family, or global defaults.
    held_out_mape, held_out_bias, held_out_p90: fractions; None where nothing was held out.
    spread: standard deviation of ln(constant) over the devices that it was fitted on, by field; it
    is the width of the prior in few-shot calibration.
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


#: Formats whose constants replace those of a format without constants, nearest first.
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
    """Format key of a product's constants, from its weights' format and arithmetic type.

    Weights of less than 16 bits that multiply in 16 bits are unpacked on the fly ("weight only"),
    whatever their format is called.

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
    """Fitted constants of one device: {class: {format: parameters}}, with the record of each fit.

    Formats are those of `product_format` for `gemm` and `moe` ("bf16", "fp8" ...), "compute/cache"
    for attention ("bf16/fp8"), the phase for `scan`, "default" for `pointwise`, and
    "algorithm.operation" for `collective` ("nccl.all_reduce").
    tier: of the whole profile; each entry of `fits` (keyed "class.format") states its own.
    residual: (class, format) -> trees or a table that correct kernels that run alone, None where
    none were fitted; None if the profile has no residuals.
    """

    name: str
    tier: Tier
    parameters: Mapping[str, Mapping[str, Parameters]]
    fits: Mapping[str, Fit] = field(default_factory=dict)
    note: str = ""
    residual: Callable[[str, str], Residual | Grid | None] | None = None

    def fit(self, operator: str, fmt: str) -> Fit:
        """The record behind `constants(operator, fmt)`."""
        key = f"{operator}.{self._format(operator, fmt)}"
        return self.fits.get(key, Fit("default"))

    def constants(self, operator: str, fmt: str) -> Parameters:
        """The constants of a class for a format key, or of the nearest format that has some.

        Raises:
            MissingSpec: no constants of the class can replace them.
        """
        nearest = self._format(operator, fmt)
        return self.parameters[operator][nearest]

    def _format(self, operator: str, fmt: str) -> str:
        """`fmt`, or the nearest format whose constants can replace it."""
        formats = self.parameters.get(operator, {})
        for candidate in _candidates(operator, fmt):
            if candidate in formats:
                return candidate
        raise MissingSpec(
            f"profile {self.name} has no {operator} constants for {fmt!r} "
            f"(it has {', '.join(formats) or 'none'}); fit them, or use the default profile"
        )


def attention_format(compute: str, kv: str) -> str:
    """Format key of an attention's constants: products in 8 or 16 bits / cache in 8 or 16 bits."""
    cache = "fp8" if format_of(kv).bits <= 8.5 else "bf16"
    return f"{'fp8' if compute == 'fp8' else 'bf16'}/{cache}"


def _candidates(operator: str, fmt: str) -> tuple[str, ...]:
    """`fmt` and the formats whose constants may replace it, nearest first."""
    if operator in ("gemm", "moe"):
        return (fmt, *_NEAREST.get(fmt, ("bf16",)))
    if "attention" in operator or "mla" in operator:
        return (fmt, "bf16/" + fmt.partition("/")[2], "bf16/bf16")
    if operator == "collective":
        algorithm, _, operation = fmt.partition(".")
        return (fmt, f"nccl.{operation}", f"{algorithm}.all_reduce", "nccl.all_reduce")
    return (fmt, "default")

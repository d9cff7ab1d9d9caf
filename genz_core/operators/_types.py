"""The number formats of one operator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from genz_core.precision import arithmetic, bytes_of


@dataclass(frozen=True, slots=True)
class Types:
    """Number formats of one operator: weights, activations, cache, and forced arithmetic."""

    weights: str = "bf16"
    activations: str = "bf16"
    kv: str = "bf16"
    compute: str = ""

    @property
    def w(self) -> float:
        """Bytes per element of the weights."""
        return bytes_of(self.weights)

    @property
    def a(self) -> float:
        """Bytes per element of the activations."""
        return bytes_of(self.activations)

    @property
    def arithmetic(self) -> str:
        """Arithmetic type of a product, see `genz_core.precision.arithmetic`."""
        return arithmetic(self.weights, self.activations, self.compute)

    def fields(self) -> dict[str, Any]:
        """The formats under the field names of `Op`."""
        return {
            "weights": self.weights,
            "activations": self.activations,
            "kv": self.kv,
            "compute": self.arithmetic,
            "forced": bool(self.compute),
        }


BF16 = Types()

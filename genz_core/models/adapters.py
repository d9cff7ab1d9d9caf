"""LoRA adapters: a model whose matrix products have unmerged low-rank products beside them.

Where requests have adapters of their own, a step multiplies each token by its request's A [k, r]
and B [r, n] beside the weight [k, n] (W x + B A x).  Every adapter that some token of the step uses
is read once; all adapters on the device take memory.  Engines run A and B as grouped products, one
kernel each.
Source: Hu et al. 2021, arXiv:2106.09685, section 4.1; Chen et al. 2023 (Punica), arXiv:2310.18547,
section 4 (segmented gather matrix-vector products); Sheng et al. 2023 (S-LoRA), arXiv:2311.03285.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from genz_core.common.memo import ByIdentity
from genz_core.graphs import Graph, Model, Op
from genz_core.models.model_wrapper import ModelAround
from genz_core.operators import batched_gemm
from genz_core.operators._types import Types
from genz_core.types import Array, Parallelism, Precision, Step

_FORMAT = "bf16"
_FUSED: Mapping[str, int] = {"qkv_proj": 3, "gate_up_proj": 2}
_PLACE = ("layers", "repeat", "stage", "module")


@dataclass(frozen=True, slots=True)
class Adapters:
    """Adapters that requests use with equal probability.

    rank: of their products.  active: number that the requests of a batch use.  held: number on the
    device, at least the active ones.
    """

    rank: int
    active: int = 1
    held: int = 0

    @property
    def on_device(self) -> int:
        """Adapters that a device holds."""
        return max(self.held, self.active)

    def touched(self, tokens: Array) -> Array:
        """Expected number of adapters that independent tokens use: a (1 - (1 - 1/a)^tokens).

        Tokens of one prompt share an adapter, so prefill reads fewer: this is an upper limit.
        """
        count = float(self.active)
        return np.asarray(count * -np.expm1(tokens * np.log1p(-1.0 / count)) if count > 1.0
                          else np.minimum(tokens, 1.0))  # fmt: skip

    def __str__(self) -> str:
        many = "s" if self.active > 1 else ""
        return f"{self.active} LoRA adapter{many} of rank {self.rank}, unmerged, on dense products"


@dataclass(frozen=True, slots=True)
class AdaptedModel(ModelAround):
    """A `Model` with adapters on the dense products of its layers, but not on router and
    experts.
    """

    adapters: Adapters

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes of the model, and its adapters."""
        return (*self.model.notes, str(self.adapters))

    def with_precision(self, precision: Precision) -> AdaptedModel:
        """The model in other formats; adapters stay in 16 bits."""
        return AdaptedModel(self.model.with_precision(precision), self.adapters)

    def graph(self, step: Step, parallelism: Parallelism) -> Graph:
        """The operators of a step, with two low-rank products after each that has an adapter."""
        graph = self.model.graph(step, parallelism)
        ops: list[Op] = []
        for op in graph.ops:
            ops.append(op)
            if _adaptable(op):
                ops += self._products(op)
        return replace(graph, ops=tuple(ops))

    def _products(self, op: Op) -> tuple[Op, Op]:
        """x[m, k] A[k, r] and (x A)[m, r] B[r, n] of a product of m tokens, with one batch entry
        per adapter.
        """
        m, n, k = (np.asarray(op.dims[name], dtype=float) for name in ("m", "n", "k"))
        touched = np.maximum(self.adapters.touched(m), 1e-9)
        types = Types(_FORMAT, op.activations)
        place: dict[str, Any] = {name: getattr(op, name) for name in _PLACE}
        rank = float(self.adapters.rank)
        # A fused product consists of several weights, each with its own A.
        parts = next((parts for name, parts in _FUSED.items() if op.name.endswith(name)), 1)
        own = rank * parts
        down = batched_gemm(f"{op.name}_lora_a", touched, m / touched, own, k, types, **place)
        up = batched_gemm(f"{op.name}_lora_b", touched, m / touched, n, rank, types, **place)
        return self._held(down, touched), self._held(up, touched)

    def _held(self, op: Op, touched: Array) -> Op:
        """The product with the memory of all adapters on the device, not only of those that it
        reads.
        """
        return replace(
            op, held_weight_bytes=op.held_weight_bytes / touched * self.adapters.on_device
        )


def _adaptable(op: Op) -> bool:
    """Whether an operator is a dense product of a layer, which can have an adapter."""
    return op.kind == "gemm" and bool(op.layers) and "batch" not in op.dims and op.name != "router"


_MODELS: ByIdentity[AdaptedModel] = ByIdentity()


def adapted_model(model: Model, adapters: Adapters) -> AdaptedModel:
    """The `AdaptedModel` of both; the same object on each call, so that cached prices are
    reused.
    """
    return _MODELS.get(lambda: AdaptedModel(model, adapters), model, values=adapters)

"""Operators, the graph of a step that they form, and the interface of a model that makes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np

from genz_core.common.registry import KINDS, OperatorClass
from genz_core.common.short_repr import listed
from genz_core.types import Mask, Num, Parallelism, Places, Precision, Step


@dataclass(frozen=True, slots=True)
class Op:
    """One run of an operator on one device, in one step; numbers or arrays [configs].

    name: place in the model ("qkv_proj").  kind: key of its formulas (`genz_core.common.registry`).
    flops: a multiply-add is two.  *_bytes: memory traffic by tensor class, each operand once.
    held_weight_bytes, held_kv_bytes: bytes that stay on the device (all experts; the cache after
    the step).  far_weights, far_kv: shares of either in the second memory of the device.
    message_bytes: per device, before the algorithm's factor; group: devices that
    take part; stride: devices between two neighbours of the group, which decides the tier.
    compute, weights, activations, kv: number formats.  forced: the user chose the arithmetic, so
    no engine chooses another.  dims: the shape, as the latency model uses it.
    layers: indices of the layers that have it, empty for operators outside the layers, which are on
    the `first` or the `last` pipeline stage.  repeat: runs per layer.  module: path in the model.
    Multiply by `count` for the step.
    """

    name: str
    kind: str
    flops: Num = 0.0
    weight_bytes: Num = 0.0
    input_bytes: Num = 0.0
    output_bytes: Num = 0.0
    kv_read_bytes: Num = 0.0
    kv_write_bytes: Num = 0.0
    held_weight_bytes: Num = 0.0
    held_kv_bytes: Num = 0.0
    message_bytes: Num = 0.0
    group: Num = 1.0
    stride: Num = 1.0
    far_weights: Num = 0.0
    far_kv: Num = 0.0
    compute: str = "bf16"
    weights: str = "bf16"
    activations: str = "bf16"
    kv: str = "bf16"
    forced: bool = False
    dims: Mapping[str, Num] = field(default_factory=dict)
    layers: tuple[int, ...] = ()
    repeat: float = 1.0
    stage: Literal["first", "last"] = "last"
    module: str = ""

    @property
    def count(self) -> float:
        """Runs per step over the whole model."""
        return self.repeat * (len(self.layers) or 1)

    @property
    def operator_class(self) -> OperatorClass:
        """Class for charts and validation."""
        return KINDS[self.kind].operator_class

    @property
    def memory_bytes(self) -> Num:
        """All memory traffic of one run."""
        return (
            self.weight_bytes
            + self.input_bytes
            + self.output_bytes
            + self.kv_read_bytes
            + self.kv_write_bytes
        )

    @property
    def far_bytes(self) -> Num:
        """Traffic of one run with the second memory."""
        cache = self.kv_read_bytes + self.kv_write_bytes
        return self.weight_bytes * self.far_weights + cache * self.far_kv


#: Figures of an operator that grow with its sequences.
GROWING = (
    "flops", "input_bytes", "output_bytes", "kv_read_bytes", "kv_write_bytes", "held_kv_bytes",
)  # fmt: skip
_NUMBERS = (
    "flops", "weight_bytes", "input_bytes", "output_bytes", "kv_read_bytes", "kv_write_bytes",
    "held_weight_bytes", "held_kv_bytes", "message_bytes", "group", "stride",
    "far_weights", "far_kv",
)  # fmt: skip


def picked(op: Op, columns: slice | Mask | Places) -> Op:
    """The operator for a selection of its configurations; scalars hold for all of them and stay
    scalars.
    """

    def selected(value: Num) -> Num:
        return np.asarray(value)[columns] if np.size(value) > 1 else value

    numbers: dict[str, Any] = {name: selected(getattr(op, name)) for name in _NUMBERS}
    dims = {name: selected(value) for name, value in op.dims.items()}
    return replace(op, **numbers, dims=dims)


@dataclass(frozen=True, slots=True)
class Graph:
    """The operators of one step in the order in which they run.

    layers: decoder layers of the model (the pipeline splits them).  notes: assumptions and
    rewrites of the builder, in words.
    """

    ops: tuple[Op, ...]
    layers: int
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        names = listed(op.name for op in self.ops)
        return f"Graph({len(self.ops)} operators, {self.layers} layers:\n  {names})"


@runtime_checkable
class Model(Protocol):
    """Interface of a model to the engine; `model_registry.load` and tracing return one."""

    @property
    def name(self) -> str:
        """Its name, for display."""
        ...

    @property
    def precision(self) -> Precision:
        """Number formats of its tensors."""
        ...

    @property
    def parameters(self) -> float:
        """Parameters of the language model, tied embeddings once."""
        ...

    @property
    def active_parameters(self) -> float:
        """Parameters that are used for one token."""
        ...

    @property
    def max_context(self) -> int | None:
        """Tokens that its positions allow, None without a limit."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on how its name was resolved, on assumptions and on rewrites, in words."""
        ...

    @property
    def source(self) -> str:
        """Origin of its shape: that of its configuration, "trace", or ""."""
        ...

    def with_precision(self, precision: Precision) -> Model:
        """The same model in other number formats; its notes are unchanged."""
        ...

    def graph(self, step: Step, parallelism: Parallelism) -> Graph:
        """The operators of a step on one device."""
        ...

    def invalid(self, parallelism: Parallelism) -> str | None:
        """A sentence on degrees that cannot split the model, with near ones that can; None if they
        can.
        """
        ...

"""The part of a step and a model that one device computes, for which each block makes its
operators.

Devices are numbered with tp innermost, then cp, dp and pp, unless another order is requested.
Attention data parallelism gives each rank its own sequences; context parallelism splits the new
tokens of every sequence, and its cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import singledispatch
from typing import Any, Literal

import numpy as np

from genz_core.graphs import Op
from genz_core.models.degrees import stride_of
from genz_core.operators import Types, all_gather, all_reduce, gemm, norm, pointwise, reduce_scatter
from genz_core.operators import residual_norm as fused_norm
from genz_core.symbolic.symbols import number
from genz_core.types import Group, Num, Parallelism, Precision, Step
from model_registry.spec import Block, ModelSpec

Ops = tuple[Op, ...]
MESSAGE_BYTES = 2.0  # partial sums are exchanged in 16 bits, whatever the format of the weights


@dataclass(frozen=True, slots=True)
class EncodedInput:
    """Output of an encoder that each sequence of a group attends to beside its own tokens.

    tokens: all of it.  fresh: the part that this step encodes.
    """

    tokens: Num
    fresh: Num


@dataclass(frozen=True, slots=True)
class DeviceFrame:
    """One device's part of a step, for a set of equal layers.

    groups: sequences of this device's rank, with all of their new tokens.
    tokens, sequences: new tokens on this device, and sequences, over all groups.
    of_all_ranks: new tokens of all attention ranks together.
    sampled: tokens of all sequences whose successor is sampled.
    layers: indices of the equal layers; empty outside the layers, where `stage` is the pipeline
    stage.
    encoded: of each group, where an encoder precedes the decoder.
    """

    spec: ModelSpec
    precision: Precision
    par: Parallelism
    groups: tuple[Group, ...]
    tokens: Num
    sequences: Num
    sampled: Num
    of_all_ranks: Num
    layers: tuple[int, ...] = ()
    stage: Literal["first", "last"] = "last"
    encoded: tuple[EncodedInput, ...] = ()

    @classmethod
    def for_step(
        cls, spec: ModelSpec, precision: Precision, step: Step, par: Parallelism
    ) -> DeviceFrame:
        """The frame of the fullest rank: dp ranks get whole sequences, rounded up."""
        ranks = tuple(replace(g, sequences=g.of_rank(par.dp)) for g in step.groups)
        tokens, every = (
            sum((g.sequences * _local(g, par) for g in groups), start=np.zeros(()))
            for groups in (ranks, step.groups)
        )
        sequences = sum((g.sequences for g in ranks), start=np.zeros(()))
        sampled = sum((g.sequences * g.sampled for g in ranks), start=np.zeros(()))
        return cls(spec, precision, par, ranks, tokens, sequences, sampled, every)

    # --------------------------------------------------------------------------- the step

    @property
    def stream_tokens(self) -> Num:
        """Tokens of the norms and residuals: split over tp when sequence parallel."""
        return self.tokens / self.par.tp if self.par.sequence_parallel else self.tokens

    @property
    def newly_encoded(self) -> Num:
        """Tokens of encoder output that this step produces, over all groups."""
        pairs = zip(self.groups, self.encoded, strict=True)
        return sum((g.sequences * source.fresh for g, source in pairs), start=np.zeros(()))

    @property
    def prompt_tokens(self) -> Num:
        """New tokens of the groups that context parallelism splits."""
        return sum(
            (np.where(g.generates, 0.0, g.sequences * g.new_tokens) for g in self.groups),
            start=np.zeros(()),
        )

    @property
    def query_tokens(self) -> Num:
        """New tokens that every context-parallel rank holds: those of sequences that generate."""
        return sum(
            (np.where(g.generates, g.sequences * g.new_tokens, 0.0) for g in self.groups),
            start=np.zeros(()),
        )

    def local(self, group: Group) -> Num:
        """New tokens of one sequence on this device: a share of a prompt, or all generated
        tokens.
        """
        return _local(group, self.par)

    def numbered(self, name: str) -> list[tuple[str, Group]]:
        """(name, group) of every group of the step; the names are numbered where there are
        several.
        """
        if len(self.groups) == 1:
            return [(name, self.groups[0])]
        return [(f"{name}_{at}", group) for at, group in enumerate(self.groups, 1)]

    # --------------------------------------------------------------------------- the split

    def part(self, size: Num) -> Num:
        """A device's part of a size that tp divides, or that an engine pads so that it does."""
        return np.ceil(number(size) / self.par.tp)

    def shared_heads(self, heads: Num) -> Num:
        """Heads on a device, replicated where there are more devices than heads."""
        return np.maximum(number(heads) / self.par.tp, min(heads, 1))

    @property
    def cp_stride(self) -> Num:
        """Devices between neighbours of a context-parallel group."""
        return stride_of("cp", self.par)

    @property
    def dp_stride(self) -> Num:
        """Devices between neighbours of a data-parallel group."""
        return stride_of("dp", self.par)

    @property
    def pp_stride(self) -> Num:
        """Devices between neighbouring pipeline stages."""
        return stride_of("pp", self.par)

    # --------------------------------------------------------------------------- operators

    def types(self, role: str) -> Types:
        """Formats of a matrix product with the weights of `role`."""
        p, layer = self.precision, self.layers[0] if self.layers else None
        return Types(p.weight(role, layer), p.activations, p.kv, p.compute)

    @property
    def plain(self) -> Types:
        """Formats of operators without matrix weights."""
        return Types(self.precision.activations, self.precision.activations, self.precision.kv)

    def at(self, module: str) -> dict[str, Any]:
        """Fields that place an operator: its layers and stage, and its path in the module tree."""
        place = f"layers.{module}" if self.layers else module
        return {"layers": self.layers, "stage": self.stage, "module": place}

    def linear(
        self, name: str, role: str, n: Num, k: Num, *, module: str, bias: bool = False
    ) -> Op:
        """A projection of all of the device's tokens, [tokens, k] -> [tokens, n]."""
        return gemm(name, self.tokens, n, k, self.types(role), bias=bias, **self.at(module))

    def norm(self, name: str, module: str, *, first: bool = False) -> Op:
        """A norm of the model's width, fused with the residual addition unless it is the very
        first.
        """
        kind, width, tokens = self.spec.norm, self.spec.hidden, self.stream_tokens
        biased = kind == "layer"
        make = norm if first else fused_norm
        op = make(name, tokens, width, self.plain, bias=biased, **self.at(module))
        if kind == "without_weights":
            return replace(op, weight_bytes=0.0, held_weight_bytes=0.0)
        return op

    def small_norm(
        self, name: str, rows: Num, width: Num, module: str, *, weights: Num | None = None
    ) -> Op:
        """An RMS norm inside a block, over `rows` of `width`; weights: their number if it is not
        the width.
        """
        own = width if weights is None else weights
        return pointwise(
            name, "norm", rows * width, 4.0, self.plain, weights=own, **self.at(module)
        )

    def summed(self, name: str, module: str) -> Ops:
        """Partial sums of the residual stream over tp: an all-reduce, or a reduce-scatter and an
        all-gather.
        """
        message = self.tokens * self.spec.hidden * MESSAGE_BYTES
        where = {"stride": stride_of("tp", self.par), **self.at(module)}
        if not self.par.sequence_parallel:
            return (all_reduce(name, message, self.par.tp, **where),)
        stem = name.removesuffix("_all_reduce")
        return (
            reduce_scatter(f"{stem}_reduce_scatter", message, self.par.tp, **where),
            all_gather(f"{stem}_all_gather", message, self.par.tp, **where),
        )


def _local(group: Group, par: Parallelism) -> Num:
    new = number(group.new_tokens)
    return np.where(group.generates, new, np.maximum(new / par.cp, np.minimum(new, 1.0)))


def with_small_weights(op: Op, elements: Num) -> Op:
    """`op` with further small weights of 16 bit: biases, sinks, decay rates."""
    size = elements * 2.0
    return replace(
        op,
        weight_bytes=op.weight_bytes + size,
        held_weight_bytes=op.held_weight_bytes + size,
    )


@singledispatch
def block_ops(block: Block, frame: DeviceFrame) -> Ops:
    """The operators of one block, without its norm and without the sum over tp.

    A family with another kind of block registers its own function with `@block_ops.register`.
    """
    raise TypeError(f"no operators are described for {type(block).__name__}")


def message_bytes(tokens: Num, width: Num) -> Num:
    """Bytes of [tokens, width] partial sums on a link."""
    return tokens * width * MESSAGE_BYTES


def flatten(parts: Sequence[Ops]) -> Ops:
    """The operators of all parts, in order."""
    return tuple(op for part in parts for op in part)

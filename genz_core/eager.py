"""Graphs of eager transformers: unfused kernels one after the other, and a cache copied to append.

The registry's graphs are those of a serving engine, where a norm is one pass and the cache is
written in place.  Eager transformers computes a norm in nine kernels, copies the whole cache to
append a token, and spends host time on each kernel.  `Unfused` rewrites a graph accordingly, with
costs (`EagerFacts`) measured by running those pieces alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from genz_core.common.memo import ByIdentity
from genz_core.engine import EagerFacts, EngineProfile
from genz_core.graphs import GROWING, Graph, Model, Op
from genz_core.models.model_wrapper import ModelAround
from genz_core.operators import copy
from genz_core.symbolic.symbols import number
from genz_core.types import Num, Parallelism, Precision, Step

#: Kernels that eager transformers launches for each operator of a decoder layer, counted in its
#: source (models/llama/modeling_llama.py, cache_utils.py): a norm with the residual before it (add,
#: to fp32, square, mean, epsilon, rsqrt, scale, to bf16, weight), rotation of queries and keys
#: (each negate, cat, two products, a sum), SwiGLU's activation, appending keys and values.
KERNELS: Mapping[str, int] = {"norm": 9, "rope": 10, "activation": 2, "append": 2}
_QUERY_ROWS = 32.0
_LAYER_KERNELS = 2 * KERNELS["norm"] + KERNELS["rope"] + KERNELS["activation"] + 2 + 7 + 1


def mean_of(first: EagerFacts, second: EagerFacts) -> EagerFacts:
    """Arithmetic mean of two measurements of the eager costs, field by field."""
    names = [entry.name for entry in fields(EagerFacts)]
    return EagerFacts(
        **{name: (getattr(first, name) + getattr(second, name)) / 2.0 for name in names}
    )


def kernel_s(facts: EagerFacts) -> float:
    """Host time of one kernel of a decoder layer [s]."""
    return facts.host_layer_s / _LAYER_KERNELS


def eager_engine(base: EngineProfile, facts: EagerFacts) -> EngineProfile:
    """The profile `base` with measured eager costs in place of its assumed host times."""
    return replace(
        base,
        kernel_floor_s=kernel_s(facts),
        host_step_s=facts.host_step_s,
        host_sequence_s=0.0,
        host_request_s=0.0,
        thin_products=bool(facts.expand_groups),
        eager=facts,
    )


def under(scheduler: str, engine: EngineProfile) -> EngineProfile:
    """An engine under a scheduler that the user chose; "" for its own.

    On a CPU a scheduler that batches continuously is that of `transformers serve`, which computes
    the attention of a step as `masked_attention`; `generate` batches sequences of one length.
    """
    facts = engine.eager
    if scheduler in ("", "static") or facts is None or not facts.expand_groups:
        return engine
    return _SERVED.get(lambda: replace(engine, eager=replace(facts, whole_step=1.0)), engine)


_SERVED: ByIdentity[EngineProfile] = ByIdentity()


def as_run(model: Model, engine: EngineProfile) -> Model:
    """The model whose graphs are priced: `model`, or its unfused form under an eager engine."""
    if engine.eager is None or isinstance(model, Unfused):
        return model
    return Unfused(model, engine.eager)


def cpu_attention(dims: Mapping[str, Num]) -> dict[str, Num]:
    """Dimensions of an attention in the blocks of a CPU's kernel.

    The kernel processes each query head separately, whether or not keys are shared, and the queries
    in blocks of 32 rows, each over the keys before it: a prompt of n tokens becomes n / 32 short
    ones with (n - 32) / 2 earlier tokens on average.  GPUs use blocks of 128 rows.
    Source: torch, aten/src/ATen/native/cpu/FlashAttentionKernel.cpp (blocks of 32 to 256 rows).
    """
    new = number(dims["new_tokens"])
    rows = np.where(new > _QUERY_ROWS, _QUERY_ROWS, new)
    return {
        **dims,
        "kv_heads": dims["heads"],
        "sequences": dims["sequences"] * new / rows,
        "new_tokens": rows,
        "cached_tokens": dims["cached_tokens"] + (new - rows) / 2.0,
    }


def masked_attention(groups: Sequence[Op]) -> Op:
    """One attention of all queries of a step over all its keys.

    Continuous batching lays the sequences of a step side by side, [1, heads, queries, dim], and
    masks the keys of the others, which the kernel computes nevertheless.  If the step has a single
    query, the query heads that share keys form the rows of one block.
    Source: transformers 5.23, generation/continuous_batching/utils.py (`build_attention_mask`) and
    integrations/sdpa_attention.py (`pack_gqa`, `repeat_kv`).

    groups: the attention of each group of sequences in the same layers.
    """
    sizes = [{name: number(size) for name, size in op.dims.items()} for op in groups]
    first = sizes[0]
    queries = sum(d["sequences"] * d["new_tokens"] for d in sizes)
    keys = sum(d["sequences"] * (_in_window(d) + d["new_tokens"]) for d in sizes)
    single = queries <= 1.0
    # One row takes as long as two, but would be priced as a decode, by another formula.
    shared = np.maximum(first["heads"] / first["kv_heads"], 2.0)
    rows = np.where(single, shared, np.minimum(queries, _QUERY_ROWS))
    heads = np.where(single, first["kv_heads"], first["heads"])
    dims = {
        **groups[0].dims,
        "sequences": np.where(single, queries, queries / rows),
        "new_tokens": rows,
        "cached_tokens": np.maximum(keys - rows, 0.0),
        "heads": heads,
        "kv_heads": heads,
        "window": 0.0,
        "causal": 0.0,
    }
    figures: dict[str, Any] = {
        name: sum(number(getattr(op, name)) for op in groups) for name in GROWING
    }
    return replace(groups[0], name=groups[0].kind, dims=dims, **figures)


def _in_window(dims: Mapping[str, Num]) -> Num:
    window, cached = dims["window"], dims["cached_tokens"]
    return np.where(window > 0, np.minimum(cached, window), cached)


# ------------------------------------------------------------------------------- the graph


@dataclass(frozen=True, slots=True)
class Unfused(ModelAround):
    """A `Model` whose graphs hold the kernels of eager transformers.

    model: the fused one.  facts: measured costs of the unfused pieces.
    """

    facts: EagerFacts

    def with_precision(self, precision: Precision) -> Unfused:
        """The unfused form of the model in other number formats."""
        return Unfused(self.model.with_precision(precision), self.facts)

    def graph(self, step: Step, parallelism: Parallelism) -> Graph:
        """The fused model's graph of a step, each operator as its unfused kernels."""
        fused = self.model.graph(step, parallelism)
        attention = next((op for op in fused.ops if op.kind == "attention"), None)
        whole = _of_whole_steps(fused.ops) if self.facts.whole_step else fused.ops
        ops = [kernel for op in whole for kernel in self._kernels(op, attention)]
        note = "kernels as eager transformers launches them: unfused, the cache copied to append"
        return replace(fused, ops=tuple(ops), notes=(*fused.notes, note))

    def _kernels(self, op: Op, attention: Op | None) -> Iterator[Op]:
        """The unfused kernels of an operator; attention: the graph's, for the heads of its qkv
        projection.
        """
        if op.kind in ("norm", "rope", "activation"):
            passes = getattr(self.facts, f"{op.kind}_passes")
            yield _pieces(op, KERNELS[op.kind], passes)
        elif op.kind == "attention":
            yield _append(op, self.facts.append_passes)
            yield replace(op, dims=cpu_attention(op.dims)) if self.facts.expand_groups else op
        elif op.name == "qkv_proj" and attention is not None:
            yield from _split(op, _widths(attention), ("q_proj", "k_proj", "v_proj"))
        elif op.name == "gate_up_proj":
            yield from _split(op, (1.0, 1.0), ("gate_proj", "up_proj"))
        else:
            yield op


def _masked(op: Op) -> bool:
    """Whether an operator is the attention of a decoder over its own cache."""
    return op.kind == "attention" and bool(np.all(op.dims["causal"]))


def _of_whole_steps(ops: Sequence[Op]) -> Iterator[Op]:
    """The operators, with one attention in the place of those of every group of sequences."""
    groups: dict[tuple[str, tuple[int, ...]], list[Op]] = {}
    for op in filter(_masked, ops):
        groups.setdefault((op.module, op.layers), []).append(op)
    for op in ops:
        if not _masked(op):
            yield op
        elif together := groups.pop((op.module, op.layers), None):
            yield masked_attention(together)


def _pieces(op: Op, kernels: int, passes: float) -> Op:
    """An operator as `kernels` launches: the same FLOPs, `passes` times the memory traffic."""
    share = passes / kernels
    return replace(
        op,
        flops=op.flops / kernels,
        weight_bytes=op.weight_bytes * share,
        input_bytes=op.input_bytes * share,
        output_bytes=op.output_bytes * share,
        repeat=op.repeat * kernels,
    )


def _append(attention: Op, passes: float) -> Op:
    """A copy of keys and values to append new ones: the whole cache is read and written."""
    half = (attention.kv_read_bytes + attention.kv_write_bytes) / 2.0
    return copy(
        "cache_append",
        half * passes,
        half * passes,
        layers=attention.layers,
        repeat=attention.repeat * KERNELS["append"],
        stage=attention.stage,
        module=attention.module,
    )


def _widths(attention: Op) -> tuple[Num, Num, Num]:
    """Output features of the query, key and value projections of an attention."""
    d = attention.dims
    return (
        d["heads"] * d["head_dim"],
        d["kv_heads"] * d["head_dim"],
        d["kv_heads"] * d["value_dim"],
    )


def _split(op: Op, widths: tuple[Num, ...], names: tuple[str, ...]) -> Iterator[Op]:
    """A fused product as separate products, one for each part of its output features."""
    total = sum((number(width) for width in widths), start=np.zeros(()))
    for name, width in zip(names, widths, strict=True):
        share = width / total
        yield replace(
            op,
            name=name,
            flops=op.flops * share,
            weight_bytes=op.weight_bytes * share,
            held_weight_bytes=op.held_weight_bytes * share,
            output_bytes=op.output_bytes * share,
            dims={**op.dims, "n": op.dims["n"] * share},
        )

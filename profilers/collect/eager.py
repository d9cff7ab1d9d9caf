"""A model as eager transformers runs it: unfused, one kernel after the other, a growing cache.

The registry's graphs are those of a serving engine, where a norm is one pass and the cache is
written in place.  Eager transformers computes a norm in nine kernels, copies the whole cache to
append a token, and spends host time on each kernel.  `Unfused` rewrites a graph accordingly with
facts that `eager_pieces.measure_eager` finds by running those pieces alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace

import numpy as np

from genz_core.types import EngineProfile, Graph, Model, Num, Op, Parallelism, Precision, Step
from profilers.collect.microbenchmarks import cpu_attention

#: Kernels that eager transformers launches for each operator of a decoder layer, counted in its
#: source (models/llama/modeling_llama.py, cache_utils.py): a norm with the residual before it
#: (add, to fp32, square, mean, epsilon, rsqrt, scale, to bf16, weight), rotation of queries and
#: keys (each negate, cat, two products, a sum), SwiGLU's activation, the append of keys, values.
KERNELS: Mapping[str, int] = {"norm": 9, "rope": 10, "activation": 2, "append": 2}
_LAYER_KERNELS = 2 * KERNELS["norm"] + KERNELS["rope"] + KERNELS["activation"] + 2 + 7 + 1


@dataclass(frozen=True, slots=True)
class EagerFacts:
    """What eager execution costs on one machine.

    host_layer_s: host time of one decoder layer, host_step_s: of a step outside of the layers,
    both with cold caches, as they are after a product streamed its weights through them.
    *_passes: memory traffic of the unfused form over the fused one's.
    expand_groups: 1 where attention runs as on CPUs, see `microbenchmarks.cpu_attention`.
    """

    host_layer_s: float
    host_step_s: float
    norm_passes: float = 1.0
    rope_passes: float = 1.0
    activation_passes: float = 1.0
    append_passes: float = 1.0
    expand_groups: float = 0.0

    @property
    def kernel_s(self) -> float:
        """Host time of one kernel of a layer."""
        return self.host_layer_s / _LAYER_KERNELS

    @classmethod
    def of(cls, engine: EngineProfile) -> EagerFacts | None:
        """The facts that an engine profile carries; None where it is not an eager one."""
        known = {entry.name for entry in fields(cls)}
        return cls(**dict(engine.extra)) if known == set(engine.extra) else None

    def joined(self, later: EagerFacts) -> EagerFacts:
        """The mean of two measurements."""
        names = [entry.name for entry in fields(self)]
        return EagerFacts(
            **{name: (getattr(self, name) + getattr(later, name)) / 2.0 for name in names}
        )

    def engine(self, base: EngineProfile) -> EngineProfile:
        """`base` with these facts in place of its assumed host times."""
        own = {entry.name: float(getattr(self, entry.name)) for entry in fields(self)}
        return replace(
            base,
            kernel_floor_s=self.kernel_s,
            host_step_s=self.host_step_s,
            host_sequence_s=0.0,
            host_request_s=0.0,
            thin_products=bool(self.expand_groups),
            extra=own,
        )


def as_run(model: Model, engine: EngineProfile) -> Model:
    """The model as the engine runs it: rewritten where the engine is an eager one."""
    facts = EagerFacts.of(engine)
    return model if facts is None else Unfused(model, facts)


# ------------------------------------------------------------------------------- the graph


@dataclass(frozen=True, slots=True)
class Unfused:
    """A `Model` whose graphs hold the kernels of eager transformers."""

    model: Model
    facts: EagerFacts

    @property
    def name(self) -> str:
        return self.model.name

    @property
    def precision(self) -> Precision:
        return self.model.precision

    @property
    def parameters(self) -> float:
        return self.model.parameters

    @property
    def active_parameters(self) -> float:
        return self.model.active_parameters

    @property
    def max_context(self) -> int | None:
        return self.model.max_context

    def invalid(self, parallelism: Parallelism) -> str | None:
        return self.model.invalid(parallelism)

    def graph(self, step: Step, parallelism: Parallelism) -> Graph:
        whole = self.model.graph(step, parallelism)
        attention = next((op for op in whole.ops if op.kind == "attention"), None)
        ops = [new for op in whole.ops for new in self._rewritten(op, attention)]
        note = "kernels as eager transformers launches them: unfused, the cache copied to append"
        return replace(whole, ops=tuple(ops), notes=(*whole.notes, note))

    def _rewritten(self, op: Op, attention: Op | None) -> Iterator[Op]:
        if op.kind in ("norm", "rope", "activation"):
            passes = getattr(self.facts, f"{op.kind}_passes")
            yield _pieces(op, KERNELS[op.kind], passes)
        elif op.kind == "attention":
            yield _append(op, self.facts.append_passes)
            yield replace(op, dims=cpu_attention(op.dims)) if self.facts.expand_groups else op
        elif op.name == "qkv_proj" and attention is not None:
            yield from _split(op, _heads(attention), ("q_proj", "k_proj", "v_proj"))
        elif op.name == "gate_up_proj":
            yield from _split(op, (1.0, 1.0), ("gate_proj", "up_proj"))
        else:
            yield op


def _pieces(op: Op, kernels: int, passes: float) -> Op:
    """The same work in `kernels` launches that together move `passes` times as much."""
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
    """Keys and values concatenated with the new ones: the cache is read and written whole."""
    half = (attention.kv_read_bytes + attention.kv_write_bytes) / 2.0
    return Op(
        "cache_append",
        "copy",
        input_bytes=half * passes,
        output_bytes=half * passes,
        layers=attention.layers,
        repeat=attention.repeat * KERNELS["append"],
        stage=attention.stage,
        module=attention.module,
    )


def _heads(attention: Op) -> tuple[Num, Num, Num]:
    d = attention.dims
    return (
        d["heads"] * d["head_dim"],
        d["kv_heads"] * d["head_dim"],
        d["kv_heads"] * d["value_dim"],
    )


def _split(op: Op, widths: tuple[Num, ...], names: tuple[str, ...]) -> Iterator[Op]:
    """A product whose outputs were computed at once, as products of their own."""
    total = sum((np.asarray(width, float) for width in widths), start=np.zeros(()))
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

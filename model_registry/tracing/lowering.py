"""Program calls to operators, with a step's tokens, parallel degrees and number formats.

Every formula is a function of `genz_core.operators`, and the split over devices is that of the
builders' frame; this file only combines the two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from genz_core import operators
from genz_core.graphs import Op
from genz_core.symbolic.symbols import number
from genz_core.types import Num, Precision
from model_registry.blocks.frame import DeviceFrame, message_bytes, with_small_weights
from model_registry.tracing.calls import ProgramBlock, ProgramCall
from model_registry.tracing.mixers import mixer_ops


def lower_block(block: ProgramBlock, frame: DeviceFrame) -> Iterator[Op]:
    """The operators of a block; one per call for each set of layers with equal formats."""
    for layers in _alike(block.layers, frame.precision):
        here = replace(frame, layers=layers)
        for call in block.calls:
            small = call.size("small")
            for op in LOWER[call.operator](here, call):
                op, small = (with_small_weights(op, small), 0.0) if small else (op, small)
                op = replace(op, held_weight_bytes=0.0) if call.size("shared") else op
                op = replace(op, weight_bytes=0.0) if call.rows == "none" else op
                yield op if layers else replace(op, stage=block.stage)


def _alike(layers: tuple[int, ...], precision: Precision) -> list[tuple[int, ...]]:
    """`layers` in sets of equal number formats."""
    formats: dict[int, list[tuple[str, str]]] = {}
    for (layer, role), name in precision.by_layer.items():
        formats.setdefault(layer, []).append((role, name))
    groups: dict[object, list[int]] = {}
    for layer in layers:
        groups.setdefault(tuple(sorted(formats.get(layer, ()))), []).append(layer)
    return [tuple(group) for group in groups.values()] or [()]


def _where(frame: DeviceFrame, call: ProgramCall) -> dict[str, Any]:
    return {"layers": frame.layers, "module": call.module}


def _rows(frame: DeviceFrame, call: ProgramCall) -> Num:
    """Rows of a call on this device."""
    if call.rows == "none":
        return frame.tokens * 0.0
    if call.rows == "sequences":
        return frame.sampled * call.times
    if call.rows == "context":
        reach = (
            g.sequences * (frame.local(g) + g.cached_tokens / number(frame.par.cp))
            for g in frame.groups
        )
        return sum(reach, start=np.float64(0.0)) * call.times
    return np.float64(call.times) if call.rows == "step" else frame.tokens * call.times


# ------------------------------------------------------------------------------- projections


def _local(call: ProgramCall, tp: Num) -> tuple[Num, Num]:
    """(output, input) features of a projection on one device."""
    if call.split == "column":
        parts = (features / np.minimum(tp, shards) for features, shards in call.parts)
        return sum(parts, start=np.float64(0.0)), call.size("k")
    if call.split == "row":
        return call.features, call.size("k") / number(tp)
    return call.features, call.size("k")


def _gemm(frame: DeviceFrame, call: ProgramCall) -> Iterator[Op]:
    rows, (n, k) = _rows(frame, call), _local(call, frame.par.tp)
    types = frame.plain if call.role == "default" else frame.types(call.role)
    where = _where(frame, call)
    op = operators.gemm(call.name, rows, n, k, types, bias=bool(call.size("bias")), **where)
    if call.size("tied"):
        apart = np.asarray(frame.par.pp) > 1
        op = replace(op, held_weight_bytes=np.where(apart, op.held_weight_bytes, 0.0))
    yield op


def _grouped_gemm(frame: DeviceFrame, call: ProgramCall) -> Iterator[Op]:
    """Block-diagonal projection: `groups` products side by side, split over devices by group."""
    groups = frame.shared_heads(call.size("groups"))
    rows, types, where = _rows(frame, call), frame.types(call.role), _where(frame, call)
    n, k = call.size("n"), call.size("k")
    yield operators.batched_gemm(call.name, groups, rows, n, k, types, **where)


def _embedding(frame: DeviceFrame, call: ProgramCall) -> Iterator[Op]:
    """Look-ups in the token table, split by rows over tp and completed by an all-reduce.

    Tables of positions and similar ones are replicated.
    """
    where = _where(frame, call)
    tp = number(frame.par.tp if call.split == "row" else 1.0)
    width, types = call.size("width"), frame.types(call.role)
    rows = _rows(frame, call)
    table = operators.embedding(call.name, rows, call.size("rows") / tp, width, types, **where)
    yield replace(table, weight_bytes=table.weight_bytes / tp)
    if call.split != "row":
        return
    sums = message_bytes(rows, width)
    yield operators.all_reduce(f"{call.name}_all_reduce", sums, frame.par.tp, **where)


def _sum(frame: DeviceFrame, call: ProgramCall) -> Iterator[Op]:
    for op in frame.summed(call.name, call.module):
        yield replace(op, module=call.module)


def _gather(frame: DeviceFrame, call: ProgramCall) -> Iterator[Op]:
    sent = message_bytes(_rows(frame, call), call.size("width"))
    yield operators.all_gather(call.name, sent, frame.par.tp, **_where(frame, call))


def _pipeline(frame: DeviceFrame, call: ProgramCall) -> Iterator[Op]:
    stream = message_bytes(frame.stream_tokens, call.size("width"))
    where = {"stride": frame.pp_stride, **_where(frame, call)}
    yield operators.send_recv(call.name, stream, frame.par.pp, **where)


# ------------------------------------------------------------------------------- mixers


def _convolution(frame: DeviceFrame, call: ProgramCall) -> Iterator[Op]:
    tp = np.minimum(frame.par.tp, call.size("groups", 1.0))
    yield operators.convolution(
        call.name,
        _rows(frame, call),
        call.size("out") / tp,
        call.size("in") / tp,
        call.size("kernel"),
        frame.plain,
        groups=call.size("groups", 1.0) / tp,
        state_sequences=call.size("causal") * frame.sequences,
        **_where(frame, call),
    )


# ------------------------------------------------------------------------------- element by element


def _elements(frame: DeviceFrame, call: ProgramCall) -> Num:
    """Rows of an element-wise operator on one device: divided where its input is."""
    if call.split == "column":
        return _rows(frame, call) / number(frame.par.tp)
    share = frame.stream_tokens / frame.tokens if call.split == "stream" else 1.0
    return _rows(frame, call) * share


def _norm(frame: DeviceFrame, call: ProgramCall) -> Iterator[Op]:
    make = operators.residual_norm if call.operator == "residual_norm" else operators.norm
    rows, width, bias = _elements(frame, call), call.size("width"), bool(call.size("bias"))
    op = make(call.name, rows, width, frame.plain, bias=bias, **_where(frame, call))
    own = call.size("weights", width) * 2.0
    yield replace(op, weight_bytes=own, held_weight_bytes=own)


def _residual(frame: DeviceFrame, call: ProgramCall) -> Iterator[Op]:
    rows, where = _elements(frame, call), _where(frame, call)
    yield operators.residual(call.name, rows, call.size("width"), frame.plain, **where)


def _rope(frame: DeviceFrame, call: ProgramCall) -> Iterator[Op]:
    query = call.size("heads") / number(frame.par.tp)
    keys, dim = frame.shared_heads(call.size("kv_heads")), call.size("dim")
    rows, where = _rows(frame, call), _where(frame, call)
    yield operators.rope(call.name, rows, query, keys, dim, frame.plain, **where)


def _activation(frame: DeviceFrame, call: ProgramCall) -> Iterator[Op]:
    rows, width = _elements(frame, call), call.size("width")
    plain, where = frame.plain, _where(frame, call)
    if call.size("gated"):
        yield operators.gated_activation(call.name, rows, width, plain, **where)
    else:
        cost = call.size("flops", 8.0)
        yield operators.activation(call.name, rows, width, plain, cost=cost, **where)


def _route(frame: DeviceFrame, call: ProgramCall) -> Iterator[Op]:
    sizes = (_rows(frame, call), call.size("experts"))
    yield operators.route(call.name, *sizes, frame.plain, **_where(frame, call))


def _pointwise(frame: DeviceFrame, call: ProgramCall) -> Iterator[Op]:
    yield operators.pointwise(
        call.name,
        "copy",
        _elements(frame, call) * call.size("width"),
        call.size("flops"),
        frame.plain,
        reads=call.size("reads", 1.0),
        writes=call.size("writes", 1.0),
        weights=call.size("weights"),
        **_where(frame, call),
    )


def _sampling(frame: DeviceFrame, call: ProgramCall) -> Iterator[Op]:
    rows, width = _rows(frame, call), call.size("width")
    yield operators.sampling(call.name, rows, width, frame.plain, **_where(frame, call))


def _mixer(frame: DeviceFrame, call: ProgramCall) -> Iterator[Op]:
    yield from mixer_ops(call, frame)


LOWER: Mapping[str, Callable[[DeviceFrame, ProgramCall], Iterator[Op]]] = {
    "gemm": _gemm,
    "grouped_gemm": _grouped_gemm,
    "embedding": _embedding,
    "sum": _sum,
    "gather": _gather,
    "pipeline": _pipeline,
    "mixer": _mixer,
    "convolution": _convolution,
    "norm": _norm,
    "residual_norm": _norm,
    "residual": _residual,
    "rope": _rope,
    "activation": _activation,
    "route": _route,
    "pointwise": _pointwise,
    "sampling": _sampling,
}

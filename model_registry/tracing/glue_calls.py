"""Calls of the operators between products: norms, scans, routers, rotations, activations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from model_registry.tracing.calls import ProgramCall, Split
from model_registry.tracing.grouping import Grouping
from model_registry.tracing.mixers import scan_call
from model_registry.tracing.records import DispatchedOp, DispatchedTensor

_NORMS = frozenset({"native_layer_norm", "_fused_rms_norm", "native_group_norm"})
#: Operators that move data which engines do not move, because a fused kernel works in place.
_MOVES = frozenset(
    (
        *("cat", "copy_", "clone", "_to_copy", "stack", "repeat", "expand_copy", "flip", "roll"),
        *("zeros", "ones", "full", "arange", "empty", "eye", "fill_", "zero_", "tril", "triu"),
        *("zeros_like", "ones_like", "full_like", "new_zeros", "new_full", "new_ones"),
        *("index", "gather", "scatter", "scatter_", "index_select", "index_put_", "index_copy_"),
        *("masked_fill", "masked_fill_", "where", "constant_pad_nd", "slice_scatter"),
        *("select_scatter", "lift_fresh", "bitwise_not"),
    )
)
_ACTIVATIONS: Mapping[str, float] = {
    "silu": 4.0,
    "gelu": 8.0,
    "relu": 1.0,
    "sigmoid": 4.0,
    "tanh": 5.0,
    "relu6": 1.0,
    "softplus": 4.0,
    "pow": 1.0,
    "mish": 8.0,
    "hardtanh": 1.0,
    "elu": 4.0,
    "leaky_relu": 1.0,
}
_REWRITE_OF = {"attention": "rotary", "other": "fused_activation", "scan": "scan"}


def loose_calls(grouping: Grouping, group: list[DispatchedOp]) -> Iterable[ProgramCall]:
    """The calls of the other operators of one module; none where they only move data."""
    kind, module = grouping.module_of[group[0].path]
    work = [r for r in group if r.operator not in _MOVES and r.outputs and r.outputs[0].floating]
    if not work:
        return ()
    if kind == "norm" or any(r.operator in _NORMS for r in work):
        return (_norm(grouping, module, work),)
    if "kv_append" in grouping.setup.without and kind == "attention":
        return _with_copies(grouping, module, work, group)
    if _REWRITE_OF.get(kind) in grouping.setup.without:
        return _raw(grouping, work)
    return _READERS[kind](grouping, module, work)


def _raw(grouping: Grouping, work: list[DispatchedOp]) -> Iterable[ProgramCall]:
    """One call per dispatched operator, which reads its operands and writes its result."""
    for record in work:
        out = record.outputs[0]
        if out.elements and out.elements % grouping.setup.tokens == 0:
            width = float(out.elements // grouping.setup.tokens)
            reads = sum(t.elements for t in record.inputs) / out.elements
            sizes = {"width": width, "flops": 1.0, "reads": reads}
            yield ProgramCall("pointwise", record.operator.strip("_"), record.path, "", sizes=sizes)


def _with_copies(
    grouping: Grouping, module: str, work: list[DispatchedOp], group: list[DispatchedOp]
) -> Iterable[ProgramCall]:
    """The calls of an attention that copies its cache to append, as the reference code does."""
    yield from _around_attention(grouping, module, work)
    for record in group:
        if record.operator == "cat" and record.inputs and record.inputs[0].elements == 0:
            width = float(record.outputs[0].elements // grouping.setup.tokens)
            yield ProgramCall("pointwise", "kv_copy", module, "", "context", sizes={"width": width})


def _norm(grouping: Grouping, module: str, work: list[DispatchedOp]) -> ProgramCall:
    largest = _largest(work)
    weights = [t for r in work for t in r.parameters]
    width = largest.shape[-1]
    rows, times = grouping.setup.rows(largest.elements / width)
    bias = any(t.parameter.endswith("bias") for t in weights)
    elements = sum(t.elements for t in {t.parameter: t for t in weights}.values())
    sizes = {"width": float(width), "bias": float(bias), "weights": float(elements)}
    parameter = weights[0].parameter if weights else ""
    inside = times > 1 or any(grouping.kind(above) == "scan" for above in _above(module))
    alone: Split = "stream" if width == grouping.setup.hidden else "none"
    split: Split = "column" if inside else alone
    return ProgramCall(
        "norm",
        module.rpartition(".")[2],
        module,
        "default",
        rows,
        times,
        sizes,
        split,
        weight=parameter,
    )


def _scan(grouping: Grouping, module: str, work: list[DispatchedOp]) -> Iterable[ProgramCall]:
    call = scan_call(grouping.setup.module(module), module)
    return () if call is None else (call,)


def _route(grouping: Grouping, module: str, work: list[DispatchedOp]) -> Iterable[ProgramCall]:
    choice = next((r for r in reversed(work) if r.operator == "topk"), work[-1])
    scores = choice.inputs[0] if choice.operator == "topk" else choice.outputs[0]
    experts = float(scores.shape[-1])
    yield ProgramCall("route", "route", module, "router", sizes={"experts": experts})


def _around_attention(
    grouping: Grouping, module: str, work: list[DispatchedOp]
) -> Iterable[ProgramCall]:
    record = grouping.attention[module]
    query, key = record.inputs[0], record.inputs[1]
    gate = next((r for r in work if r.operator in ("sigmoid", "silu")), None)
    if gate is not None:
        rows, times = grouping.setup.rows(gate.outputs[0].elements / gate.outputs[0].shape[-1])
        sizes = {"width": float(gate.outputs[0].shape[-1]), "gated": 1.0}
        yield ProgramCall("activation", "output_gate", module, "", rows, times, sizes, "column")
        return
    angles = [t for r in work if r.operator == "mul" for t in _broadcast(r)]
    if angles and not _after(grouping.segment.records, record, work):
        sizes = {
            "heads": query.shape[1],
            "kv_heads": key.shape[1],
            "dim": min(angles[0].shape[-1], query.shape[-1]),
        }
        numbers = {name: float(value) for name, value in sizes.items()}
        yield ProgramCall("rope", "rope", module, sizes=numbers)


def _loose(grouping: Grouping, module: str, work: list[DispatchedOp]) -> Iterable[ProgramCall]:
    """The call of an activation, a residual addition or other operators between products."""
    largest = _largest(work)
    if not largest.shape or largest.elements % max(grouping.setup.tokens, 1):
        return
    width = float(largest.shape[-1])
    rows, times = grouping.setup.rows(largest.elements / width)
    cost = sum(_ACTIVATIONS.get(r.operator, 0.0) for r in work)
    names = {r.operator.rstrip("_") for r in work}
    if cost and grouping.module_of[work[0].path][0] == "other":
        gated = "mul" in names
        sizes = {"width": width, "gated": float(gated), "flops": cost}
        yield ProgramCall("activation", "activation", module, "", rows, times, sizes, "column")
    elif names <= {"add"}:
        yield ProgramCall("residual", "residual", module, "", rows, times, {"width": width})
    else:
        flops = sum(r.outputs[0].elements for r in work) / largest.elements
        sizes = {"width": width, "flops": flops}
        yield ProgramCall("pointwise", "pointwise", module, "", rows, times, sizes)


_READERS: Mapping[str, Callable[[Grouping, str, list[DispatchedOp]], Iterable[ProgramCall]]] = {
    "scan": _scan,
    "router": _route,
    "attention": _around_attention,
    "indexer": lambda grouping, module, work: (),
    "layer": _loose,
    "other": _loose,
}


def _above(path: str) -> list[str]:
    """Paths of the modules around the one at `path`."""
    steps = path.split(".")
    return [".".join(steps[:end]) for end in range(1, len(steps))]


def _largest(work: list[DispatchedOp]) -> DispatchedTensor:
    return max((r.outputs[0] for r in work), key=lambda tensor: tensor.elements)


def _broadcast(record: DispatchedOp) -> list[DispatchedTensor]:
    """The operands of a product that are smaller than its result, such as cosines and sines."""
    size = record.outputs[0].elements
    return [t for t in record.inputs if t.shape and t.elements < size and len(t.shape) > 1]


def _after(
    records: tuple[DispatchedOp, ...], anchor: DispatchedOp, work: list[DispatchedOp]
) -> bool:
    """Whether `work` ran after `anchor`."""
    order = {id(record): position for position, record in enumerate(records)}
    return order[id(work[0])] > order[id(anchor)]

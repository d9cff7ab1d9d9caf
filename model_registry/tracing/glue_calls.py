"""What runs between the products of a layer: norms, scans, routers, rotations, activations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from model_registry.tracing.calls import Call
from model_registry.tracing.grouping import Units
from model_registry.tracing.mixers import scan_call
from model_registry.tracing.records import Record, Tensor

_NORMS = frozenset({"native_layer_norm", "_fused_rms_norm", "native_group_norm"})
#: Moves data that engines do not move: a fused kernel reads and writes in place.
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


def loose_calls(units: Units, group: list[Record]) -> Iterable[Call]:
    """The calls of records that ran loose in one unit; none where they only move data."""
    kind, unit = units.of[group[0].path]
    work = [r for r in group if r.operator not in _MOVES and r.outputs and r.outputs[0].floating]
    if not work:
        return ()
    if kind == "norm" or any(r.operator in _NORMS for r in work):
        return (_norm(units, unit, work),)
    if "kv_append" in units.scene.without and kind == "attention":
        return _with_copies(units, unit, work, group)
    if _REWRITE_OF.get(kind) in units.scene.without:
        return _raw(units, work)
    return _READERS[kind](units, unit, work)


def _raw(units: Units, work: list[Record]) -> Iterable[Call]:
    """Every dispatched operator by itself: it reads its operands and writes its result."""
    for record in work:
        out = record.outputs[0]
        if out.elements and out.elements % units.scene.tokens == 0:
            width = float(out.elements // units.scene.tokens)
            reads = sum(t.elements for t in record.inputs) / out.elements
            sizes = {"width": width, "flops": 1.0, "reads": reads}
            yield Call("pointwise", record.operator.strip("_"), record.path, "", sizes=sizes)


def _with_copies(
    units: Units, unit: str, work: list[Record], group: list[Record]
) -> Iterable[Call]:
    """The cache as the reference keeps it: the old and the new concatenated each time."""
    yield from _around_attention(units, unit, work)
    for record in group:
        if record.operator == "cat" and record.inputs and record.inputs[0].elements == 0:
            width = float(record.outputs[0].elements // units.scene.tokens)
            yield Call("pointwise", "kv_copy", unit, "", "context", sizes={"width": width})


def _norm(units: Units, unit: str, work: list[Record]) -> Call:
    largest = _largest(work)
    weights = [t for r in work for t in r.parameters]
    width = largest.shape[-1]
    rows, times = units.scene.rows(largest.elements / width)
    bias = any(t.parameter.endswith("bias") for t in weights)
    held = sum(t.elements for t in {t.parameter: t for t in weights}.values())
    sizes = {"width": float(width), "bias": float(bias), "weights": float(held)}
    own = weights[0].parameter if weights else ""
    inside = times > 1 or any(units.kind(above) == "scan" for above in _above(unit))
    alone = "stream" if width == units.scene.hidden else "none"
    split = "column" if inside else alone
    return Call(
        "norm", unit.rpartition(".")[2], unit, "default", rows, times, sizes, split, weight=own
    )


def _scan(units: Units, unit: str, work: list[Record]) -> Iterable[Call]:
    call = scan_call(units.scene.module(unit), unit)
    return () if call is None else (call,)


def _route(units: Units, unit: str, work: list[Record]) -> Iterable[Call]:
    choice = next((r for r in reversed(work) if r.operator == "topk"), work[-1])
    scores = choice.inputs[0] if choice.operator == "topk" else choice.outputs[0]
    sizes = {"experts": float(scores.shape[-1]), "top_k": float(choice.outputs[0].shape[-1])}
    yield Call("route", "route", unit, "router", sizes=sizes)


def _around_attention(units: Units, unit: str, work: list[Record]) -> Iterable[Call]:
    record = units.attention[unit]
    query, key = record.inputs[0], record.inputs[1]
    gate = next((r for r in work if r.operator in ("sigmoid", "silu")), None)
    if gate is not None:
        rows, times = units.scene.rows(gate.outputs[0].elements / gate.outputs[0].shape[-1])
        sizes = {"width": float(gate.outputs[0].shape[-1]), "gated": 1.0}
        yield Call("activation", "output_gate", unit, "", rows, times, sizes, "column")
        return
    angles = [t for r in work if r.operator == "mul" for t in _broadcast(r)]
    if angles and not _after(units.segment.records, record, work):
        sizes = {
            "heads": query.shape[1],
            "kv_heads": key.shape[1],
            "dim": min(angles[0].shape[-1], query.shape[-1]),
        }
        numbers = {name: float(value) for name, value in sizes.items()}
        yield Call("rope", "rope", unit, sizes=numbers)


def _loose(units: Units, unit: str, work: list[Record]) -> Iterable[Call]:
    """Activations, residual additions, and whatever else ran between modules."""
    largest = _largest(work)
    if not largest.shape or largest.elements % max(units.scene.tokens, 1):
        return
    width = float(largest.shape[-1])
    rows, times = units.scene.rows(largest.elements / width)
    cost = sum(_ACTIVATIONS.get(r.operator, 0.0) for r in work)
    names = {r.operator.rstrip("_") for r in work}
    if cost and units.of[work[0].path][0] == "other":
        gated = "mul" in names
        sizes = {"width": width, "gated": float(gated), "flops": cost}
        yield Call("activation", "activation", unit, "", rows, times, sizes, "column")
    elif names <= {"add"}:
        yield Call("residual", "residual", unit, "", rows, times, {"width": width})
    else:
        flops = sum(r.outputs[0].elements for r in work) / largest.elements
        sizes = {"width": width, "flops": flops}
        yield Call("pointwise", "pointwise", unit, "", rows, times, sizes)


_READERS: Mapping[str, Callable[[Units, str, list[Record]], Iterable[Call]]] = {
    "scan": _scan,
    "router": _route,
    "attention": _around_attention,
    "indexer": lambda units, unit, work: (),
    "layer": _loose,
    "other": _loose,
}


def _above(path: str) -> list[str]:
    """Paths of the modules around the one at `path`."""
    steps = path.split(".")
    return [".".join(steps[:end]) for end in range(1, len(steps))]


def _largest(work: list[Record]) -> Tensor:
    return max((r.outputs[0] for r in work), key=lambda tensor: tensor.elements)


def _broadcast(record: Record) -> list[Tensor]:
    """Operands of a product that are smaller than its result: cosines and sines."""
    size = record.outputs[0].elements
    return [t for t in record.inputs if t.shape and t.elements < size and len(t.shape) > 1]


def _after(records: tuple[Record, ...], anchor: Record, work: list[Record]) -> bool:
    """Whether `work` ran after `anchor`."""
    order = {id(record): position for position, record in enumerate(records)}
    return order[id(work[0])] > order[id(anchor)]

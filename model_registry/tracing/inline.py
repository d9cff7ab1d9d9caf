"""Attention written as two products and a softmax, found in a segment's records."""

from __future__ import annotations

from dataclasses import replace

from model_registry.tracing.records import DispatchedOp, DispatchedTensor, Segment

_PRODUCTS = frozenset({"bmm", "baddbmm", "matmul"})


def with_attention(segment: Segment, batch: int) -> Segment:
    """`segment` with scores, softmax and values of each module joined to an attention record."""
    records = list(segment.records)
    for at, record in enumerate(segment.records):
        if record.operator == "_softmax":
            scores = _product(segment.records[:at][::-1], record.path)
            values = _product(segment.records[at:], record.path)
            if scores is not None and values is not None:
                fused = _fused(segment.records, scores, values, batch)
                gone = {id(scores), id(values), id(record)}
                records[next(i for i, entry in enumerate(records) if entry is values)] = fused
                records = [entry for entry in records if id(entry) not in gone]
    return replace(segment, records=tuple(records))


def _product(records: tuple[DispatchedOp, ...], path: str) -> DispatchedOp | None:
    """The first product of two activations in the module at `path`."""
    for record in records:
        if record.path == path and record.operator in _PRODUCTS:
            return None if record.parameters else record
        if record.path == path and record.operator in ("attention", "mm", "addmm"):
            return None
    return None


def _fused(
    records: tuple[DispatchedOp, ...], scores: DispatchedOp, values: DispatchedOp, batch: int
) -> DispatchedOp:
    """The attention record of two products: q, k, v as [batch, heads, tokens, dim]."""
    left, right = (t.shape for t in scores.inputs[-2:])
    width = values.outputs[0].shape[-1]
    heads, kept = left[0] // batch, _cached_heads(records, scores.path)
    shapes = (
        (batch, heads, left[1], left[2]),
        (batch, kept or heads, right[2], left[2]),
        (batch, kept or heads, right[2], width),
    )
    inputs = tuple(DispatchedTensor(shape, 0) for shape in shapes)
    facts = {"causal": 1.0, "window": 0.0}
    return DispatchedOp(scores.path, "attention", inputs, values.outputs, facts)


def _cached_heads(records: tuple[DispatchedOp, ...], path: str) -> int:
    """Heads of the keys that the module at `path` appended to its cache, 0 for none."""
    for record in records:
        if record.path == path and record.operator == "cat" and len(record.inputs) == 2:
            shape = record.inputs[1].shape
            if record.inputs[0].elements == 0 and len(shape) == 4:
                return shape[1]
    return 0

"""FLOPs and bytes of recorded tensor operators, and of a whole module as one fused operator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import prod

from genz_core.operators import activated_experts, attended_pairs
from model_registry.tracing.records import DispatchedOp, DispatchedTensor

ELEMENT_BYTES = 2  # tracing uses 16-bit tensors
_PRODUCTS = frozenset({"mm", "addmm", "bmm", "baddbmm", "mv", "dot", "matmul"})
#: FLOPs per element of the result; other operators that compute count one.
_PER_ELEMENT: Mapping[str, int] = {
    "silu": 4,
    "gelu": 8,
    "sigmoid": 4,
    "tanh": 5,
    "softplus": 4,
    "_softmax": 5,
    "_log_softmax": 5,
    "native_layer_norm": 7,
    "_fused_rms_norm": 4,
    "_safe_softmax": 5,
    "native_batch_norm": 2,
    "native_group_norm": 7,
    "rsqrt": 1,
}
_REDUCTIONS = frozenset(
    (
        *("sum", "mean", "cumsum", "amax", "max", "topk", "sort", "var", "argmax", "norm"),
        *("avg_pool2d", "avg_pool3d", "max_pool2d_with_indices", "max_pool3d_with_indices"),
        *("_adaptive_avg_pool2d", "_adaptive_avg_pool3d", "adaptive_max_pool2d"),
        *("adaptive_max_pool3d", "linalg_vector_norm"),
    )
)
#: Operators of a difference, its power or logarithm, and a sum: FLOPs per element of the input.
_LOSSES = frozenset(
    (
        *("mse_loss", "huber_loss", "smooth_l1_loss", "soft_margin_loss", "binary_cross_entropy"),
        "binary_cross_entropy_with_logits",
    )
)
_MOVES = frozenset(
    (
        *("cat", "copy_", "clone", "_to_copy", "embedding", "index", "gather", "where", "fill_"),
        *("scatter", "scatter_", "zeros", "ones", "full", "arange", "zeros_like", "ones_like"),
        *("pixel_shuffle", "pixel_unshuffle", "channel_shuffle", "im2col", "col2im"),
        *("reflection_pad1d", "reflection_pad2d", "reflection_pad3d", "unsafe_split"),
        *("replication_pad1d", "replication_pad2d", "replication_pad3d", "_embedding_bag"),
        *("masked_fill", "repeat", "stack", "constant_pad_nd", "index_select", "bitwise_not"),
    )
)


def flops(record: DispatchedOp) -> float:
    """FLOPs of a record: a multiply-add is two, causal attention counts the pairs it attends to."""
    out = record.outputs[0].elements if record.outputs else 0
    name = record.operator
    if name not in _MOVES and not name.startswith("__"):
        name = name.rstrip("_")  # in place
    if name == "attention":
        return _attention(record)
    if name == "experts":
        return _experts(record)[0]
    if name in _PRODUCTS:
        factors = [tensor for tensor in record.inputs if len(tensor.shape) >= 1][-2:]
        bias = out if name in ("addmm", "baddbmm") else 0
        return 2.0 * out * factors[0].shape[-1] + bias
    if name == "convolution":
        weight = record.inputs[1].shape
        bias = out if len(record.inputs) > 2 else 0
        rows = record.inputs[0].elements if record.facts.get("transposed") else out
        return 2.0 * rows * prod(weight[1:]) + bias
    if name == "_trilinear":  # a row times a matrix for each output, then times the other row
        weight = record.inputs[1].shape
        return 2.0 * out * (weight[-2] + 1.0) * weight[-1]
    if name in _MOVES or not record.outputs or not record.outputs[0].floating:
        return 0.0
    if name in _LOSSES:
        return 3.0 * record.inputs[0].elements
    if name in _REDUCTIONS:
        return float(record.inputs[0].elements)
    return float(_PER_ELEMENT.get(name, 1) * out)


def _attention(record: DispatchedOp) -> float:
    query, key, value = (tensor.shape for tensor in record.inputs[:3])
    new, cached = query[2], key[2] - query[2]
    if record.facts["causal"]:
        pairs = float(attended_pairs(new, cached, record.facts["window"]))
    else:
        pairs = float(new * key[2])
    return 2.0 * query[0] * query[1] * pairs * (query[3] + value[3])


def _experts(record: DispatchedOp) -> tuple[float, float]:
    """(FLOPs, bytes of the weights that the tokens are expected to reach)."""
    tokens, width = record.inputs[0].shape
    facts = record.facts
    each = (2.0 + facts["gated"]) * width * facts["intermediate"]
    reached = float(activated_experts(facts["experts"], facts["top_k"], tokens))
    return 2.0 * tokens * facts["top_k"] * each, reached * each * ELEMENT_BYTES


def _read(tensor: DispatchedTensor, record: DispatchedOp) -> float:
    if record.operator == "embedding" and tensor.parameter:
        return float(record.outputs[0].elements * ELEMENT_BYTES)
    return float(tensor.elements * ELEMENT_BYTES)


def figures(records: Sequence[DispatchedOp]) -> dict[str, float]:
    """FLOPs and bytes of a module's records as one fused operator, by `entry.FIGURES`.

    Read: parameters and external tensors, each once.  Written: results that no operator of the
    module reads.  Intermediate: results that another operator of the module reads.
    """
    read: dict[tuple[int, int], float] = {}
    left: dict[int, float] = {}
    made: set[int] = set()
    inside = 0.0
    for record in records:
        for tensor in record.inputs:
            left.pop(tensor.storage, None)
            if tensor.storage in made:
                inside += tensor.elements * ELEMENT_BYTES
            elif record.operator == "experts" and tensor.parameter:
                read[record.inputs[1].storage, 0] = _experts(record)[1]
            else:
                size = _read(tensor, record)
                part = tensor.storage, tensor.offset
                read[part] = max(read.get(part, 0.0), size)
        made |= {tensor.storage for tensor in record.outputs}
        for tensor in record.outputs[: 1 if "norm" in record.operator else None]:
            left[tensor.storage] = float(tensor.elements * ELEMENT_BYTES)
    return {
        "flops": sum(flops(record) for record in records),
        "read_bytes": sum(read.values()),
        "write_bytes": sum(left.values()),
        "intermediate_bytes": inside,
    }


def operator_counts(records: Sequence[DispatchedOp]) -> dict[str, int]:
    """{name: runs} of the tensor operators among records."""
    return dict(Counter(record.operator for record in records))

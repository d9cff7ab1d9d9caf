"""One operator in detail: the formula of its FLOPs with numbers inserted, and its tensors."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from app.wording import quantities
from genz_core.common.registry import KINDS
from genz_core.graphs import Graph, Op
from genz_core.precision import bytes_of
from genz_core.steps.step_estimate import StepEstimate
from genz_core.types import scalar

_SCORES = "2 × {sequences} × {pairs} × {heads} × {head_dim} / {ratio}"
_PER_ELEMENT = "{elements} × {per_element}"
_MEANINGS: Mapping[str, str] = {
    "m": "rows (tokens)",
    "n": "output features",
    "k": "input features",
    "pairs": "(query, key) pairs of one sequence, causal and windowed exactly",
    "rows": "token-expert pairs on this device",
    "matrices": "of an expert: up, down, and gate where there is one",
    "per_element": "FLOPs an element",
    "ratio": "tokens that one index key stands for; scores alone, no second product",
}


@dataclass(frozen=True, slots=True)
class FlopsFormula:
    """The formula of the FLOPs of one run: in symbols, in numbers, and the symbols' meanings."""

    symbols: str
    numbers: str
    meanings: str


@dataclass(frozen=True, slots=True)
class TensorTraffic:
    """A tensor moved through memory in one run: name, shape, number format and bytes."""

    tensor: str
    shape: str
    format: str
    bytes: float


def mean_run(step: StepEstimate, row: int) -> Op:
    """An operator of a step of one configuration, its numbers averaged over the contexts of a mean
    decode step; those of the first chunk where a prompt has several.
    """
    op, weights = step.op(row), step.node_weights
    if weights is None or not math.isclose(float(weights[:, 0].sum()), 1.0):
        return op

    def mean(value: Any) -> Any:
        return float(np.ravel(value) @ weights[:, 0]) if np.size(value) > 1 else value

    numbers = {
        one.name: mean(getattr(op, one.name))
        for one in fields(op)
        if isinstance(getattr(op, one.name), np.ndarray)
    }
    return replace(op, **numbers, dims={name: mean(value) for name, value in op.dims.items()})


def mean_graph(step: StepEstimate) -> Graph:
    """The graph of a step of one configuration with the operators of `mean_run`."""
    graph = step.graph
    return replace(graph, ops=tuple(mean_run(step, row) for row in range(len(graph.ops))))


def flops_formula(op: Op) -> FlopsFormula | None:
    """The formula for the FLOPs of an operator's run; None if it does no arithmetic."""
    flops, sizes = scalar(op.flops), {name: scalar(value) for name, value in op.dims.items()}
    if not flops:
        return None
    pattern = KINDS[op.kind].flops or _PER_ELEMENT
    if op.kind == "moe":
        sizes["matrices"] = 2.0 + sizes["gated"]
    elif op.name.startswith("indexer_scores"):
        pattern, per_key = _SCORES, sizes["sequences"] * sizes["pairs"] * sizes["heads"]
        sizes["ratio"] = 2.0 * per_key * sizes["head_dim"] / flops
    elif pattern == _PER_ELEMENT:
        sizes["per_element"] = flops / sizes["elements"]
    elif {"m", "n", "k"} <= sizes.keys() and flops > 2.0 * sizes["m"] * sizes["n"] * sizes["k"]:
        pattern += " + {m} × {n}"  # the bias
    used = [name for name in sizes if f"{{{name}}}" in pattern]
    meanings = [f"{name}: {_MEANINGS[name]}" for name in used if name in _MEANINGS]
    return FlopsFormula(
        pattern.replace("{", "").replace("}", ""),
        pattern.format(**{name: _written(sizes[name]) for name in used}),
        "; ".join(meanings),
    )


def _written(value: float) -> str:
    """Whole numbers in full, others with as many digits as needed to distinguish them."""
    return f"{value:,.0f}" if value == round(value) else f"{value:,.12g}"


def tensor_traffic(op: Op) -> list[TensorTraffic]:
    """The tensors that one run reads, writes or sends, without empty ones."""
    shapes = _shapes(op)
    state = "fp32 state" if op.kind in ("ssm", "linear_attention") else op.kv
    moved = [
        TensorTraffic("weights", shapes.get("weights", ""), op.weights, scalar(op.weight_bytes)),
        TensorTraffic("input", shapes.get("input", ""), op.activations, scalar(op.input_bytes)),
        TensorTraffic("cache, read", shapes.get("cache", ""), state, scalar(op.kv_read_bytes)),
        TensorTraffic("cache, written", shapes.get("cache", ""), state, scalar(op.kv_write_bytes)),
        TensorTraffic("output", shapes.get("output", ""), op.activations, scalar(op.output_bytes)),
        TensorTraffic("message", "", op.activations, scalar(op.message_bytes)),
    ]
    return [tensor for tensor in moved if tensor.bytes]


def tensor_rows(op: Op) -> list[dict[str, str]]:
    """Rows of `tensor_traffic` for a reader: name, shape, number format, bytes in words."""
    return [
        {
            "tensor": tensor.tensor,
            "shape": tensor.shape,
            "format": tensor.format,
            "moved": quantities.size(tensor.bytes),
        }
        for tensor in tensor_traffic(op)
    ]


def _shapes(op: Op) -> dict[str, str]:
    """Shapes by tensor, in the order that `genz_core.operators` documents."""
    d = {name: scalar(value) for name, value in op.dims.items()}
    if op.kind in ("gemm", "einsum", "convolution"):
        return {
            "weights": _shape(d["k"], d["n"]),
            "input": _shape(d["m"], d["k"]),
            "output": _shape(d["m"], d["n"]),
        }
    if op.operator_class == "attention":
        rows = (d["sequences"], d["new_tokens"])
        cached = _shape(d["sequences"], d["cached_tokens"], d["kv_heads"], d["head_dim"])
        return {
            "input": f"q {_shape(*rows, d['heads'], d['head_dim'])}, "
            f"new k, v {_shape(*rows, d['kv_heads'], d['head_dim'])}",
            "cache": f"{'latent' if d['shared_kv'] else 'k, v'} {cached}",
            "output": _shape(*rows, d["heads"], d["value_dim"]),
        }
    if op.kind == "moe":
        matrices, inner = 2.0 + d["gated"], _shape(d["hidden"], d["intermediate"])
        return {
            "weights": f"{d['active_experts']:.4g} of "
            f"{quantities.count(round(d['experts'] + d.get('shared_experts', 0.0)))} "
            f"experts × {matrices:.0f} {inner}",
            "input": _shape(d["tokens"], d["hidden"]),
            "output": _shape(d["tokens"], d["hidden"]),
        }
    if op.kind == "ssm":
        return {"cache": _shape(d["sequences"], d["channels"], d["state"])}
    if op.kind == "linear_attention":
        return {"cache": _shape(d["sequences"], d["heads"], d["key_dim"], d["value_dim"])}
    if op.kind == "embedding":
        return {"output": _shape(d["tokens"], d["width"])}
    if "elements" in d:
        each = d["elements"] * bytes_of(op.activations)
        return {
            name: f"{scalar(moved) / each:.3g} × {_shape(d['elements'])}"
            for name, moved in (("input", op.input_bytes), ("output", op.output_bytes))
        }
    return {}


def _shape(*sizes: float) -> str:
    return "[" + ", ".join(_written(size) for size in sizes) + "]"

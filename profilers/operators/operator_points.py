"""Calibration points from reports: kernels of operators whose shapes a trace records.

Covers matrix products, attention and element-wise passes over 16-bit tensors.  Left out are:
kernels in a CUDA graph, which have no shapes (matrix products take them from another trace of the
same model); batched products and attention over prompts of unequal lengths, which the dimensions of
`OperatorPoints` cannot express; 8-bit products, which are priced together with the separate kernel
that quantises their input; and experts, because no shape records the routing.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from genz_core.errors import ReportError
from genz_core.latency.measured_operators import OperatorPoints
from profilers.operators.gemms import gemm_shape, gemm_table_of_graph, is_shape
from profilers.schema import Report

_HALF = frozenset({"c10::BFloat16", "c10::Half"})
#: Kernels that only combine the partial results of an operator that was split.
_GATHERS = re.compile(r"reduce|combine", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class OperatorTiming:
    """Median time of an operator at a shape.

    operator, fmt, dims: as in `OperatorPoints`.  time_s: of one call, the median.
    calls: how often it ran.  name: of the framework's operator.
    """

    operator: str
    fmt: str
    dims: Mapping[str, float]
    time_s: float
    calls: int
    name: str

    @property
    def shape(self) -> str:
        return " ".join(f"{name}={value:g}" for name, value in self.dims.items())


def operator_timings(reports: Sequence[Report]) -> tuple[OperatorTiming, ...]:
    """Timings of the operators in reports of one device, largest total time first.

    Raises:
        ReportError: no kernel records the shapes of its operator.
    """
    by_report = [(report, _timings(report)) for report in reports]
    timings = [timing for _, own_timings in by_report for timing in own_timings]
    for report, own in by_report:
        if bool(report.kernels["in_graph"].fillna(False).any()):
            borrowed = _borrowed_products(
                report, [other for other in by_report if other[0] is not report]
            )
            own_dims = [timing.dims for timing in own]  # kernels that ran outside the graph
            timings += [timing for timing in borrowed if timing.dims not in own_dims]
    if not timings:
        labels = ", ".join(report.label for report in reports)
        raise ReportError(
            f"no kernel of {labels} has operand shapes; give a PyTorch trace taken with "
            "record_shapes=True, and for CUDA graphs a second trace of the same model without "
            "graphs"
        )
    return tuple(sorted(timings, key=lambda timing: -timing.time_s * timing.calls))


def operator_points(timings: Iterable[OperatorTiming], source: str) -> tuple[OperatorPoints, ...]:
    """Timings as `OperatorPoints`, one entry per operator class and format.

    source: where the points come from, in words.
    """
    groups: dict[tuple[str, str], list[OperatorTiming]] = {}
    for timing in timings:
        groups.setdefault((timing.operator, timing.fmt), []).append(timing)
    return tuple(
        OperatorPoints(
            *key,
            {name: np.array([timing.dims[name] for timing in group]) for name in group[0].dims},
            np.array([timing.time_s for timing in group]),
            warm_cache=key[0] == "pointwise",
            source=source,
        )
        for key, group in groups.items()
    )


def _timings(report: Report) -> list[OperatorTiming]:
    """Timings of the kernels that are linked to an operator with shapes."""
    linked = report.kernels.dropna(subset=["operator", "input_shapes", "input_types"])
    keys = ["operator", "input_shapes", "input_types", "input_values"]
    timings = []
    for (name, *texts), kernels in linked.groupby(keys, observed=True, dropna=False):
        call = _Call(str(name), *(_list(text) for text in texts))
        described = next(filter(None, (reader(call) for reader in _READERS)), None)
        if described is not None:
            timings.append(OperatorTiming(*described, *_time_of_a_call(kernels), call.name))
    return timings


def _time_of_a_call(kernels: pd.DataFrame) -> tuple[float, int]:
    """Median seconds of a call, which may launch several kernels, and the number of calls."""
    by_name = kernels.groupby("name", observed=True)["duration_s"].agg(["median", "count"])
    gathers = np.array([bool(_GATHERS.search(str(name))) for name in by_name.index])
    counts = by_name["count"].to_numpy()
    calls = int(counts[~gathers].sum()) or int(counts.max())
    return float((by_name["median"].to_numpy() * counts).sum()) / calls, calls


def _borrowed_products(
    graph: Report, others: Sequence[tuple[Report, Sequence[OperatorTiming]]]
) -> list[OperatorTiming]:
    """Matrix products of a decode step in a graph, with the shapes of an eager trace.

    others: eager traces with their timings; only products that occur in these count.
    """
    for eager, timings in others:
        try:
            table = gemm_table_of_graph(graph, eager)
        except ReportError:
            continue
        eager_products = {
            (timing.name, 1, timing.dims["n"], timing.dims["k"])
            for timing in timings
            if timing.operator == "gemm"
        }
        return [
            OperatorTiming(
                "gemm", "bf16", {axis: float(row[axis]) for axis in "mnk"},
                row["time_s"] / row["count"], int(row["count"]), str(row["operator"]),
            )
            for row in table.to_dict("records")
            if tuple(row[key] for key in ("operator", "batch", "n", "k")) in eager_products
        ]  # fmt: skip
    return []


# ------------------------------------------------------------------------------- the operators


@dataclass(frozen=True, slots=True)
class _Call:
    """An operator with the shapes, types and plain values of its inputs."""

    name: str
    shapes: list[Any]
    types: list[Any]
    values: list[Any]

    def tensors(self) -> list[tuple[list[int], str]]:
        """(sizes, type) of each input that is a tensor."""
        pairs = zip(self.shapes, self.types, strict=False)
        return [(sizes, str(kind)) for sizes, kind in pairs if is_shape(sizes)]

    def whole(self, at: int) -> int:
        """The integer at an input's position, 0 where there is none."""
        text = str(self.values[at]) if at < len(self.values) else ""
        return int(text) if text.isdecimal() and len(text) < 13 else 0


_Described = tuple[str, str, dict[str, float]]


def _list(text: Any) -> list[Any]:
    """A list from its JSON; empty for anything else."""
    value = json.loads(text) if isinstance(text, str) else []
    return value if isinstance(value, list) else []


def _product(call: _Call) -> _Described | None:
    """x[m, k] @ w[k, n] over 16-bit operands; None for others."""
    shape = gemm_shape(call.name, json.dumps(call.shapes))
    types = [kind for _, kind in call.tensors()]
    if shape is None or shape[0] != 1 or not set(types) <= _HALF:
        return None
    return "gemm", "bf16", dict(zip("mnk", map(float, shape[1:]), strict=True))


@dataclass(frozen=True, slots=True)
class _Attention:
    """Layout of an attention operator: the axes of heads and tokens in its tensors, and the
    positions of the sequence bounds, longest sequence and causal flag among its inputs; -1 for
    none.
    """

    causal: int
    heads: int = 2
    tokens: int = 1
    bounds: int = -1
    longest: int = -1
    causal_value: str = "True"


#: Signatures: torch, native_functions.yaml; flash-attn, flash_attn_interface.py; aiter, ops/mha.py.
_ATTENTIONS: Mapping[str, _Attention] = {
    "aten::_flash_attention_forward": _Attention(8, bounds=3, longest=5),
    "aten::_efficient_attention_forward": _Attention(9, bounds=4, longest=6, causal_value="1"),
    "aten::_cudnn_attention_forward": _Attention(10, heads=1, tokens=2, bounds=4, longest=6),
    "aten::_scaled_dot_product_cudnn_attention": _Attention(6, heads=1, tokens=2),
    "flash_attn::_flash_attn_forward": _Attention(5),
    "flash_attn::_flash_attn_varlen_forward": _Attention(9, bounds=3, longest=5),
    "aiter::mha_batch_prefill": _Attention(12, bounds=3, longest=6),
}


def _attention(call: _Call) -> _Described | None:
    """Causal prefill or decode attention over sequences of equal length; None for others."""
    place, tensors = _ATTENTIONS.get(call.name), call.tensors()[:3]
    if place is None or len(tensors) < 3 or not {kind for _, kind in tensors} <= _HALF:
        return None
    q, k, v = (sizes for sizes, _ in tensors)
    lengths = _packed(call, place, q[0], k[0]) if len(q) == 3 else _padded(place, q, k)
    if lengths is None or not len(q) == len(k) == len(v):
        return None
    sequences, new, context = lengths
    heads = -2 if len(q) == 3 else place.heads
    flag = str(call.values[place.causal]) if place.causal < len(call.values) else ""
    if context < new or (new > 1 and flag != place.causal_value):
        return None
    dims = {
        "sequences": sequences, "new_tokens": new, "cached_tokens": context - new,
        "heads": q[heads], "kv_heads": k[heads], "head_dim": q[-1], "value_dim": v[-1],
    }  # fmt: skip
    kind = "decode_attention" if new == 1 else "prefill_attention"
    return kind, "bf16/bf16", {name: float(value) for name, value in dims.items()}


def _padded(place: _Attention, q: list[int], k: list[int]) -> tuple[int, int, int] | None:
    """(sequences, new tokens, context) of tensors that have an axis of sequences."""
    if len(q) != 4 or len(k) != 4 or q[0] != k[0]:
        return None
    return q[0], q[place.tokens], k[place.tokens]


def _packed(call: _Call, place: _Attention, rows: int, keys: int) -> tuple[int, int, int] | None:
    """(sequences, new tokens, context) of packed sequences of equal length; None where lengths
    differ.

    rows, keys: rows of the query and key tensors.  Without a cache, keys are as many as queries.
    """
    bounds = call.shapes[place.bounds] if 0 <= place.bounds < len(call.shapes) else None
    if bounds is None or not is_shape(bounds) or len(bounds) != 1:
        return None
    sequences, new = bounds[0] - 1, call.whole(place.longest)
    context = call.whole(place.longest + 1)
    if sequences < 1 or new < 1 or sequences * new != rows:
        return None
    if context != new and sequences * context != keys:
        return None
    return sequences, new, context


#: Operators whose inputs include everything that they read and write, outputs among them.
_IN_PLACE = re.compile(
    r"::(rmsnorm|add_rmsnorm|rms_norm|silu_and_mul|gelu_and_mul|gelu_tanh_and_mul|copy_)$"
)
#: Operators that overwrite two of their inputs, which therefore cross memory twice.
_OVER_INPUTS = re.compile(r"::(fused_add_rms_norm|fused_add_rmsnorm)$")
#: Element-wise operators of torch that return a tensor like their operands.
_FRESH = re.compile(r"^aten::(add|sub|mul|div|silu|gelu|relu|sigmoid|tanh|neg)$")


def _pass(call: _Call) -> _Described | None:
    """An element-wise pass over 16-bit tensors, each of which crosses memory once."""
    tensors = call.tensors()
    if not tensors or not {kind for _, kind in tensors} <= _HALF:
        return None
    sizes = [2.0 * math.prod(shape) for shape, _ in tensors]
    if _FRESH.search(call.name) and len({tuple(shape) for shape, _ in tensors}) == 1:
        moved = sum(sizes) + sizes[0]
    elif _IN_PLACE.search(call.name):
        moved = sum(sizes)
    elif _OVER_INPUTS.search(call.name):
        moved = sum(sizes) + sum(sizes[:2])
    else:
        return None
    return "pointwise", "default", {"bytes": moved}


_READERS: tuple[Callable[[_Call], _Described | None], ...] = (_product, _attention, _pass)

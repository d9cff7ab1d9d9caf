"""Rates of operators by shape: TFLOP/s and GB/s of operators whose operands a trace records.

FLOPs follow from the shapes (a multiply-add is two).  Bytes are those of operands and results, each
counted as crossing memory once, so an operand that stays in a cache can make a rate exceed the
memory's bandwidth.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from genz_core.errors import ReportError
from profilers.operators.gemms import gemm_shape, is_shape
from profilers.operators.operator_points import OperatorTiming, operator_timings
from profilers.schema import Report

#: Type of a tensor as torch names it -> bytes of an element, and arithmetic format.
_TYPES: Mapping[str, tuple[float, str]] = {
    "c10::BFloat16": (2.0, "bf16"),
    "c10::Half": (2.0, "fp16"),
    "float": (4.0, "fp32"),
    "double": (8.0, "fp64"),
    "signed char": (1.0, "int8"),
    "c10::Float8_e4m3fn": (1.0, "fp8"),
    "c10::Float8_e4m3fnuz": (1.0, "fp8"),
    "c10::Float8_e5m2": (1.0, "fp8"),
    "c10::Float8_e5m2fnuz": (1.0, "fp8"),
}
_HALF_BYTES = 2.0
#: Products of 32-bit tensors may run on tensor cores.
_FASTER = {"fp32": "tf32"}

#: Columns of `operator_rates`.
COLUMNS = (
    "operator", "operator_class", "shape", "format", "count", "time_s", "mean_s", "flops", "bytes",
    "flops_per_s", "bytes_per_s", "flops_per_byte",
)  # fmt: skip


def operator_rates(report: Report) -> pd.DataFrame:
    """Matrix products, attention and element-wise passes of a trace by shape, longest first.

    Returns:
        `COLUMNS`: count of calls; time_s of all of them and mean_s of one; flops and bytes of one
        call, NaN where the shapes do not determine them.  Empty where no kernel records its shapes.
    """
    rows = _products(report.kernels) + _others(report)
    table = pd.DataFrame(rows, columns=list(COLUMNS[:-3]))
    table = table[table["time_s"] > 0]
    table["flops_per_s"] = table["flops"] / table["mean_s"]
    table["bytes_per_s"] = table["bytes"] / table["mean_s"]
    table["flops_per_byte"] = table["flops"] / table["bytes"]
    return table.sort_values("time_s", ascending=False, ignore_index=True)


def share_of_roof(
    rates: pd.DataFrame, bytes_per_s: float | None, peaks: Mapping[str, float]
) -> pd.Series:
    """Roofline time over measured time of each operator; NaN where the roofline is unknown.

    Args:
        rates: of `operator_rates`.  bytes_per_s: of the memory.
        peaks: FLOP/s by arithmetic format.
    """
    peak = [peaks.get(_FASTER.get(f, f), peaks.get(f, math.nan)) for f in rates["format"]]
    arithmetic = rates["flops"] / np.array(peak, dtype=np.float64)
    traffic = rates["bytes"] / (bytes_per_s or math.nan)
    return pd.concat([arithmetic, traffic], axis=1).max(axis=1) / rates["mean_s"]


def _products(kernels: pd.DataFrame) -> list[dict[str, Any]]:
    """Matrix products by operator, shape and types of their operands."""
    linked = kernels.dropna(subset=["operator", "input_shapes"])
    keys = ["operator", "input_shapes", "input_types"]
    rows = []
    for (name, shapes, types), calls in linked.groupby(keys, observed=True, dropna=False):
        shape = gemm_shape(str(name), str(shapes))
        if shape is None:
            continue
        batch, m, n, k = shape
        known = json.loads(types) if isinstance(types, str) else []
        element, form = _operand(json.loads(str(shapes)), known)
        launches = calls[~calls["name"].astype(str).str.contains("reduce", case=False)]
        count = int((launches if len(launches) else calls)["count"].sum())
        words = f"{m} × {n} × {k}" if batch == 1 else f"{batch} × ({m} × {n} × {k})"
        moved = batch * (m * k + k * n + m * n) * element
        rows.append(_row(str(name), "gemm", words, form, count, float(calls["duration_s"].sum()))
                    | {"flops": 2.0 * batch * m * n * k, "bytes": moved})  # fmt: skip
    return rows


def _operand(shapes: list[Any], types: list[Any]) -> tuple[float, str]:
    """Bytes of an element and format of the first tensor with at least two axes."""
    kinds = [
        str(kind)
        for sizes, kind in zip(shapes, types, strict=False)
        if is_shape(sizes) and len(sizes) > 1
    ]
    return _TYPES.get(kinds[0] if kinds else "", (math.nan, "?"))


def _others(report: Report) -> list[dict[str, Any]]:
    """Attention over equal sequences, and element-wise passes, over 16-bit tensors."""
    try:
        timings = operator_timings([report])
    except ReportError:
        return []
    return [_timed(timing) for timing in timings if timing.operator != "gemm"]


def _timed(timing: OperatorTiming) -> dict[str, Any]:
    kind = "attention" if "attention" in timing.operator else "elementwise"
    total_s = timing.time_s * timing.calls
    row = _row(timing.name, kind, timing.shape, "bf16", timing.calls, total_s)
    if kind == "elementwise":
        moved = timing.dims["bytes"]
        words = f"{moved / 1e6:,.0f} MB" if moved >= 1e7 else f"{moved / 1e3:,.0f} kB"
        return row | {"shape": words, "flops": math.nan, "bytes": moved}
    return row | _attention_work(timing.dims)


def _attention_work(dims: Mapping[str, float]) -> dict[str, Any]:
    """FLOPs and bytes of causal attention, and its shape in words."""
    new, cached = dims["new_tokens"], dims["cached_tokens"]
    width = dims["head_dim"] + dims["value_dim"]
    pairs = new * (cached + (new + 1.0) / 2.0)
    queries = dims["sequences"] * new * dims["heads"] * width
    cache = dims["sequences"] * (new + cached) * dims["kv_heads"] * width
    words = f"{dims['sequences']:g} × {new:g} on {new + cached:g}"
    return {
        "shape": f"{words}, {dims['heads']:g}/{dims['kv_heads']:g} heads of {dims['head_dim']:g}",
        "flops": 2.0 * dims["sequences"] * dims["heads"] * pairs * width,
        "bytes": _HALF_BYTES * (queries + cache),
    }


def _row(
    operator: str, kind: str, shape: str, form: str, count: int, time_s: float
) -> dict[str, Any]:
    return {
        "operator": operator,
        "operator_class": kind,
        "shape": shape,
        "format": form,
        "count": count,
        "time_s": time_s,
        "mean_s": time_s / max(count, 1),
    }

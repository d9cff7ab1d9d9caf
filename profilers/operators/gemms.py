"""Matrix multiplications in a torch trace: shapes from the inputs of the operators, and FLOPs.

A shape is (batch, m, n, k): batch times x[m, k] @ w[k, n], FLOPs 2·batch·m·n·k.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from genz_core.errors import ReportError
from profilers.schema import Report

Shape = tuple[int, int, int, int]

#: Operators whose weight is w[k, n]; others (linear, fused GEMMs of engines) keep it as w[n, k].
_PLAIN = re.compile(r"::(mm|addmm|bmm|baddbmm|matmul|_scaled_mm|_int_mm|addmv|mv)$")
_WITH_BIAS_FIRST = re.compile(r"::(addmm|baddbmm)$")
_GEMM = re.compile(r"gemm|::(linear|.*_mm)$", re.IGNORECASE)
#: No tensor has more axes than this.
_MOST_ELEMENTS = 1 << 48
#: Kernels that only sum the partial results of a multiplication split along k.
_GATHERS = re.compile(r"reduce", re.IGNORECASE)
#: Number of sequences in the names that vLLM and SGLang give to decode steps.
_BATCH = re.compile(r"(?:generation_|DECODE bs=)([1-9]\d*)")


def gemm_shape(operator: str | None, input_shapes: str | None) -> Shape | None:
    """(batch, m, n, k) of a matrix multiplication; None for other operators.

    Args:
        operator: "aten::mm", "aiter::gemm_a16w16" ...  input_shapes: JSON list of shapes.
    """
    plain = bool(operator and _PLAIN.search(operator))
    if not operator or not input_shapes or not (plain or _GEMM.search(operator)):
        return None
    shapes = [shape for shape in json.loads(input_shapes) if is_shape(shape)]
    if _WITH_BIAS_FIRST.search(operator):
        shapes = shapes[1:]
    if len(shapes) < 2 or len(shapes[0]) < 2 or len(shapes[1]) < 2:
        return None
    x, w = shapes[:2]
    k = x[-1]
    n = w[-1] if plain else w[-2]
    if w[-2 if plain else -1] != k:
        return None
    batch = math.prod(w[:-2])
    return batch, math.prod(x[:-1]) // max(batch, 1), n, k


def is_shape(shape: Any) -> bool:
    """Whether a value is a list of positive sizes that a tensor could have."""
    return (
        bool(shape)
        and isinstance(shape, list)
        and all(isinstance(size, int) and 0 < size < _MOST_ELEMENTS for size in shape)
        and math.prod(shape) < _MOST_ELEMENTS
    )


def gemm_flops(kernels: pd.DataFrame) -> NDArray[np.float64]:
    """FLOPs of each kernel [kernels], from the shapes of its operator; NaN for other kernels."""
    pairs, unique = _pairs(kernels)
    shapes = [gemm_shape(operator, inputs) for operator, inputs in unique]
    flops = [math.nan if s is None else 2.0 * s[0] * s[1] * s[2] * s[3] for s in shapes]
    multiplies = kernels["name"].map(lambda name: not _GATHERS.search(name)).to_numpy(dtype=bool)
    return np.where(multiplies, np.array([*flops, math.nan])[pairs], math.nan)


def gemm_table(report: Report) -> pd.DataFrame:
    """Matrix multiplications of a trace by operator and shape, longest first.

    operator, batch, m, n, k, count, time_s, flops (of one run), flops_per_s.  Kernels without
    shapes are left out.
    """
    return products_of(report.kernels)


def products_of(kernels: pd.DataFrame) -> pd.DataFrame:
    """`gemm_table` of a selection of a trace's kernels."""
    return _summed(_shaped(kernels))


def gemm_table_of_graph(report: Report, eager: Report) -> pd.DataFrame:
    """`gemm_table` of a decode step in a CUDA graph.

    Kernels in a graph carry no shapes: n and k are taken from another trace of the same model
    without a graph, and m is the step's batch.

    Raises:
        ReportError: the traces have different numbers of products, or no range names the batch.
    """
    kernels = report.kernels[_multiplies(report.kernels)].sort_values("start_s")
    shaped = _shaped(eager.kernels[_multiplies(eager.kernels)].sort_values("start_s"))
    if len(kernels) != len(shaped):
        raise ReportError(
            f"{report.label} multiplies matrices {len(kernels)} times and {eager.label} "
            f"{len(shaped)} times; give one step of the same model each"
        )
    paths = kernels["nvtx_path"].dropna().unique()
    batches = {int(match[1]) for path in paths if (match := _BATCH.search(path))}
    if len(batches) != 1:
        raise ReportError(f"the ranges of {report.label} do not state the batch of one decode step")
    borrowed = shaped.assign(m=batches.pop())
    for column in ("count", "duration_s"):
        borrowed[column] = kernels[column].to_numpy()
    return _summed(borrowed)


def gathers_parts(kernel: str) -> bool:
    """Whether a kernel only sums the partial results of a product split along k."""
    return bool(_GATHERS.search(kernel))


def _multiplies(kernels: pd.DataFrame) -> pd.Series:
    """Whether each kernel multiplies matrices, rather than summing partial results."""
    gathers = kernels["name"].map(lambda name: bool(_GATHERS.search(name))).astype(bool)
    return kernels["operator_class"].isin(["gemm", "gemv"]) & ~gathers


def _shaped(kernels: pd.DataFrame) -> pd.DataFrame:
    """The kernels whose operator has a GEMM shape, with batch, m, n and k."""
    pairs, unique = _pairs(kernels)
    shapes = [gemm_shape(operator, inputs) for operator, inputs in unique]
    rows = kernels[["operator", "count", "duration_s"]].astype({"operator": "object"})
    for axis, name in enumerate(("batch", "m", "n", "k")):
        sizes = np.array([-1 if s is None else s[axis] for s in shapes] + [-1], dtype=np.int64)
        rows[name] = sizes[pairs]
    return rows[rows["k"] > 0]


def _summed(rows: pd.DataFrame) -> pd.DataFrame:
    """Kernels with shapes summed by operator and shape, longest first."""
    grouped = rows.groupby(["operator", "batch", "m", "n", "k"], as_index=False)
    total = grouped.agg(count=("count", "sum"), time_s=("duration_s", "sum"))
    total["flops"] = 2.0 * total["batch"] * total["m"] * total["n"] * total["k"]
    total["flops_per_s"] = total["flops"] * total["count"] / total["time_s"]
    return total.sort_values("time_s", ascending=False, ignore_index=True)


def _pairs(kernels: pd.DataFrame) -> tuple[NDArray[np.int64], list[tuple[str, str]]]:
    """Code of each kernel's (operator, input shapes), -1 for none, and the list of these pairs."""
    operators, inputs = kernels["operator"].cat, kernels["input_shapes"].cat
    first, second = operators.codes.to_numpy(np.int64), inputs.codes.to_numpy(np.int64)
    joined = np.where((first >= 0) & (second >= 0), first << 32 | second, -1)
    codes, unique = pd.factorize(joined)
    named = [
        (str(operators.categories[pair >> 32]), str(inputs.categories[pair & 0xFFFFFFFF]))
        if pair >= 0
        else ("", "")
        for pair in unique.tolist()
    ]
    return codes, named

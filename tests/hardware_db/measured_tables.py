"""Tables of operators whose times follow known constants, which a fit should recover."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

import hardware_db
from genz_core.latency.measured_operators import OperatorPoints, price_s
from genz_core.latency.parameters import GemmParameters, Parameters

#: {file of a folder of tables: columns that a reader needs, if it has no row}.
COLUMNS: Mapping[str, Sequence[str]] = {
    "gemm": (),
    "attention": ("new_tokens",),
    "moe": ("tokens",),
    "pointwise": ("bytes",),
    "collective": ("bytes", "group", "group_per_node"),
}


def seconds(device: str, operator: str, truth: Parameters, **sizes: np.ndarray) -> np.ndarray:
    """Times by the constants for operators of these sizes; pointwise ones with a warm cache."""
    fmt = "default" if operator == "pointwise" else "bf16"
    ones = np.ones_like(next(iter(sizes.values())))
    points = OperatorPoints(operator, fmt, sizes, ones, warm_cache=operator == "pointwise")
    return price_s(points, hardware_db.facts(device).system(), truth)


def measured(
    source: str, device: str, operator: str, fmt: str, time: np.ndarray, **sizes: np.ndarray
) -> pd.DataFrame:
    """Rows of a table of other benchmarks; products of one n and k are one shape."""
    rows = pd.DataFrame({**sizes, "latency_s": time})
    shape = rows[[name for name in ("n", "k", "bytes") if name in rows]].astype(str)
    facts = {"source": source, "device": device, "operator": operator, "fmt": fmt}
    return rows.assign(
        **facts, warm_cache=0.0, shape=shape.agg("x".join, axis=1), kernel="", note=""
    )


def products(source: str, device: str, truth: GemmParameters, fmt: str = "bf16") -> pd.DataFrame:
    """Products with 14 row counts and ten widths."""
    m, n = (axis.ravel() for axis in np.meshgrid(2.0 ** np.arange(14), 512.0 * np.arange(1, 11)))
    k = 4096.0 + 0.0 * m
    time = seconds(device, "gemm", truth, m=m, n=n, k=k)
    return measured(source, device, "gemm", fmt, time, m=m, n=n, k=k)


def empty(name: str) -> pd.DataFrame:
    """A table of a folder without a row."""
    facts = ("latency_s", "source", "device", "operator", "fmt", "warm_cache", "shape", "kernel")
    return pd.DataFrame(columns=[*facts, "note", *COLUMNS[name]])

"""The operators of a run grouped by the shapes of their inputs."""

from __future__ import annotations

import pandas as pd

from genz_core.errors import ReportError

_KEYS = ["phase", "operator", "input_shapes"]


def operators_by_shape(kernels: pd.DataFrame) -> pd.DataFrame:
    """A row for each operator, shapes of its inputs and phase, the longest first.

    Columns: phase, operator, input_shapes (JSON list), kernels (launches), duration_s (their sum),
    mean_s (of a launch), share (of the time of all kernels, including those without shapes).

    Raises:
        ReportError: no kernel has shapes; the message says how to record them.
    """
    known = kernels.dropna(subset=["operator", "input_shapes"])
    if not len(known):
        raise ReportError(
            "this report has no input shapes: record them with record_shapes=True of the PyTorch "
            "profiler, or emit_nvtx(record_shapes=True) under Nsight Systems"
        )
    keys = known[_KEYS].astype(object)
    keys["phase"] = keys["phase"].fillna("")
    figures = known[["count", "duration_s"]].groupby([keys[name] for name in _KEYS], sort=False)
    table = figures.sum().reset_index().rename(columns={"count": "kernels"})
    table["mean_s"] = table["duration_s"] / table["kernels"]
    table["share"] = table["duration_s"] / kernels["duration_s"].sum()
    return table.sort_values("duration_s", ascending=False, ignore_index=True)

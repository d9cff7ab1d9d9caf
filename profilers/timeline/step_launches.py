"""Launches of one phase that lie inside its steps, and the clocks of those steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from profilers.schema import Report

#: Columns of a kernel table that joining and findings use.
_COLUMNS = (
    "process", "device", "stream", "name", "start_s", "duration_s", "count", "in_graph", "launch_s",
    "nvtx_path", "module", "operator", "input_shapes", "input_types", "operator_class", "flops",
    "dram_bytes",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class StepLaunches:
    """Launches in the steps of a phase.

    kernels: columns of a kernel table, plus `report` (index of the report) and `run` (number of the
    step on one device of one report), sorted by both and by time.
    runs: number of different runs.  timed: whether every launch has a start time.
    outside_s: time of kernels that lie in no step of any phase.
    """

    kernels: pd.DataFrame
    runs: int
    timed: bool
    outside_s: float

    @property
    def total_s(self) -> float:
        """Kernel time of all steps."""
        return float(self.kernels["duration_s"].sum())


def step_launches(reports: Sequence[Report], phase: str) -> StepLaunches | None:
    """The launches of a phase; None where the reports hold none.

    A report that names no phase is taken as `phase`, as the user stated: the steps of PyTorch's
    profiler count, or everything where there are none.
    """
    with_kernels = [report for report in reports if len(report.kernels)]
    unnamed = not any(bool(r.kernels["phase"].notna().any()) for r in with_kernels)
    parts, outside_s = [], 0.0
    for number, report in enumerate(with_kernels):
        kernels = report.kernels
        without_phase = kernels["phase"].isna()
        stepless = without_phase & kernels["step"].isna()
        has_steps = unnamed and not bool(stepless.all())
        chosen = (~stepless if has_steps else without_phase) if unnamed else \
            kernels["phase"] == phase  # fmt: skip
        left = stepless if has_steps else without_phase & (not unnamed)
        outside_s += float(kernels["duration_s"][left].sum())
        if bool(chosen.any()):
            part = kernels.loc[chosen, [*_COLUMNS, "step"]]
            parts.append(part.assign(report=number))
    if not parts:
        return None
    kernels = _in_runs(pd.concat(parts, ignore_index=True) if len(parts) > 1 else parts[0])
    timed = bool(kernels["start_s"].notna().all()) and bool((kernels["count"] == 1).all())
    return StepLaunches(kernels, int(kernels["run"].max()) + 1, timed, outside_s)


def _in_runs(kernels: pd.DataFrame) -> pd.DataFrame:
    """Kernels with the number of their step on their device, sorted by that and by time."""
    names = ["report", "process", "device", "step"]
    keys = pd.DataFrame({name: kernels[name].fillna(-1).astype(np.int64) for name in names})
    run = keys.groupby(names).ngroup()
    numbered = kernels.drop(columns="step").assign(run=run.to_numpy())
    order = np.lexsort((numbered["start_s"].to_numpy(), numbered["run"].to_numpy()))
    return numbered.iloc[order].reset_index(drop=True)

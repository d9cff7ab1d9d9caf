"""Reports as a measurement: operators in the columns of a prediction, timings by phase."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from genz_core.errors import ReportError
from profilers.operators.aten_classes import kind_of
from profilers.operators.attribution import DEFAULT_PHASES, PhasePattern, range_phases
from profilers.operators.kernel_classes import ENGINE_CLASS
from profilers.schema import OPERATOR_COLUMNS, Basis, Measurement, PhaseTiming, Report, table
from profilers.timeline import time_spans


def measure_from(
    reports: Sequence[Report], phases: Sequence[PhasePattern] = DEFAULT_PHASES
) -> Measurement:
    """Combine the reports of one run into a measurement: its stages, or its parallel ranks.

    ncu times each kernel alone at fixed clocks, so its times are not mixed with others.

    Args:
        phases: the patterns that the reports were read with.

    Raises:
        ReportError: no report, or reports of ncu among those of other tools.
    """
    tools = {report.tool for report in reports}
    if not reports:
        raise ReportError("there is no report to measure from")
    if "ncu" in tools and len(tools) > 1:
        raise ReportError(
            "ncu times kernels alone at fixed clocks; import its reports separately from those of "
            f"{' and '.join(sorted(tools - {'ncu'}))}"
        )
    tables = [
        operator_table(r.kernels) if len(r.kernels) else _host_operators(r, phases) for r in reports
    ]
    operators = pd.concat(tables, ignore_index=True)
    devices = [device for report in reports for device in report.devices]
    return Measurement(
        source="+".join(dict.fromkeys(report.format for report in reports)),
        operators=operators,
        phases=_phases(reports, phases),
        system=next((device for device in devices if device.name), None),
        facts={key: value for report in reports for key, value in report.facts.items()},
        notes=tuple(dict.fromkeys(note for report in reports for note in report.notes)),
    )


def operator_table(kernels: pd.DataFrame) -> pd.DataFrame:
    """Kernels summed by phase and operator, or by their name where they have no operator."""
    rows = pd.DataFrame(
        {
            "phase": kernels["phase"].astype(object),
            "name": kernels["operator"].astype(object).fillna(kernels["name"].astype(object)),
            "kind": kernels["operator_class"].astype(object),
            "count": kernels["count"],
            "flops": kernels["flops"],
            "bytes": kernels["dram_bytes"],
            "time_s": kernels["duration_s"],
        }
    )
    sums = {"count": "sum", "flops": _total, "bytes": _total, "time_s": "sum"}
    grouped = rows.groupby(["phase", "name", "kind"], dropna=False, sort=False, as_index=False)
    summed = grouped.agg(sums)
    for column in ("flops", "bytes"):
        summed[column] = summed[column] / summed["count"]
    summed["class"] = summed["kind"].map(ENGINE_CLASS.get)
    ordered = summed.sort_values("time_s", ascending=False, ignore_index=True)
    return table(OPERATOR_COLUMNS, {name: ordered[name] for name in ordered.columns})


def _host_operators(report: Report, patterns: Sequence[PhasePattern]) -> pd.DataFrame:
    """Operators that the host itself ran, summed by phase and name."""
    rows = report.host_operators
    of_range = range_phases(report, patterns)
    parent = report.ranges["parent"].fillna(-1).to_numpy(dtype=np.int64)
    inside = rows["range_id"].fillna(-1).to_numpy(dtype=np.int64)
    step = time_spans.outermost(parent, inside, pd.notna(of_range))
    phase = np.array([*of_range, None], dtype=object)[step]
    named = rows.assign(phase=phase, name=rows["name"].astype(object)).dropna(subset=["phase"])
    sums = named.groupby(["phase", "name"], as_index=False)[["count", "time_s"]].sum()
    sums["kind"] = sums["name"].map(kind_of)
    sums["class"] = sums["kind"].map(ENGINE_CLASS.get)
    ordered = sums.sort_values("time_s", ascending=False, ignore_index=True)
    return table(OPERATOR_COLUMNS, {name: ordered[name] for name in ordered.columns})


def _total(values: pd.Series) -> float:
    """The sum; NaN if any value is unknown."""
    return float(values.sum(skipna=False))


def _phases(reports: Sequence[Report], patterns: Sequence[PhasePattern]) -> dict[str, PhaseTiming]:
    """Timings by phase: for ranks the slowest rank of each step, for stages all steps."""
    ranks = len({report.facts.get("rank") for report in reports} - {None})
    in_phase = [range_phases(report, patterns) for report in reports]
    names = (n for r, p in zip(reports, in_phase, strict=True) for n in _phase_names(r, p))
    timings: dict[str, PhaseTiming] = {}
    for phase in dict.fromkeys(names):
        samples = [_samples(r, phase, p) for r, p in zip(reports, in_phase, strict=True)]
        by_report = [steps for steps, _ in samples if steps]
        bases = {basis for steps, basis in samples if steps}
        if ranks > 1:
            steps = tuple(max(step) for step in zip(*by_report, strict=False))
        else:
            steps = tuple(step for some in by_report for step in some)
        basis = bases.pop() if len(bases) == 1 else "kernels"
        timings[phase] = PhaseTiming(phase, steps, basis)
    return timings


def _phase_names(report: Report, in_phase: NDArray[np.object_]) -> list[str]:
    """Phases of a report's kernels, or of its ranges where it has no kernels, as in a trace of a
    CPU.
    """
    named = report.kernels["phase"].dropna().unique() if len(report.kernels) else in_phase
    return [str(phase) for phase in named if phase is not None]


def _samples(
    report: Report, phase: str, in_phase: NDArray[np.object_]
) -> tuple[list[float], Basis]:
    """GPU busy time of each step of a phase; summed kernel time where there is no timeline;
    durations of the ranges where there are no kernels."""
    if not len(report.kernels):
        return report.ranges["duration_s"][in_phase == phase].dropna().tolist(), "wall"
    kernels = report.kernels[report.kernels["phase"] == phase]
    timed = kernels.dropna(subset=["start_s", "duration_s"])
    if not len(timed):
        total = float(kernels["duration_s"].sum())
        return ([total] if total > 0 else []), "kernels"
    row = timed["range_id"].fillna(-1).to_numpy(dtype=np.int64)
    parent = report.ranges["parent"].fillna(-1).to_numpy(dtype=np.int64)
    step = time_spans.outermost(parent, row, in_phase == phase)
    order = np.argsort(step, kind="stable")
    seams = np.flatnonzero(np.diff(step[order])) + 1
    start, duration = (
        np.split(timed[name].to_numpy()[order], seams) for name in ("start_s", "duration_s")
    )
    return [time_spans.union_s(*span) for span in zip(start, duration, strict=True)], "gpu"

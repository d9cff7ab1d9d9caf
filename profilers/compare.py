"""Compare an estimate with a measurement: by phase, operator class and operator.

All times are of one step.  ratio is measured over predicted; gap_s is measured minus predicted,
and gap_share its part of all gaps of the phase: signed, their absolute values sum to one.  low_s
and high_s are the ends of the prediction's interval, NaN where there is none, and inside is
whether the measurement lies in it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from genz_core.errors import InvalidValue
from genz_core.step import StepEstimate
from genz_core.workload import Estimate
from profilers.findings import Finding, all_findings
from profilers.matching import ENDS, match_operators, split_by_shape, whole_sum
from profilers.schema import Measurement, PhaseTiming, Report

#: Bases of a timing that hold the device's time alone.
DEVICE_BASES = ("gpu", "kernels")
#: Rows of `Comparison.classes` that are no operator class of the engine.
HOST, OTHER = "host", "other"
#: Rounding error of differences of sums.
_ROUNDING_S = 1e-12


@dataclass(frozen=True, slots=True)
class Expected:
    """A predicted step: its operators, and the times beside them [s].

    operators: `StepEstimate.table`, with low_s and high_s where the operators have intervals.
    low_s, high_s: ends of the interval of the whole step on a wall clock, NaN where there is none.
    """

    operators: Mapping[str, Sequence[Any]]
    bound_s: float
    host_s: float
    wait_s: float
    low_s: float = math.nan
    high_s: float = math.nan

    @classmethod
    def from_step(cls, step: StepEstimate, config: int = 0) -> Expected:
        """A step without intervals.  config: the configuration of the estimate."""
        bound, host, wait = step.bound_total_s, step.host_s, step.pipeline_s
        seconds = [float(values[config]) for values in (bound, host, wait)]
        return cls(step.table(config), *(0.0 if s < _ROUNDING_S else s for s in seconds))


@dataclass(frozen=True, slots=True)
class Comparison:
    """Tables of predicted and measured times, and findings.

    phases: phase, basis, steps, bound_s, predicted_s, low_s, high_s, measured_s, inside, ratio,
    gap_s, gap_share.
    classes: phase, class, bound_s ... as above; "host" is time outside of all operators, "other"
    that of unclassified ones.
    operators: phase, class, name, measured_as, matched_by, runs, launches, bound_s ... as above.
    findings: sentences, most seconds first.
    """

    phases: pd.DataFrame
    classes: pd.DataFrame
    operators: pd.DataFrame
    findings: tuple[Finding, ...]


def compare(
    estimate: Estimate,
    measurement: Measurement,
    *,
    reports: Sequence[Report] = (),
    steps: Mapping[str, int] | None = None,
    devices: int = 1,
    config: int = 0,
    expected: Mapping[str, Expected] | None = None,
) -> Comparison:
    """Compare a measurement with the estimate of the same work.

    Args:
        reports: what the measurement was made from, for shapes, copies and idle times.
        steps: number of steps in each phase of the measurement, for summaries, which lack it.
        devices: that ran side by side and whose operator times the measurement sums.
        config: the configuration of the estimate.
        expected: the predicted steps by phase with their intervals; without them, none have one.

    Raises:
        InvalidValue: the measurement has no phase that the estimate prices.
    """
    counts = {phase: step_count(measurement, phase, steps) for phase in _phases(measurement)}
    if not counts:
        raise InvalidValue(
            "the measurement has neither a prefill nor a decode phase; say which one it is, "
            "as with --as prefill"
        )
    operators = split_by_shape(measurement.operators, reports)
    steps_of = expected or {p: Expected.from_step(getattr(estimate, p), config) for p in counts}
    parts = [
        _compare_phase(
            steps_of[phase], measurement.phases.get(phase), operators, phase, count, devices
        )
        for phase, count in counts.items()
    ]
    tables = [pd.concat(tables, ignore_index=True) for tables in zip(*parts, strict=True)]
    phases, classes, matched = (_with_ratios(table) for table in tables)
    findings = all_findings(phases, classes, matched, estimate, measurement, reports, config)
    return Comparison(phases, classes, matched, findings)


def in_phase(measurement: Measurement, phase: str) -> Measurement:
    """A measurement without phases as a measurement of a single step of `phase`."""
    operators = measurement.operators.copy()
    operators["phase"] = operators["phase"].where(operators["phase"].notna(), phase)
    total = float(operators["time_s"].sum())
    timing = measurement.phases.get(phase) or PhaseTiming(phase, (total,), "kernels")
    phases = {**measurement.phases, phase: timing}
    return replace(measurement, operators=operators, phases=phases)


def step_count(measurement: Measurement, phase: str, steps: Mapping[str, int] | None = None) -> int:
    """Number of steps of a phase in the operator table.

    A live run profiles one request; a report holds as many steps as it has timings.

    Args:
        steps: overrides by phase.

    Raises:
        InvalidValue: an override below 1.
    """
    if steps and phase in steps:
        if steps[phase] < 1:
            raise InvalidValue(f"{steps[phase]} steps of {phase}: give at least 1")
        return int(steps[phase])
    if measurement.source == "live":
        load = measurement.workload
        return 1 if phase == "prefill" or load is None else max(int(np.max(load.osl)) - 1, 1)
    timing = measurement.phases.get(phase)
    return max(len(timing.samples_s), 1) if timing else 1


def _phases(measurement: Measurement) -> list[str]:
    """Of prefill and decode, those that the measurement has."""
    named = {*measurement.phases, *measurement.operators["phase"].dropna()}
    return [phase for phase in ("prefill", "decode") if phase in named]


def _compare_phase(
    step: Expected,
    timing: PhaseTiming | None,
    operators: pd.DataFrame,
    phase: str,
    steps: int,
    devices: int,
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Tables of one phase: the phase, its classes, its operators."""
    predicted = pd.DataFrame(dict.fromkeys(ENDS, math.nan) | dict(step.operators))
    predicted = predicted[predicted["predicted_s"] > 0]
    measured = operators[operators["phase"] == phase].copy()
    measured["time_s"] /= steps * devices
    measured["launches"] = measured["count"] / (steps * devices)
    basis = timing.basis if timing and timing.samples_s else "kernels"
    on_device = basis in DEVICE_BASES
    total = _total_s(timing, measured, steps, devices, basis)
    beside = step.wait_s + (0.0 if on_device else step.host_s)
    classes = _classes(predicted, measured)
    rest = total - float(classes["measured_s"].sum()) if len(measured) else float("nan")
    if not on_device or step.wait_s or abs(rest) > _ROUNDING_S:
        row = {"class": HOST, "bound_s": 0.0, "predicted_s": beside, "measured_s": rest}
        classes = pd.concat([classes, pd.DataFrame([row])], ignore_index=True)
    ends = _operators_ends(predicted, beside) if on_device else (step.low_s, step.high_s)
    whole = {
        "phase": phase, "basis": basis, "steps": steps, "bound_s": step.bound_s,
        "predicted_s": float(predicted["predicted_s"].sum()) + beside,
        **dict(zip(ENDS, ends, strict=True)),
        "measured_s": total,
    }  # fmt: skip
    matched = match_operators(predicted, measured)
    if not len(measured):
        matched["measured_s"] = math.nan  # not measured, which is not 0 s
    classes.insert(0, "phase", phase)
    matched.insert(0, "phase", phase)
    return pd.DataFrame([whole]), classes, matched


def _operators_ends(predicted: pd.DataFrame, beside_s: float) -> tuple[float, float]:
    """Interval of the sum of all operators with perfectly correlated errors; NaN where other
    times come on top."""
    if beside_s:
        return math.nan, math.nan
    low, high = (whole_sum(predicted[end]) for end in ENDS)
    return low, high


def _total_s(
    timing: PhaseTiming | None, measured: pd.DataFrame, steps: int, devices: int, basis: str
) -> float:
    """Measured time of one step; of a summary, which sums all steps, their mean."""
    if timing is None or not timing.samples_s:
        return float(measured["time_s"].sum())
    if basis == "kernels":
        return float(np.sum(timing.samples_s)) / (steps * devices)
    if basis == "gpu" and len(timing.samples_s) < steps:
        return float(np.sum(timing.samples_s)) / steps
    return timing.median_s


def _classes(predicted: pd.DataFrame, measured: pd.DataFrame) -> pd.DataFrame:
    """Seconds by operator class, the longest first; 0 where one side lacks a class."""
    grouped = predicted.groupby("class")
    sums = {name: grouped[name].sum() for name in ("bound_s", "predicted_s")}
    sums |= {end: grouped[end].agg(whole_sum) for end in ENDS}
    happened = measured.groupby(measured["class"].fillna(OTHER))["time_s"].sum()
    table = pd.DataFrame(sums).join(happened.rename("measured_s"), how="outer")
    table = table.fillna({"bound_s": 0.0, "predicted_s": 0.0, "measured_s": 0.0})
    if not len(measured):
        table["measured_s"] = np.nan
    table = table[(table["predicted_s"] > 0) | (table["measured_s"] > 0)]
    longest = table[["predicted_s", "measured_s"]].max(axis=1)
    table = table.loc[longest.sort_values(ascending=False).index]
    return table.rename_axis("class").reset_index()


def _with_ratios(table: pd.DataFrame) -> pd.DataFrame:
    """The table with inside, ratio, gap_s and gap_share."""
    table = table.copy()
    for end in ENDS:
        table[end] = table[end].where(table["predicted_s"] > 0)
    rows = zip(table["low_s"], table["high_s"], table["measured_s"], strict=True)
    inside = pd.Series([lies_inside(*row) for row in rows], table.index, dtype=object)
    table.insert(table.columns.get_loc("measured_s") + 1, "inside", inside)
    table["ratio"] = (table["measured_s"] / table["predicted_s"]).where(table["predicted_s"] > 0)
    table["gap_s"] = table["measured_s"] - table["predicted_s"]
    gaps = table["gap_s"].abs().groupby(table["phase"]).transform("sum")
    table["gap_share"] = (table["gap_s"] / gaps).where(gaps > 0, 0.0)
    return table


def lies_inside(low_s: float, high_s: float, measured_s: float) -> bool | None:
    """Whether a measurement lies in an interval; None without either."""
    if math.isnan(low_s) or not measured_s > 0:
        return None
    return bool(low_s <= measured_s <= high_s)

"""The tables of one phase: its step, classes and operators, predicted and measured."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from genz_core.common.quantities import percent, seconds
from profilers.matching.launch_join import Joined, join
from profilers.matching.predicted_step import ROUNDING_S, Expected
from profilers.matching.table_join import ENDS, JOINS, match_launches, match_operators, whole_sum
from profilers.schema import Measurement, PhaseTiming, Report
from profilers.timeline.idle import StepClocks, step_clocks
from profilers.timeline.step_launches import StepLaunches, step_launches

#: Bases of timings that count device time only.
DEVICE_BASES = ("gpu", "kernels")
#: Rows of `Comparison.classes` that are not operator classes of the engine.
HOST, OTHER = "host", "other"
#: Operators may exceed the time of their step by this share before they are scaled to it.
_CLOSE = 1e-6
#: Launches that hold this many times the work of one step belong to several steps.
_SEVERAL = 1.9


@dataclass(frozen=True, slots=True)
class MeasuredPhase:
    """The measurement of one phase.

    steps: number in the measurement.  total_s: of a step; basis: see `PhaseTiming`.  operators:
    rows of the phase with launches; time_s of one step.  launches, clocks: present where reports
    have a timeline.
    steps_in_run: steps in each run of `launches`.
    """

    phase: str
    basis: str
    steps: int
    total_s: float
    operators: pd.DataFrame
    launches: StepLaunches | None = None
    steps_in_run: int = 1
    clocks: StepClocks | None = None
    notes: tuple[str, ...] = ()

    @property
    def on_device(self) -> bool:
        return self.basis in DEVICE_BASES


def measured_phase(
    measurement: Measurement,
    operators: pd.DataFrame,
    reports: Sequence[Report],
    phase: str,
    steps: int,
    devices: int,
    overridden: bool,
) -> MeasuredPhase:
    """The measurement of a phase.

    Args:
        operators: of the measurement, split by shape.  steps: their number; overridden: the user
            stated it.  devices: number running in parallel.
    """
    launches = step_launches(reports, phase) if reports else None
    if launches is not None and launches.timed:
        return _of_launches(launches, reports, phase, steps if overridden else 0, devices)
    timing = measurement.phases.get(phase)
    rows = operators[operators["phase"] == phase].copy()
    rows["time_s"] /= steps * devices
    rows["launches"] = rows["count"] / (steps * devices)
    basis = timing.basis if timing and timing.samples_s else "kernels"
    total = _total_s(timing, rows, steps, devices, basis)
    found = MeasuredPhase(phase, basis, steps, total, rows)
    spent = float(rows["time_s"].sum())
    if basis in ("wall", "cpu") and spent > total * (1 + _CLOSE) > 0:
        note = (
            f"operators of {phase} took {seconds(spent)} under the profiler, but a step takes "
            f"{seconds(total)}; their times are scaled to the step"
        )
        scaled = rows.assign(time_s=rows["time_s"] * (total / spent))
        found = replace(found, operators=scaled, notes=(note,))
    return found


def _of_launches(
    launches: StepLaunches, reports: Sequence[Report], phase: str, told: int, devices: int
) -> MeasuredPhase:
    """The measurement of a phase from launches with a timeline.

    told: number of steps that the user stated, 0 for none.
    """
    on_devices = launches.kernels.groupby("report")[["process", "device"]].apply(
        lambda part: len(part.drop_duplicates())
    )
    side_by_side = max(devices, int(on_devices.max()))
    steps_in_run = max(round(told * side_by_side / launches.runs), 1) if told else 1
    each = launches.runs * steps_in_run
    notes = []
    if launches.outside_s > 0.005 * launches.total_s:
        share = launches.outside_s / (launches.outside_s + launches.total_s)
        notes.append(
            f"{seconds(launches.outside_s)} of kernel time ({percent(share)}) lie outside the "
            f"steps of {phase} and are not counted"
        )
    return MeasuredPhase(
        phase,
        "kernels",
        max(each // side_by_side, 1),
        launches.total_s / each,
        pd.DataFrame(),
        launches,
        steps_in_run,
        step_clocks(launches, reports, steps_in_run),
        tuple(notes),
    )


def _total_s(
    timing: PhaseTiming | None, measured: pd.DataFrame, steps: int, devices: int, basis: str
) -> float:
    """Measured time of one step; for a summary, which sums all steps, their mean."""
    if timing is None or not timing.samples_s:
        return float(measured["time_s"].sum())
    if basis == "kernels":
        return float(np.sum(timing.samples_s)) / (steps * devices)
    if basis == "gpu" and len(timing.samples_s) < steps:
        return float(np.sum(timing.samples_s)) / steps
    return timing.median_s


def compare_phase(
    step: Expected, measured: MeasuredPhase
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Tables of one phase: the phase, its classes, its operators."""
    predicted = pd.DataFrame(dict.fromkeys(ENDS, math.nan) | dict(step.operators))
    repeats = 1.0
    unknown = measured.launches is None and not len(measured.operators)
    if measured.launches is not None:
        steps = measured.launches.runs * measured.steps_in_run
        joined = _joined(step, predicted, measured.launches, measured.steps_in_run)
        repeats = joined.repeats
        matched = match_launches(predicted, measured.launches.kernels, joined, steps)
    else:
        matched = match_operators(predicted[predicted["predicted_s"] > 0], measured.operators)
    matched["class"] = matched["class"].fillna(OTHER)
    beside = step.wait_s + (0.0 if measured.on_device else step.host_s)
    classes = _classes(matched)
    rest = measured.total_s - float(classes["measured_s"].sum())
    if not measured.on_device or step.wait_s or abs(rest) > ROUNDING_S + 1e-9 * measured.total_s:
        row = {"class": HOST, "bound_s": 0.0, "predicted_s": beside,
               "measured_s": math.nan if unknown else max(rest, 0.0)}  # fmt: skip
        classes = pd.concat([classes, pd.DataFrame([row])], ignore_index=True)
    if unknown:
        classes["measured_s"] = matched["measured_s"] = math.nan  # not measured, which is not 0 s
    whole = _whole(step, predicted[predicted["predicted_s"] > 0], measured, beside)
    whole |= {"joined_share": _joined_share(matched), "repeats": repeats}
    classes.insert(0, "phase", measured.phase)
    matched.insert(0, "phase", measured.phase)
    return pd.DataFrame([whole]), classes, matched


def _joined(
    step: Expected, predicted: pd.DataFrame, launches: StepLaunches, steps_in_run: int
) -> Joined:
    rows = np.flatnonzero(predicted["predicted_s"].to_numpy() > 0).tolist()
    return join(launches, step.planned, rows, steps_in_run)


def _joined_share(matched: pd.DataFrame) -> float:
    """Share of measured time in rows that joined exactly one predicted operator; NaN where there is
    no time.
    """
    total = float(matched["measured_s"].sum())
    if not total > 0:
        return math.nan
    return min(float(matched["measured_s"][matched["matched_by"].isin(JOINS)].sum()) / total, 1.0)


def _whole(
    step: Expected, predicted: pd.DataFrame, measured: MeasuredPhase, beside_s: float
) -> dict[str, Any]:
    """The row of the phase."""
    operators_s = float(predicted["predicted_s"].sum())
    ends = _operators_ends(predicted, beside_s) if measured.on_device else (step.low_s, step.high_s)
    clocks = measured.clocks
    wall_s, busy_s = (clocks.wall_s, clocks.busy_s) if clocks else (math.nan, math.nan)
    if not measured.on_device:
        spent = float(measured.operators["time_s"].sum()) if len(measured.operators) else math.nan
        wall_s, busy_s = measured.total_s, spent
    return {
        "phase": measured.phase, "basis": measured.basis, "steps": measured.steps,
        "bound_s": step.bound_s, "predicted_s": operators_s + beside_s,
        **dict(zip(ENDS, ends, strict=True)),
        "measured_s": measured.total_s,
        "predicted_wall_s": operators_s + step.wait_s + step.host_s,
        "wall_s": wall_s, "busy_s": busy_s, "idle_s": wall_s - busy_s,
        "idle_cause": clocks.cause if clocks else "",
        "exposed_communication_s": clocks.exposed_communication_s if clocks else math.nan,
    }  # fmt: skip


def _operators_ends(predicted: pd.DataFrame, beside_s: float) -> tuple[float, float]:
    """Interval of the sum of all operators, with perfectly correlated errors; NaN where the step
    has other time beside them.
    """
    if beside_s:
        return math.nan, math.nan
    low, high = (whole_sum(predicted[end]) for end in ENDS)
    return low, high


def _classes(matched: pd.DataFrame) -> pd.DataFrame:
    """Seconds by operator class, the longest first; a joined launch counts in the class of its
    operator.
    """
    ours = matched[matched["predicted_s"] > 0].groupby("class")
    sums = {name: ours[name].sum() for name in ("bound_s", "predicted_s")}
    sums |= {end: ours[end].agg(whole_sum) for end in ENDS}
    happened = matched.groupby("class")["measured_s"].sum()
    table = pd.DataFrame(sums).join(happened.rename("measured_s"), how="outer")
    table = table.fillna({"bound_s": 0.0, "predicted_s": 0.0, "measured_s": 0.0})
    table = table[(table["predicted_s"] > 0) | (table["measured_s"] > 0)]
    longest = table[["predicted_s", "measured_s"]].max(axis=1)
    table = table.loc[longest.sort_values(ascending=False).index]
    return table.rename_axis("class").reset_index()


def fit_notes(phases: pd.DataFrame, phase: str) -> list[str]:
    """Notes on why a measured step differs in its work from the predicted one.

    phases: of a `Comparison`.
    """
    (whole,) = phases[phases["phase"] == phase].to_dict("records")
    if whole["repeats"] >= _SEVERAL:
        return [
            f"the launches of {phase} hold {whole['repeats']:.3g} times what one step runs: its "
            "range holds several steps; state how many, for example --steps "
            f"{phase}={whole['repeats']:.0f}"
        ]
    return []

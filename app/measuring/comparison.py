"""Profiler reports beside predictions: the comparison, its rows in display units, its verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

import hardware_db
import profilers
from app.scenario import intervals
from app.scenario.scenario import Resolved, Scenario, estimate_resolved, resolve_objects
from app.wording import quantities
from genz_core import Estimate
from genz_core.errors import InvalidValue, RidgelineError
from genz_core.types import System
from profilers import Comparison, Measurement, PhasePattern, Report
from profilers.compare import Expected, in_phase

#: Columns of a compared row as a reader sees them.
_SHOWN_NAMES = {"low_s": "80 %", "inside": "inside 80 %"}
_WORST = (
    "name", "phase", "class", "bound [µs]", "predicted [µs]", "80 %", "measured [µs]",
    "inside 80 %", "ratio", "share of gap", "measured_as", "matched_by", "runs", "launches",
)  # fmt: skip
#: What the columns of `worst` mean.
COLUMN_HELP = {
    "measured_as": "Modules, operators or kernels that the reports name",
    "matched_by": "How both met: the module around the kernels, the FLOPs of one run, or as the "
    "rest of their class; none: one side has nothing",
    "80 %": "Four of five held-out measurements of such operators lie within",
    "inside 80 %": "Whether this measurement lies within",
}
_INSIDE = {True: "yes", False: "no", None: ""}


def device_name(reports: Sequence[Report]) -> str:
    """The first device that the reports name.

    Raises:
        InvalidValue: they name none.
    """
    names = [device.name for report in reports for device in report.devices if device.name]
    if not names:
        raise InvalidValue("the reports do not name their device; give --system")
    return names[0]


def system_of(*reports: Report) -> System | None:
    """The datasheet of the first device of the reports that the hardware database has."""
    for device in (device for report in reports for device in report.devices):
        try:
            return hardware_db.load(device.name)
        except RidgelineError:
            continue
    return None


def beside(
    resolved: Resolved,
    reports: Sequence[Report],
    patterns: Sequence[PhasePattern] = profilers.DEFAULT_PHASES,
    phase: str = "",
    steps: Mapping[str, int] | None = None,
) -> Comparison:
    """Compare the reports of one run with the estimate of a scenario.

    Args:
        patterns: those that the reports were read with.
        phase: "prefill" or "decode" for reports that name no phase, "" to refuse them.
        steps: steps that each phase of the reports holds, see `profilers.compare`.

    Raises:
        RidgelineError: a scenario that cannot be priced, or reports without a phase.
    """
    measurement = profilers.measure_from(reports, patterns)
    return compared(estimate_resolved(resolved), _taken_for(measurement, phase), reports, steps)


def _taken_for(measurement: Measurement, phase: str) -> Measurement:
    """A measurement whose reports name no phase, as one of "prefill" or "decode"."""
    if phase not in ("", "prefill", "decode"):
        raise InvalidValue(f"{phase!r} is no phase; choose prefill or decode")
    return in_phase(measurement, phase) if phase else measurement


def compare_reports(
    reports: Sequence[Report],
    model: Any,
    *,
    system: Any = "",
    engine: Any = "hf",
    phase: str = "",
    steps: Mapping[str, int] | None = None,
    weights: str = "",
    kv: str = "",
    **numbers: Any,
) -> Comparison:
    """`beside` for model, system and engine by name or as objects; see `ridgeline.compare`.

    A device that the reports name is a name and opens no file.

    numbers: batch, isl, osl and degrees of what ran.
    """
    scenario = Scenario(**numbers)
    formats = {"weights": weights, "kv": kv}
    system = system or device_name(reports)
    resolved = resolve_objects(scenario, model, system, engine, formats)
    measurement = profilers.measure_from(reports, profilers.DEFAULT_PHASES)
    return compared(estimate_resolved(resolved), _taken_for(measurement, phase), reports, steps)


def compared(
    estimate: Estimate,
    measurement: Measurement,
    reports: Sequence[Report] = (),
    steps: Mapping[str, int] | None = None,
) -> Comparison:
    """`profilers.compare` with the 80 % interval of every operator and step that has one.

    Raises:
        InvalidValue: see `profilers.compare`.
    """
    return profilers.compare(
        estimate,
        measurement,
        reports=reports,
        steps=steps,
        devices=device_count(reports),
        expected={phase: _expected(estimate, phase) for phase in ("prefill", "decode")},
    )


def _expected(estimate: Estimate, phase: str) -> Expected:
    """The step of a phase with the intervals of its operators and of the whole."""
    step = getattr(estimate, phase)
    whole = intervals.step_latency(estimate, phase)
    operators = intervals.operator_table(step)
    without_intervals = Expected.from_step(step)
    return replace(without_intervals, operators=operators, low_s=whole.low_s, high_s=whole.high_s)


def interval_text(row: Mapping[str, Any]) -> str:
    """The 80 % interval of a compared row in words; "" where nothing is predicted."""
    return quantities.span(row["low_s"], row["high_s"]) if row["predicted_s"] > 0 else ""


def folded(row: Mapping[str, Any]) -> dict[str, Any]:
    """A compared row with both ends of its interval in one cell and "yes" or "no" for inside.

    row: predicted_s, low_s, high_s, inside and more; one without low_s stays as it is.
    """
    if "low_s" not in row:
        return dict(row)
    texts = {"low_s": interval_text(row), "inside": _INSIDE[row["inside"]]}
    return {
        _SHOWN_NAMES.get(key, key): texts.get(key, value)
        for key, value in row.items()
        if key != "high_s"
    }


def worst(operators: pd.DataFrame, count: int = 10) -> pd.DataFrame:
    """The `count` operators with the largest gaps, in display units.

    operators: of a `Comparison`; those without a measurement come last.
    """
    gaps = operators["gap_s"].abs().sort_values(ascending=False, kind="stable")
    rows = operators.loc[gaps.index[:count]]
    shown = pd.DataFrame(map(folded, rows.to_dict("records")))
    for name in ("bound", "predicted", "measured"):
        shown[f"{name} [µs]"] = shown[f"{name}_s"] / quantities.MICROSECOND
    shown["share of gap"] = shown["gap_share"]
    return shown[list(_WORST)]


def verdict(row: Mapping[str, Any], classes: pd.DataFrame) -> str:
    """Whether a phase was measured inside its interval, and how many of its operator classes.

    row: of `Comparison.phases`.  classes: `Comparison.classes`.
    """
    sentence = f"{str(row['phase']).capitalize()}: "
    if row["inside"] is None:
        sentence += quantities.NOT_VALIDATED
    elif row["inside"]:
        sentence += f"the measurement lies inside the 80 % interval, {interval_text(row)}"
    else:
        side = "above" if row["measured_s"] > row["high_s"] else "below"
        sentence += f"the measurement lies {side} the 80 % interval, {interval_text(row)}"
    judged = classes["inside"][classes["phase"] == row["phase"]].dropna()
    if len(judged):
        sentence += f"; {int(judged.sum())} of {len(judged)} operator classes lie inside theirs"
    return f"{sentence}."


def device_count(reports: Sequence[Report]) -> int:
    """Devices that ran side by side: the most in one report, or the number of ranks."""
    ranks = len({report.facts.get("rank") for report in reports} - {None})
    busy = [len(report.kernels[["process", "device"]].dropna().drop_duplicates())
            for report in reports]  # fmt: skip
    return max([1, ranks, *busy])

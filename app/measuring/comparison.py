"""Profiler reports beside predictions: the comparison, its rows in display units, its verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

import hardware_db
import profilers
from app.scenario import intervals
from app.scenario.scenario import Scenario, estimate, estimate_resolved, resolve_objects
from app.wording import quantities
from genz_core import Estimate
from genz_core.errors import InvalidValue, RidgelineError
from genz_core.types import System
from profilers import Comparison, Measurement, PhasePattern, Report
from profilers.compare import Expected, in_phase

#: Columns of a compared row as a reader sees them, and whether a measurement lies inside.
_READ = {"low_s": "80 %", "inside": "inside 80 %"}
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
    """The device that the reports name.

    Raises:
        InvalidValue: they name none.
    """
    names = [device.name for report in reports for device in report.devices if device.name]
    if not names:
        raise InvalidValue("the reports do not name their device; give --system")
    return names[0]


def system_of(*reports: Report) -> System | None:
    """The datasheet of the device that reports name, None where none is known."""
    for device in (device for report in reports for device in report.devices):
        try:
            return hardware_db.load(device.name)
        except RidgelineError:
            continue
    return None


def beside(
    scenario: Scenario,
    reports: Sequence[Report],
    patterns: Sequence[PhasePattern] = profilers.DEFAULT_PHASES,
    phase: str = "",
    steps: Mapping[str, int] | None = None,
) -> Comparison:
    """Reports of one run beside the estimate of a scenario.

    Args:
        phase: what reports that name no phase are taken for, "" to refuse them.
        steps: see `profilers.compare`.

    Raises:
        RidgelineError: names that nobody knows, or reports without a phase.
    """
    measurement = profilers.measure_from(reports, patterns)
    return compared(estimate(scenario), _taken_for(measurement, phase), reports, steps)


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
    step = getattr(estimate, phase)
    whole = intervals.step_latency(estimate, phase)
    operators = intervals.operator_table(step)
    return replace(Expected.of(step), operators=operators, low_s=whole.low_s, high_s=whole.high_s)


def trust(row: Mapping[str, Any]) -> str:
    """The 80 % interval of a compared row in words; nothing where nothing is predicted."""
    return quantities.span(row["low_s"], row["high_s"]) if row["predicted_s"] > 0 else ""


def folded(row: Mapping[str, Any]) -> dict[str, Any]:
    """A compared row for a reader: both ends in one cell, and whether the measurement lies inside.

    row: predicted_s, low_s, high_s, inside and more; where nothing was predicted it has none.
    """
    if "low_s" not in row:
        return dict(row)
    said = {"low_s": trust(row), "inside": _INSIDE[row["inside"]]}
    return {
        _READ.get(key, key): said.get(key, value) for key, value in row.items() if key != "high_s"
    }


def worst(operators: pd.DataFrame, count: int = 10) -> pd.DataFrame:
    """Operators with the largest gaps, in display units.

    operators: of a `Comparison`.
    """
    gaps = operators["gap_s"].abs().sort_values(ascending=False, kind="stable")
    rows = operators.loc[gaps.index[:count]]  # those without a measurement last
    read = pd.DataFrame(map(folded, rows.to_dict("records")))
    for name in ("bound", "predicted", "measured"):
        read[f"{name} [µs]"] = read[f"{name}_s"] / quantities.MICROSECOND
    read["share of gap"] = read["gap_share"]
    return read[list(_WORST)]


def verdict(row: Mapping[str, Any], classes: pd.DataFrame) -> str:
    """Where the measurement of a phase lies, and how many of its operator classes lie inside.

    row: of `Comparison.phases`.  classes: `Comparison.classes`.
    """
    words = f"{str(row['phase']).capitalize()}: "
    if row["inside"] is None:
        words += quantities.NOT_VALIDATED
    elif row["inside"]:
        words += f"the measurement lies inside the 80 % interval, {trust(row)}"
    else:
        side = "above" if row["measured_s"] > row["high_s"] else "below"
        words += f"the measurement lies {side} the 80 % interval, {trust(row)}"
    known = classes["inside"][classes["phase"] == row["phase"]].dropna()
    if len(known):
        words += f"; {int(known.sum())} of {len(known)} operator classes lie inside theirs"
    return f"{words}."


def device_count(reports: Sequence[Report]) -> int:
    """Devices that ran side by side: the most of one report, or the ranks of several."""
    ranks = len({report.facts.get("rank") for report in reports} - {None})
    busy = [len(report.kernels[["process", "device"]].dropna().drop_duplicates())
            for report in reports]  # fmt: skip
    return max([1, ranks, *busy])

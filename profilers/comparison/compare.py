"""Compare an estimate with a measurement: by phase, operator class and operator.

All times are of one step.  ratio is measured over predicted, gap_s is measured minus predicted, and
gap_share is a row's gap over the sum of the absolute gaps of its phase.  low_s and high_s are the
ends of the prediction's interval, NaN where there is none; inside is whether the measurement lies
in it.

For reports with a timeline, measured_s is kernel time inside the steps, and kernels outside of
steps do not count; for a run timed by wall clock it is the time of the step.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from genz_core.errors import InvalidValue
from genz_core.workload import Estimate
from profilers.comparison import profile_account
from profilers.comparison.account import Check, failed
from profilers.comparison.comparable import with_reasons
from profilers.comparison.findings import CAUSES_OF_FAILURE, Finding, all_findings
from profilers.matching.measured_step import HOST, OTHER, compare_phase, fit_notes, measured_phase
from profilers.matching.predicted_step import Expected
from profilers.matching.table_join import ENDS, split_by_shape
from profilers.phases.mixed_steps import expected_mixed
from profilers.phases.summary_steps import counted_note, summary_steps
from profilers.schema import PHASES, Measurement, PhaseTiming, Report

__all__ = ["HOST", "OTHER", "Comparison", "Expected", "compare", "in_phase", "step_count"]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Tables of predicted and measured times, and findings.

    phases: phase, basis, steps, bound_s, predicted_s, low_s, high_s, measured_s, inside, ratio,
    gap_s, gap_share, not_comparable (why, or ""); also wall_s (on the device, from the first to
    the last activity of a step), busy_s and idle_s of it, idle_cause, exposed_communication_s,
    predicted_wall_s (with the host), joined_share (share of kernel time that joined a predicted
    operator), repeats (measured over predicted launches of a step).
    classes: phase, class, bound_s ... as above; "host" is time outside of all operators, "other"
    that of unclassified ones.
    operators: phase, class, name, measured_as, kernels, matched_by, runs, launches, bound_s ... as
    above; "nothing predicted" names what joined no operator.
    findings: sentences, most seconds first.  notes: what was left out, and what does not match.
    truncated: a sentence for each report that breaks off; the same sentences lead `notes`.
    checks: consistency checks of the measurement; no finding uses a step that fails one.
    """

    phases: pd.DataFrame
    classes: pd.DataFrame
    operators: pd.DataFrame
    findings: tuple[Finding, ...]
    notes: tuple[str, ...] = ()
    truncated: tuple[str, ...] = ()
    checks: tuple[Check, ...] = ()

    @property
    def failed(self) -> tuple[Check, ...]:
        """The failed checks; no finding is drawn from a measurement that has any."""
        return failed(self.checks)

    @property
    def joined_share(self) -> float:
        """Share of the measured operator time that joined a predicted operator, in [0, 1]."""
        weight = self.operators.groupby("phase")["measured_s"].sum()
        shares = self.phases.set_index("phase")["joined_share"].reindex(weight.index)
        total = float(weight.sum())
        return float((weight * shares.fillna(0.0)).sum()) / total if total > 0 else 0.0


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
        reports: the reports behind the measurement, for launches, shapes, modules, copies and idle
            times.
        steps: number of steps in each phase, for summaries that do not state it; phases left out
            here are counted by `summary_steps`.
        devices: number of devices in parallel whose operator times the measurement sums.
        config: the configuration of the estimate.
        expected: the predicted steps by phase with their intervals; without them, none have one.
            Mixed steps are priced as the batches that their ranges describe.

    Raises:
        InvalidValue: the measurement has no phase that the estimate prices, or holds only selected
            kernels that ncu ran alone.
    """
    priced, notes = _priced(estimate, measurement, reports, config, expected)
    if not priced:
        raise InvalidValue(
            notes[0] if notes else
            "the measurement names neither prefill nor decode; state the phase, for example --as "
            "prefill"
        )  # fmt: skip
    for phase, step in priced.items():
        _refuse_some_kernels(step, reports, phase)
    operators = split_by_shape(measurement.operators, reports)
    counted = {
        phase: found
        for phase, step in priced.items()
        if phase not in (steps or {})
        and (found := summary_steps(step, reports, phase, devices)) > 1
    }
    notes += [counted_note(phase, found, priced[phase]) for phase, found in counted.items()]
    steps = {**counted, **(steps or {})}
    measured = {
        phase: measured_phase(
            measurement, operators, reports, phase, step_count(measurement, phase, steps), devices,
            overridden=bool(steps and phase in steps),
        )
        for phase in priced
    }  # fmt: skip
    parts = [compare_phase(priced[phase], measured[phase]) for phase in priced]
    tables = [pd.concat(tables, ignore_index=True) for tables in zip(*parts, strict=True)]
    phases, classes, matched = (with_reasons(_with_ratios(table)) for table in tables)
    checks = profile_account.of_comparison(
        phases, classes, priced, measured, measurement, reports, estimate, devices, config
    )
    findings = _resting(
        all_findings(phases, classes, matched, estimate, measurement, measured, config), checks
    )
    notes += [note for some in measured.values() for note in some.notes]
    notes += [note for phase in priced for note in fit_notes(phases, phase)]
    cut = tuple(f"{report.label}: {report.truncated}" for report in reports if report.truncated)
    notes = [*cut, *notes]
    return Comparison(phases, classes, matched, findings, tuple(dict.fromkeys(notes)), cut, checks)


def _resting(findings: Sequence[Finding], checks: Sequence[Check]) -> tuple[Finding, ...]:
    """The findings about steps that pass their checks, and those that say why a step fails one.

    An operator class that beats the hardware limit removes only the findings about that class.
    """
    apart = {one.phase for one in checks if one.outcome == "failed" and not one.part}
    return tuple(
        one for one in findings if one.kind in CAUSES_OF_FAILURE or not ({"", one.phase} & apart)
    )


def _priced(
    estimate: Estimate,
    measurement: Measurement,
    reports: Sequence[Report],
    config: int,
    expected: Mapping[str, Expected] | None,
) -> tuple[dict[str, Expected], list[str]]:
    """The predicted step of each phase of the measurement, and why a phase has none."""
    named = {*measurement.phases, *measurement.operators["phase"].dropna()}
    priced: dict[str, Expected] = {}
    notes = []
    for phase in (phase for phase in PHASES if phase in named):
        step = (expected or {}).get(phase)
        if step is None and phase == "mixed":
            step = expected_mixed(estimate, reports)
        elif step is None:
            step = Expected.from_step(getattr(estimate, phase), config)
        if step is None:
            notes.append(
                "mixed steps are not compared: their ranges do not state their prompts and "
                "sequences"
            )
        else:
            priced[phase] = step
    return priced, notes


#: Fewer ncu launches than this share of a step's operators are selected kernels, not a step.
_A_STEP = 0.5


def _refuse_some_kernels(step: Expected, reports: Sequence[Report], phase: str) -> None:
    """Refuse reports of kernels that were selected for ncu: their sum is not the time of a step.

    Raises:
        InvalidValue: the reports hold far fewer launches than a step has operators.
    """
    if not reports or any(report.tool != "ncu" for report in reports):
        return
    launched = sum(
        int(r.kernels["count"][r.kernels["phase"].isin((phase,)) | r.kernels["phase"].isna()].sum())
        for r in reports
    )
    runs = sum(step.operators["runs"])
    if launched < _A_STEP * runs:
        raise InvalidValue(
            f"ncu timed {launched:,} launch{'es' if launched != 1 else ''}, and a step of {phase} "
            f"runs {runs:,.0f} operators: selected kernels do not form a step; `ridgeline import` "
            "and page Upload show what each kernel reaches"
        )


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

    A live run profiles one request; a report has as many steps as timings.

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
    """Whether a measurement lies in an interval; None where there is no interval or no
    measurement.
    """
    if math.isnan(low_s) or not measured_s > 0:
        return None
    return bool(low_s <= measured_s <= high_s)

"""Profiler reports against predictions: the comparison, its rows in display units, its verdict."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

import model_registry
import profilers
from app.measuring import identity
from app.measuring.completion import (
    Difference,
    Filled,
    Filling,
    differences,
    estimate_filled,
    filled,
    filled_names,
)
from app.measuring.device_by_size import device_name, with_device
from app.measuring.identity import Known, as_given
from app.measuring.unfused_kernels import as_it_ran
from app.question.query import Query
from app.question.question import Question
from app.question.validity import refuse_meaningless
from app.scenario import intervals, operator_intervals
from app.scenario.scenario import Resolved, resolve
from app.scenario.served_rows import completed
from app.wording import quantities
from genz_core import Estimate
from genz_core.errors import InvalidValue, RidgelineError
from profilers import Comparison, Measurement, PhasePattern, Report
from profilers.comparison.compare import Expected, in_phase, step_count
from profilers.matching.table_join import NOTHING
from profilers.phases.inferred_phases import phased
from profilers.phases.summary_steps import summary_steps
from profilers.phases.what_ran import WhatRan, what_ran

#: Columns of a compared row for a reader.
_SHOWN_NAMES = {"low_s": "80 %", "inside": "inside 80 %"}
_WORST = (
    "name", "phase", "class", "bound [µs]", "predicted [µs]", "80 %", "measured [µs]",
    "inside 80 %", "ratio", "share of gap", "measured_as", "matched_by", "runs", "launches",
)  # fmt: skip
#: Meaning of the columns of `worst`.
COLUMN_HELP = {
    "measured_as": "Modules, operators or kernels that the reports name",
    "matched_by": "How prediction and measurement were matched, strongest first: by the module "
    "around the launches, the shapes of their operands, their position in the sequence of layers, "
    "the FLOPs of one run, or as the rest of their class; none: only one side exists",
    "80 %": "Four of five held-out measurements of such operators lie within",
    "inside 80 %": "Whether this measurement lies within",
}
#: The main cause of a step's idle time, in short.
CAUSE_WORDS: Mapping[str, str] = {
    "launch-bound": "mostly launch-bound",
    "host": "mostly for the host",
    "synchronisation": "mostly after the host had waited",
    "graph": "mostly between kernels of a graph",
    "device": "mostly between kernels launched in time",
    "unknown": "cause unknown",
}
_INSIDE = {True: "yes", False: "no", None: ""}


@dataclass(frozen=True, slots=True)
class Compared:
    """A comparison, with what was priced, the fields filled from the run, and the certainty of each
    fact.
    """

    comparison: Comparison
    resolved: Resolved
    filled: Filled
    identity: tuple[Known, ...] = ()


def compare_asked(
    reports: Sequence[Report],
    query: Query,
    patterns: Sequence[PhasePattern] = profilers.DEFAULT_PHASES,
    *,
    phase: str = "",
    steps: Mapping[str, int] | None = None,
    fill: bool = True,
) -> Compared:
    """Compare the reports of one run with the estimate of a question, completed from the run.

    If the run contradicts what is priced, no finding is stated.

    Args:
        asked: of the verb "compare"; without a system, the device named in the reports.
        patterns: those that the reports were read with.
        phase: "prefill" or "decode" for reports that name none, "" to infer it.
        steps: number of steps in each phase of the reports, see `profilers.compare`.
        fill: take fields that were not given from the run.

    Raises:
        RidgelineError: a question that cannot be priced, or reports whose phase cannot be
            determined.
    """
    if phase not in ("", "prefill", "decode"):
        raise InvalidValue(f"{phase!r} is not a phase; choose prefill or decode")
    question = _of_a_batch(query)
    found = with_device(what_ran([phased(report, "", patterns) for report in reports]), reports)
    names = []
    if "model" not in query.given:
        names = [_certain_model(found, [report.label for report in reports])]
        question = replace(question, model=names[0].value)
    reports = [phased(report, phase, patterns) for report in reports]
    if "system" not in query.given:
        question = replace(question, system=device_name(reports))
    names += filled_names(found, query.given) if fill else []
    question = replace(question, **{one.field: one.value for one in names})
    resolved = completed(resolve(question, query.objects), query.objects)
    rest = filled(question, found, resolved.model, query.given) if fill else Filled(question)
    if any(one.field in ("weights", "kv") for one in rest.fillings):
        resolved = completed(resolve(rest.scenario, query.objects), query.objects)
    resolved = as_it_ran(replace(resolved, scenario=rest.scenario), found)
    measurement = profilers.measure_from(reports, patterns)
    measurement = in_phase(measurement, phase) if phase else measurement
    comparison = compared(estimate_filled(resolved, rest.loads), measurement, reports, steps)
    apart = (*_phase_differs(phase, found), *differences(resolved, found, rest.loads))
    if apart:
        comparison = replace(comparison, findings=())
    rest = replace(rest, fillings=(*names, *rest.fillings), differences=apart)
    known = identity.of_reports(found, reports, resolved.model)
    known = as_given(known, rest.scenario, query.given)
    return Compared(comparison, resolved, rest, known)


def _certain_model(ran: WhatRan, labels: Sequence[str]) -> Filling:
    """The model that the run states.

    labels: names of the reports' files.

    Raises:
        InvalidValue: it states none, or one that is unknown here; the message names the likely one.
    """
    known = identity.model(ran, labels)
    if known.certainty == "certain":
        if not _in_library(known.value):
            raise InvalidValue(
                f"the model is {known.value} ({known.evidence}), which is not in the library: give "
                "its config.json with --model"
            )
        return Filling("model", known.value, known.evidence)
    if known.value:
        raise InvalidValue(
            f"the reports do not state their model: give --model {known.value} (likely: "
            f"{known.evidence}) or another"
        )
    raise InvalidValue(f"the reports do not state their model ({known.evidence}): give --model")


def _in_library(name: str) -> bool:
    """Whether the library has a model of exactly this name."""
    try:
        return model_registry.load(name).name == name
    except RidgelineError:
        return False


def _of_a_batch(query: Query) -> Question:
    """The question, checked to have a static batch as its load."""
    question = query.question
    if question.kind != "batch":
        raise InvalidValue(
            f"{question.kind} does not apply to reports of single steps: give a batch, or leave it "
            "out"
        )
    refuse_meaningless(question)
    return question


def _phase_differs(phase: str, ran: WhatRan) -> tuple[Difference, ...]:
    """A note where shapes contradict the given phase."""
    others = [name for name in ran.steps if name in ("prefill", "decode")]
    if not phase or not others or phase in others:
        return ()
    return (Difference("phase", phase, others[0], "the shapes of its operators"),)


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


def steps_measured(
    estimate: Estimate, measurement: Measurement, reports: Sequence[Report], phase: str
) -> int:
    """Number of steps of a phase in a measurement; for a summary, counted by its launches."""
    if phase in ("prefill", "decode"):
        step = Expected.from_step(getattr(estimate, phase))
        if counted := summary_steps(step, reports, phase, device_count(reports)):
            return counted
    return step_count(measurement, phase)


def _expected(estimate: Estimate, phase: str) -> Expected:
    """The step of a phase with the intervals of its operators and of the whole."""
    step = getattr(estimate, phase)
    whole = intervals.step_latency(estimate, phase)
    operators = operator_intervals.operator_table(step)
    without_intervals = Expected.from_step(step)
    return replace(without_intervals, operators=operators, low_s=whole.low, high_s=whole.high)


def interval_text(row: Mapping[str, Any]) -> str:
    """The 80 % interval of a compared row in words; "" where nothing is predicted."""
    return quantities.span(row["low_s"], row["high_s"]) if row["predicted_s"] > 0 else ""


def folded(row: Mapping[str, Any]) -> dict[str, Any]:
    """A compared row with both ends of its interval in one cell and "yes" or "no" for inside.

    row: predicted_s, low_s, high_s, inside and more; one without low_s is unchanged.
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
    rows = with_subjects(operators.loc[gaps.index[:count]])
    shown = pd.DataFrame(map(folded, rows.to_dict("records")))
    for name in ("bound", "predicted", "measured"):
        shown[f"{name} [µs]"] = shown[f"{name}_s"] / quantities.MICROSECOND
    shown["share of gap"] = shown["gap_share"]
    return shown[list(_WORST)]


def with_subjects(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of a comparison, with descriptions added to the names of unpredicted operators.

    rows: of `Comparison.operators`; other tables are unchanged.
    """
    if "measured_as" not in rows.columns:
        return rows
    alone = rows["name"] == NOTHING
    return rows.assign(name=rows["name"].mask(alone, NOTHING + ": " + rows["measured_as"]))


def clocks_text(row: Mapping[str, Any]) -> str:
    """A sentence on wall, busy and idle time of a phase, and the share of time in matched rows.

    row: of `Comparison.phases`; "" where none of it is known.
    """
    said = []
    if row["wall_s"] > 0 and row["idle_s"] >= 0:
        wall, busy, idle = (quantities.seconds(row[f"{n}_s"]) for n in ("wall", "busy", "idle"))
        cause = f" ({CAUSE_WORDS[row['idle_cause']]})" if row["idle_cause"] else ""
        said.append(f"a step takes {wall}, busy for {busy} and idle for {idle}{cause}")
    if row["joined_share"] >= 0:
        share = f"{100 * row['joined_share']:.0f} %"
        said.append(f"{share} of its operators' time is matched with predicted operators")
    if row["not_comparable"]:
        said.append(f"not comparable, {row['not_comparable']}")
    return f"{str(row['phase']).capitalize()}: {'; '.join(said)}." if said else ""


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
        inside, verb = int(judged.sum()), "lies" if judged.sum() == 1 else "lie"
        sentence += f"; {inside} of {len(judged)} operator classes {verb} inside theirs"
    return f"{sentence}."


def device_count(reports: Sequence[Report]) -> int:
    """Number of devices in parallel: the most in one report, or the number of ranks."""
    ranks = len({report.facts.get("rank") for report in reports} - {None})
    busy = [len(report.kernels[["process", "device"]].dropna().drop_duplicates())
            for report in reports]  # fmt: skip
    return max([1, ranks, *busy])

"""Rule-based findings of a comparison, ranked by the seconds of a step that each could save."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from genz_core.common.quantities import count, percent, seconds
from genz_core.common.short_repr import shortened
from genz_core.workload import Estimate
from profilers.comparison.comparable import REASON
from profilers.comparison.profile_account import time_by_format
from profilers.matching.measured_step import DEVICE_BASES, MeasuredPhase
from profilers.matching.table_join import NOTHING
from profilers.operators.kernel_classes import class_of_name
from profilers.schema import Measurement
from profilers.timeline.idle import CAUSES

#: Names of operator classes inside a sentence.
CLASS_WORDS: Mapping[str, str] = {
    "gemm": "matrix products",
    "moe": "experts",
    "ssm": "state-space layers",
    "pointwise": "pointwise operators",
    "norm": "norms",
    "collective": "collectives",
    "other": "unclassified kernels",
}
_SAME = ({"bf16", "fp16"},)  # classes whose peak is the same number on all systems
#: Findings that explain a failed check; they replace all others.
CAUSES_OF_FAILURE = ("not comparable", "precision", "clocks")

LOW_ROOF, SHORT_KERNEL_S, MANY_LAUNCHES = 0.6, 5e-6, 200
_MUCH_IDLE, _MUCH_COPIED, _MUCH_EXPOSED = 0.1, 0.05, 0.05


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding in a sentence.

    kind: its rule.  seconds: time of a step that could be saved; 0 where the finding is a caution.
    operator: the predicted operator that it concerns most, "" for none.  kernels: names of the
    longest kernels of that operator, "" for none.
    """

    kind: str
    phase: str
    sentence: str
    seconds: float
    operator: str = ""
    kernels: str = ""


def all_findings(
    phases: pd.DataFrame,
    classes: pd.DataFrame,
    operators: pd.DataFrame,
    estimate: Estimate,
    measurement: Measurement,
    measured: Mapping[str, MeasuredPhase],
    config: int = 0,
) -> tuple[Finding, ...]:
    """Findings of all rules on the tables of a `Comparison`, most seconds first.

    measured: the measured phases behind the tables.
    """
    findings: list[Finding] = []
    for whole in phases.to_dict("records"):
        phase = str(whole["phase"])
        rows = classes[(classes["phase"] == phase) & classes["measured_s"].notna()]
        mine = operators[(operators["phase"] == phase) & operators["measured_s"].notna()]
        found = measured[phase]
        findings += _not_comparable(whole, rows, mine)
        findings += _idle(found)
        findings += _launch_bound(found, whole, mine)
        findings += _roofs(whole, rows, mine)
        findings += _copies(found, whole, mine)
        if phase != "mixed":
            findings += _precision(found, estimate, config)
    longest = float(phases["measured_s"].max())
    findings += _clocks(estimate, measurement, longest)
    return tuple(sorted(findings, key=lambda finding: -finding.seconds))


def _not_comparable(
    whole: Mapping[str, float], rows: pd.DataFrame, operators: pd.DataFrame
) -> Iterator[Finding]:
    """A phase that took less time than its bound, and the classes of it that did."""
    phase = str(whole["phase"])
    subjects = [(f"A whole step of {phase}", "takes", whole)] if whole["not_comparable"] else [
        (*_subject(str(row["class"]), "take", "takes"), row)
        for row in rows[rows["not_comparable"] != ""].to_dict("records")
        if row["bound_s"] > 0.03 * whole["measured_s"]
    ]  # fmt: skip
    for subject, verb, row in subjects:
        mine = operators if "class" not in row else operators[operators["class"] == row["class"]]
        name, kernels = _named(mine.assign(lost=mine["bound_s"] - mine["measured_s"]))
        place = "" if row is whole else f" in {phase}"
        sentence = (
            f"{subject}{place} {verb} {seconds(row['measured_s'])} against a bound of "
            f"{seconds(row['bound_s'])} and cannot be compared: {REASON}."
        )
        yield Finding("not comparable", phase, sentence, 0.0, name, kernels)


def _named(operators: pd.DataFrame) -> tuple[str, str]:
    """Name and kernels of the predicted operator that lost most time."""
    predicted = operators[operators["name"] != NOTHING]
    if not len(predicted) or not predicted["lost"].notna().any():
        return "", ""
    row = predicted.loc[predicted["lost"].idxmax()]
    return str(row["name"]), str(row["kernels"] or row["measured_as"])


def _idle(found: MeasuredPhase) -> Iterator[Finding]:
    """Steps in which the device waits, or in which only collectives run."""
    clocks, phase = found.clocks, found.phase
    if clocks is None or not clocks.wall_s > 0:
        return
    if clocks.idle_s > _MUCH_IDLE * clocks.wall_s:
        parts = sorted(clocks.causes.items(), key=lambda item: -item[1])
        said = "; ".join(
            f"{percent(part / clocks.idle_s)} {CAUSES[name]}"
            for name, part in parts if part > 0.1 * clocks.idle_s
        )  # fmt: skip
        kind = "launch-bound" if clocks.cause == "launch-bound" else "idle"
        yield Finding(
            kind, phase,
            f"A step of {phase} takes {seconds(clocks.wall_s)} on the device, which is idle for "
            f"{seconds(clocks.idle_s)} of it ({percent(clocks.idle_s / clocks.wall_s)}): {said}.",
            clocks.idle_s,
        )  # fmt: skip
    if clocks.exposed_communication_s > _MUCH_EXPOSED * clocks.wall_s:
        share = percent(clocks.exposed_communication_s / clocks.wall_s)
        yield Finding(
            "exposed communication", phase,
            f"Collectives run alone for {seconds(clocks.exposed_communication_s)} ({share}) of a "
            f"step of {phase}, without overlapping compute.", clocks.exposed_communication_s,
        )  # fmt: skip
    if clocks.between_s > _MUCH_IDLE * clocks.wall_s:
        yield Finding(
            "idle between steps", phase,
            f"Between two steps of {phase} the device idles for {seconds(clocks.between_s)} "
            f"(median); a step takes {seconds(clocks.wall_s)}.", clocks.between_s,
        )  # fmt: skip


def _launch_bound(
    found: MeasuredPhase, whole: Mapping[str, float], rows: pd.DataFrame
) -> Iterator[Finding]:
    """Steps spent between operators, or made of kernels as short as a launch; where a timeline
    shows the gaps themselves, see `_idle`.
    """
    phase, total = found.phase, found.total_s
    busy, launches = float(rows["measured_s"].sum()), float(rows["launches"].sum())
    if found.clocks is not None or not launches:
        return
    each = busy / launches
    kernels = f"{count(launches)} launches of {seconds(each)} each"
    if found.basis not in DEVICE_BASES and busy < 0.6 * total:
        between = total - busy
        yield Finding(
            "launch-bound", phase,
            f"{phase.capitalize()} is host-bound: {percent(between / total)} of its "
            f"{seconds(total)} a step lie between operators ({kernels}).", between,
        )  # fmt: skip
    elif launches >= MANY_LAUNCHES and each < SHORT_KERNEL_S and found.on_device:
        yield Finding(
            "launch-bound", phase,
            f"{phase.capitalize()} runs {kernels}, about as long as a launch takes: without a CUDA "
            "graph the host limits the speed.", max(busy - float(whole["predicted_s"]), 0.0),
        )  # fmt: skip


def _roofs(
    whole: Mapping[str, float], rows: pd.DataFrame, operators: pd.DataFrame
) -> Iterator[Finding]:
    """Operator classes that are far from their bound and slower than predicted."""
    phase, total = str(whole["phase"]), float(whole["measured_s"])
    for row in rows.to_dict("records"):
        bound, measured, predicted = row["bound_s"], row["measured_s"], row["predicted_s"]
        if not (bound > 0 and measured > 0.03 * total) or bound / measured >= LOW_ROOF:
            continue
        lost = measured - max(predicted, bound)
        if lost <= 0:
            continue
        subject, verb = _subject(row["class"], "reach", "reaches")
        mine = operators[operators["class"] == row["class"]]
        name, kernels = _named(mine.assign(lost=mine["measured_s"] - mine["predicted_s"]))
        several = int((mine["name"] != NOTHING).sum()) > 1
        most = f" Most of the gap is in {name}." if name and several else ""
        sentence = (
            f"{subject} in {phase} {verb} {percent(bound / measured)} of the roof, "
            f"predicted {percent(bound / predicted)}: {seconds(measured)} against "
            f"{seconds(predicted)} per step.{most}"
        )
        yield Finding("below roof", phase, sentence, lost, name, kernels)


def _copies(
    found: MeasuredPhase, whole: Mapping[str, float], rows: pd.DataFrame
) -> Iterator[Finding]:
    """Copies, casts and fills that joined no operator and take more than 5 % of a step."""
    total = float(whole["measured_s"])
    if found.launches is not None:
        mine = rows[(rows["name"] == NOTHING) & rows["kernels"].map(_copies_data)]
        spent, launches = float(mine["measured_s"].sum()), float(mine["launches"].sum())
        names = ", ".join(mine["kernels"].head(2))
    elif len(found.operators):
        mine = found.operators[found.operators["kind"] == "memory"]
        spent, launches = float(mine["time_s"].sum()), float(mine["launches"].sum())
        names = ", ".join(shortened(str(name)) for name in mine["name"].head(2))
    else:
        return
    if spent > _MUCH_COPIED * total > 0:
        yield Finding(
            "copies", found.phase,
            f"Copies, casts and fills take {percent(spent / total)} of {found.phase} "
            f"({seconds(spent)} a step, {count(launches)} launches); the prediction includes none.",
            spent, "", names,
        )  # fmt: skip


def _copies_data(kernels: str) -> bool:
    return class_of_name(kernels) == "memory"


def _precision(found: MeasuredPhase, estimate: Estimate, config: int) -> Iterator[Finding]:
    """Matrix products whose kernel names indicate another number format than the predicted one."""
    table = getattr(estimate, found.phase).table(config)
    chosen = np.array(table["class"]) == "gemm"
    spent = time_by_format(found)
    if not chosen.any() or not spent:
        return
    seconds_of = np.where(chosen, np.array(table["predicted_s"], dtype=float), 0.0)
    meant = str(table["compute"][int(np.argmax(seconds_of))])
    total_s = sum(time_s for time_s, _ in spent.values())
    others = {k: v for k, v in spent.items() if k != meant and {k, meant} not in _SAME}
    if total_s and sum(time_s for time_s, _ in others.values()) > 0.2 * total_s:
        kind = max(others, key=lambda k: others[k][0])
        time_s, kernel = others[kind]
        yield Finding(
            "precision", found.phase,
            f"{percent(time_s / total_s)} of the time of matrix products in {found.phase} is in "
            f"kernels that compute in {kind}; the prediction is for {meant}.", time_s, "",
            shortened(kernel, 60),
        )  # fmt: skip


def _clocks(estimate: Estimate, measurement: Measurement, longest: float) -> Iterator[Finding]:
    """Clocks below the datasheet's, as reported by NVML or the report."""
    ran = measurement.facts.get("sm_clock_hz_mean")
    if ran is None and measurement.system is not None:
        ran = measurement.system.clock_hz
    meant = estimate.system.clock_hz
    if ran and meant and float(ran) < 0.9 * meant:
        share = 1.0 - float(ran) / meant
        yield Finding(
            "clocks", "",
            f"The device ran at {float(ran) / 1e6:,.0f} MHz, {percent(share)} below the "
            f"{meant / 1e6:,.0f} MHz that the prediction assumes.",
            longest * share if math.isfinite(longest) else 0.0,
        )  # fmt: skip


def _subject(name: str, plural: str, singular: str) -> tuple[str, str]:
    """A class as the subject of a sentence, and the matching form of the verb."""
    words = CLASS_WORDS.get(name)
    return (words.capitalize(), plural) if words else (name.capitalize(), singular)

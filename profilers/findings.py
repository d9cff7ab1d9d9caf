"""Rule-based findings on a comparison, ranked by the seconds of a step at stake."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from genz_core.workload import Estimate
from profilers.schema import Measurement, Report
from profilers.summary import summarise
from profilers.wording import count, percent, seconds

#: What a class is called inside a sentence.
_WORDS: Mapping[str, str] = {
    "gemm": "matrix products",
    "moe": "experts",
    "ssm": "state-space layers",
    "pointwise": "pointwise operators",
    "norm": "norms",
    "collective": "collectives",
    "other": "unclassified kernels",
}
#: Arithmetic types by patterns of kernel names; the first match counts.
_TYPES: tuple[tuple[str, str], ...] = (
    ("fp4", r"nvf4|mxf4|e2m1|fp4"),
    ("fp8", r"e4m3|e5m2|fp8|f8f8|float8|qgmma"),
    ("int8", r"s8s8|i8i8|imma|int8|s8_|i16832"),
    ("bf16", r"bf16|bfloat16|_bbs_|_bb_"),
    ("fp16", r"hgemm|h16|f16f16|fp16|float16|half|s16816gemm_f16|s161616gemm_f16"),
    ("tf32", r"tf32"),
    ("fp32", r"sgemm|f32f32|ffma|_sb_"),
)
_KINDS = tuple((name, re.compile(pattern, re.IGNORECASE)) for name, pattern in _TYPES)
_SAME = ({"bf16", "fp16"},)  # one peak on all systems

LOW_ROOF, SHORT_KERNEL_S, MANY_LAUNCHES = 0.6, 5e-6, 200


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding in a sentence.  kind: its rule.  seconds: of a step, at stake."""

    kind: str
    phase: str
    sentence: str
    seconds: float


def all_findings(
    phases: pd.DataFrame,
    classes: pd.DataFrame,
    operators: pd.DataFrame,
    estimate: Estimate,
    measurement: Measurement,
    reports: Sequence[Report] = (),
    config: int = 0,
) -> tuple[Finding, ...]:
    """Findings of all rules on the tables of a `Comparison`, most seconds first."""
    findings: list[Finding] = []
    for whole in phases.to_dict("records"):
        phase, total = str(whole["phase"]), float(whole["measured_s"])
        rows = classes[classes["phase"] == phase]
        launches = _launches(measurement, phase) / int(whole["steps"])
        findings += _launch_bound(phase, total, str(whole["basis"]), rows, launches)
        findings += _roofs(phase, total, rows)
        findings += _below_bound(phase, total, rows)
        findings += _copies(phase, total, int(whole["steps"]), measurement)
        findings += _precision(phase, estimate, measurement, config)
    longest = float(phases["measured_s"].max())
    findings += [*_idle(reports, longest), *_clocks(estimate, measurement, longest)]
    findings += _other_device(estimate, measurement, longest)
    return tuple(sorted(findings, key=lambda finding: -finding.seconds))


def _launches(measurement: Measurement, phase: str) -> float:
    """Launches in the operator table of a phase."""
    operators = measurement.operators
    return float(operators["count"][operators["phase"] == phase].sum())


def _launch_bound(
    phase: str, total: float, basis: str, rows: pd.DataFrame, launches: float
) -> Iterator[Finding]:
    """Steps whose time lies between operators, or whose kernels are as short as a launch."""
    busy = float(rows["measured_s"][rows["class"] != "host"].sum())
    each = busy / launches if launches else 0.0
    kernels = f"{count(launches)} launches of {seconds(each)} each"
    if basis in ("wall", "cpu") and launches and busy < 0.6 * total:
        between = total - busy
        yield Finding(
            "launch-bound", phase,
            f"{phase.capitalize()} is bound by the host: {percent(between / total)} of its "
            f"{seconds(total)} a step lie between operators ({kernels}).", between,
        )  # fmt: skip
    elif launches >= MANY_LAUNCHES and each < SHORT_KERNEL_S and basis in ("gpu", "kernels"):
        yield Finding(
            "launch-bound", phase,
            f"{phase.capitalize()} runs {kernels}, about as long as a launch takes: outside a "
            "CUDA graph the host sets the pace.", busy,
        )  # fmt: skip


def _roofs(phase: str, total: float, rows: pd.DataFrame) -> Iterator[Finding]:
    """Operator classes far below their bound and slower than predicted."""
    for row in rows.to_dict("records"):
        bound, measured, predicted = row["bound_s"], row["measured_s"], row["predicted_s"]
        if not (bound > 0 and measured > 0.03 * total) or bound / measured >= LOW_ROOF:
            continue
        lost = measured - max(predicted, bound)
        if lost <= 0:
            continue
        subject, verb = _subject(row["class"], "reach", "reaches")
        sentence = (
            f"{subject} in {phase} {verb} {percent(bound / measured)} of the roof, "
            f"{percent(bound / predicted)} was predicted: {seconds(measured)} against "
            f"{seconds(predicted)} a step."
        )
        yield Finding("below roof", phase, sentence, lost)


def _below_bound(phase: str, total: float, rows: pd.DataFrame) -> Iterator[Finding]:
    """Operator classes faster than their bound allows."""
    for row in rows.to_dict("records"):
        bound, measured = row["bound_s"], row["measured_s"]
        if not (0 < measured < 0.97 * bound and bound > 0.03 * total):
            continue
        subject, verb = _subject(row["class"], "take", "takes")
        sentence = (
            f"{subject} in {phase} {verb} {seconds(measured)}, less than the bound of "
            f"{seconds(bound)}: the run did less than was priced (tokens, layers, precision), "
            "its operands were cached, or its kernels have other names."
        )
        yield Finding("faster than light", phase, sentence, bound - measured)


def _copies(phase: str, total: float, steps: int, measurement: Measurement) -> Iterator[Finding]:
    """Copies, casts and fills that take more than 5 % of a step."""
    operators = measurement.operators
    rows = operators[(operators["phase"] == phase) & (operators["kind"] == "memory")]
    spent = float(rows["time_s"].sum()) / steps
    if spent > 0.05 * total > 0:
        yield Finding(
            "copies", phase,
            f"Copies, casts and fills take {percent(spent / total)} of {phase} "
            f"({seconds(spent)} a step, {count(rows['count'].sum() / steps)} launches); the "
            "prediction has none.", spent,
        )  # fmt: skip


def _idle(reports: Sequence[Report], longest: float) -> Iterator[Finding]:
    """Reports in which the device is idle for more than 10 % of the span."""
    for report in reports:
        figures = summarise(report)
        share = figures["idle_share"]
        if share is not None and share > 0.1:
            yield Finding(
                "idle", "",
                f"The device is idle for {percent(share)} of the {seconds(figures['span_s'])} that "
                f"{report.label} covers.", longest * share,
            )  # fmt: skip


def _clocks(estimate: Estimate, measurement: Measurement, longest: float) -> Iterator[Finding]:
    """Clocks below the datasheet's, as NVML or the report state them."""
    ran = measurement.facts.get("sm_clock_hz_mean")
    if ran is None and measurement.system is not None:
        ran = measurement.system.clock_hz
    meant = estimate.system.clock_hz
    if ran and meant and float(ran) < 0.9 * meant:
        share = 1.0 - float(ran) / meant
        yield Finding(
            "clocks", "",
            f"The device ran at {float(ran) / 1e6:,.0f} MHz, {percent(share)} below the "
            f"{meant / 1e6:,.0f} MHz that the prediction assumes.", longest * share,
        )  # fmt: skip


def _other_device(
    estimate: Estimate, measurement: Measurement, longest: float
) -> Iterator[Finding]:
    """A device that is plainly not the one of the estimate."""
    device, system = measurement.system, estimate.system
    if device is None:
        return
    for name, ran, meant in (
        ("memory bandwidth", device.memory_bytes_per_s, system.memory_bytes_per_s),
        ("number of units", device.units, system.compute_units),
    ):
        if ran and meant and not 0.85 < ran / meant < 1.18:
            yield Finding(
                "other device", "",
                f"The measurement comes from {device.name or 'a device'} whose {name} is "
                f"{ran / meant:.2g}× that of {system.name}: predict for the device that ran.",
                longest,
            )  # fmt: skip
            return


def _precision(
    phase: str, estimate: Estimate, measurement: Measurement, config: int
) -> Iterator[Finding]:
    """Matrix products whose kernel names spell another number format than the predicted one."""
    table = getattr(estimate, phase).table(config)
    chosen = np.array(table["class"]) == "gemm"
    if not chosen.any():
        return
    seconds_of = np.where(chosen, np.array(table["predicted_s"], dtype=float), 0.0)
    meant = str(table["compute"][int(np.argmax(seconds_of))])
    operators = measurement.operators
    products = operators[(operators["phase"] == phase) & (operators["class"] == "gemm")]
    spent: dict[str, float] = {}
    for name, time_s in zip(products["name"], products["time_s"], strict=True):
        spelled = type_of_name(str(name))
        if spelled:
            spent[spelled] = spent.get(spelled, 0.0) + float(time_s)
    total_s = sum(spent.values())
    others = {k: v for k, v in spent.items() if k != meant and {k, meant} not in _SAME}
    if total_s and sum(others.values()) > 0.2 * total_s:
        kind = max(others, key=lambda k: others[k])
        share = others[kind] / total_s
        yield Finding(
            "precision", phase,
            f"{percent(share)} of the time of matrix products in {phase} is in kernels that "
            f"compute in {kind}; the prediction is for {meant}.", others[kind],
        )  # fmt: skip


def type_of_name(name: str) -> str | None:
    """The number format in the name of a matrix product's kernel; None where there is none."""
    return next((kind for kind, pattern in _KINDS if pattern.search(name[:2000])), None)


def _subject(name: str, plural: str, singular: str) -> tuple[str, str]:
    """A class as the subject of a sentence, and the matching form of the verb."""
    words = _WORDS.get(name)
    return (words.capitalize(), plural) if words else (name.capitalize(), singular)

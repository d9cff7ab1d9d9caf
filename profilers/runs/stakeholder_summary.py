"""stakeholder_summary.md: latency, throughput and findings of a run without jargon."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from genz_core.common.quantities import percent, seconds
from profilers.runs.run_bundle import Material
from profilers.schema import Measurement


def summary_text(material: Material) -> str:
    """The run as a short list of sentences, in Markdown."""
    m = material.measurement
    lines = [f"# {m.model or 'The model'} on {device_name(m)}, in short", ""]
    if (first := m.phases.get("prefill")) and first.samples_s:
        lines.append(f"- The first word of an answer appears after {seconds(first.median_s)}.")
    if (step := m.phases.get("decode")) and step.samples_s:
        batch = float(np.max(m.workload.batch)) if m.workload else 1.0
        lines.append(
            f"- After that, one word follows every {seconds(step.median_s)}; "
            f"{f'{batch:.0f} answers at once make' if batch > 1 else 'one answer makes'} "
            f"{batch / step.median_s:,.0f} tokens a second."
        )
    if material.comparison is not None:
        lines += [_gap_in_words(row) for row in material.comparison.phases.to_dict("records")]
        lines += [f"- {finding.sentence}" for finding in material.comparison.findings[:3]]
    lines += _steps_in_words(material.steps)
    if len(lines) == 2:
        lines.append("- Nothing was timed.")
    return "\n".join(lines) + "\n"


def _steps_in_words(steps: Sequence[Mapping[str, Any]]) -> list[str]:
    """Sentences on a sweep: how many sizes were timed, and the median error of predictions."""
    if not steps:
        return []
    timed = [row for row in steps if row["status"] == "ok"]
    errors = [abs(row["error"]) for row in timed if math.isfinite(row["error"])]
    lines = [f"- {len(timed)} of {len(steps)} sizes were timed."]
    if errors:
        lines.append(
            f"- The median error of the predictions is {percent(float(np.median(errors)))}."
        )
    return lines


def _gap_in_words(row: Mapping[str, Any]) -> str:
    """Sentence on a compared phase: its speed relative to the prediction and to the bound."""
    ratio, room = row["ratio"], row["measured_s"] / row["bound_s"] if row["bound_s"] else math.nan
    pace = "as fast as expected" if 0.9 <= ratio <= 1.1 else (
        f"{ratio:.2g} times slower than expected" if ratio > 1 else
        f"{1 / ratio:.2g} times faster than expected" if ratio > 0 else "not timed"
    )  # fmt: skip
    return (
        f"- {str(row['phase']).capitalize()} ran {pace}; the hardware alone would allow "
        f"{f'{room:.2g}' if room < 100 else f'{room:,.0f}'} times the speed."
    )


def device_name(measurement: Measurement) -> str:
    """The name of the device that ran, "a device" where it is unknown."""
    return measurement.system.name if measurement.system and measurement.system.name else "a device"

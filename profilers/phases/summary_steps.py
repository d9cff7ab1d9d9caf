"""Number of steps that a summary adds up: its attention launches over the layers of the model.

A summary has no timeline, so nothing else distinguishes one step from 64.
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from profilers.matching.predicted_step import Expected
from profilers.schema import Report

_ATTENTION = "attention"


def summary_steps(step: Expected, reports: Sequence[Report], phase: str, devices: int = 1) -> int:
    """Number of steps of a phase in summaries, 0 where it cannot be determined.

    Args:
        step: the predicted one.  devices: in parallel, whose launches are summed.
    """
    mine = (report.kernels[report.kernels["phase"] == phase] for report in reports)
    if any(bool(kernels["start_s"].notna().any()) for kernels in mine):
        return 0
    steps = launched_steps(step, reports, phase, devices)
    return int(steps) if steps == int(steps) else 0


def launched_steps(
    step: Expected, reports: Sequence[Report], phase: str, devices: int = 1
) -> float:
    """Attention launches over the runs of attention in a step, 0 where this cannot be determined.

    All attention kernels, variants of one taken together, must have been launched equally often: a
    model with a second kind of attention beside its layers (an image encoder) cannot be counted.

    Args:
        step: the predicted one.  devices: in parallel, whose launches are summed.
    """
    layers = _attention_runs(step)
    counts: pd.Series = pd.Series(dtype=float)
    for report in reports:
        kernels = report.kernels[report.kernels["phase"] == phase]
        mine = kernels[kernels["operator_class"] == _ATTENTION]
        if not len(mine):
            continue
        names = mine["name"].astype(str).str.partition("<")[0]
        counts = counts.add(mine["count"].groupby(names).sum(), fill_value=0.0)
    launched = set(counts.tolist())
    if not layers or len(launched) != 1:
        return 0.0
    return float(launched.pop() / (layers * devices))


def _attention_runs(step: Expected) -> float:
    """How often attention runs in a step, all kinds together."""
    columns = (step.operators[name] for name in ("class", "runs", "predicted_s"))
    return sum(runs for kind, runs, s in zip(*columns, strict=True) if kind == _ATTENTION and s > 0)


def counted_note(phase: str, steps: int, layers_from: Expected) -> str:
    """A sentence on what was counted."""
    return (
        f"{steps:,} steps of {phase} were counted: launches of attention over its "
        f"{_attention_runs(layers_from):g} runs in a step (--steps {phase}=1 where it was one)"
    )

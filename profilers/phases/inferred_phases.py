"""Phases of steps that no range names, inferred from the shapes of their operators.

A step of PyTorch's profiler gets the phase that its shapes fit.  A step that holds several forward
passes, as a call of `generate` does, is split at each embedding lookup.  The inferred steps become
ranges whose names state their phase, so that all later code treats them as if the program had named
them.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Sequence

import numpy as np
import pandas as pd

from profilers.operators.attribution import DEFAULT_PHASES, PhasePattern, attribute
from profilers.operators.gemms import is_shape
from profilers.phases.step_shapes import attention_phases, shape_facts
from profilers.schema import RANGE_COLUMNS, Report, table

_PROFILER_STEP = re.compile(r"ProfilerStep#\d+$")
#: Names of ranges that `phased` makes or completes.
_INFERRED = re.compile(r"(ProfilerStep#\d+|forward pass \d+) \(")
#: Most steps whose shapes are read, and least rows of an embedding table.
_MOST_STEPS, _LEAST_VOCABULARY = 512, 1000


def phased(report: Report, phase: str = "", patterns: Sequence[PhasePattern] = ()) -> Report:
    """A report whose ranges name no phase, with the phases that its shapes imply.

    Shapes, and a phase that the user states, take precedence over the name of the report's file.

    Where PyTorch's profiler recorded steps, only kernels inside them count.

    Args:
        phase: "prefill" or "decode" where the user states it, "" to infer it.
        patterns: the patterns that the report was read with.
    """
    kernels = report.kernels
    if bool((kernels["phase_by"] == "label_pattern").any()):
        unknown = pd.Categorical([None] * len(kernels), [])
        bare = kernels.assign(phase=unknown, phase_by=unknown)
        shown = phased(dataclasses.replace(report, label="", kernels=bare), phase, patterns)
        known = bool(shown.kernels["phase"].notna().any())
        return dataclasses.replace(shown, label=report.label) if known else report
    if not len(kernels) or bool(kernels["phase"].notna().any()):
        return report
    read_with = tuple(patterns or DEFAULT_PHASES)
    if not phase and len(attention_phases(kernels)) > 1:
        return _cut_at_embeddings(report, read_with)
    found = phase or shape_facts(kernels).phase
    if not found:
        return report
    named = attribute(_steps_renamed(report, found, phase), read_with)
    if bool(named.kernels["phase"].notna().any()):
        return named
    kernels = kernels.copy(deep=False)
    kernels["phase"] = pd.Categorical([found] * len(kernels), [found])
    return dataclasses.replace(report, kernels=kernels)


def is_inferred(range_name: str) -> bool:
    """Whether a range has its phase from `phased`, not from the program that ran."""
    return _INFERRED.match(range_name) is not None


def _steps_renamed(report: Report, found: str, asked: str) -> Report:
    """The report with the phase in the names of the profiler's steps, each inferred from its own
    shapes.

    found: phase of steps whose shapes imply none.  asked: phase of all steps, "" to infer it.
    """
    steps = report.ranges["name"].cat.categories
    marked = [str(name) for name in steps if _PROFILER_STEP.match(str(name))]
    if not marked:
        return report
    of_step: dict[str, str] = {}
    rows = report.kernels["step"].dropna().unique()[:_MOST_STEPS]
    for row in rows.astype(int).tolist() if not asked else []:
        kernels = report.kernels[report.kernels["step"] == row]
        of_step[str(report.ranges["name"].iloc[row])] = shape_facts(kernels).phase
    names = {name: f"{name} ({of_step.get(name) or found})" for name in marked}
    ranges, kernels = report.ranges.copy(deep=False), report.kernels.copy(deep=False)
    ranges["name"] = ranges["name"].cat.rename_categories(names)
    kernels["nvtx_path"] = kernels["nvtx_path"].cat.rename_categories(
        {
            path: "/".join(names.get(part, part) for part in str(path).split("/"))
            for path in kernels["nvtx_path"].cat.categories
        }
    )
    return dataclasses.replace(report, ranges=ranges, kernels=kernels)


def _cut_at_embeddings(report: Report, patterns: tuple[PhasePattern, ...]) -> Report:
    """The report with a range around each forward pass; unchanged where no start of a pass is
    visible.

    Kernels before the first embedding lookup belong to an earlier pass.
    """
    kernels = report.kernels.sort_values("start_s", kind="stable")
    begins = _looks_up_tokens(kernels)
    if not begins.any():
        return report
    number = np.cumsum(begins)
    names, starts, ends = [], [], []
    for at in range(1, int(number[-1]) + 1):
        of_pass = kernels[number == at]
        phase = shape_facts(of_pass).phase
        names.append(f"forward pass {at} ({phase or 'unknown'})")
        starts.append(float(of_pass["start_s"].min()))
        ends.append(float((of_pass["start_s"] + of_pass["duration_s"]).max()))
    first = len(report.ranges)
    ranges = _with_ranges(report.ranges, names, starts, ends)
    rows = pd.Series(np.where(number > 0, first + number - 1, -1), kernels.index).sort_index()
    paths = [names[row - first] if row >= 0 else None for row in rows]
    cut = report.kernels.copy(deep=False)
    cut["range_id"] = pd.arrays.IntegerArray(rows.to_numpy(np.int64), (rows < 0).to_numpy())
    cut["nvtx_path"] = pd.Categorical(paths, list(dict.fromkeys(names)))
    return attribute(dataclasses.replace(report, ranges=ranges, kernels=cut), patterns)


def _looks_up_tokens(kernels: pd.DataFrame) -> np.ndarray:
    """Whether each kernel looks up rows of an embedding table."""
    lookup = (kernels["operator_class"] == "embedding").to_numpy()
    shapes = kernels["input_shapes"].cat
    tables = np.array([*map(_has_vocabulary, shapes.categories), False], dtype=bool)
    found: np.ndarray = lookup & tables[shapes.codes.to_numpy()]
    return found


def _has_vocabulary(shapes: str) -> bool:
    first = [*json.loads(shapes), None][0]
    return is_shape(first) and len(first) == 2 and first[0] >= _LEAST_VOCABULARY


def _with_ranges(
    ranges: pd.DataFrame, names: Sequence[str], starts: Sequence[float], ends: Sequence[float]
) -> pd.DataFrame:
    """The table of ranges with additional ranges that lie in no other."""
    further = {
        "name": [*ranges["name"].astype(object), *names],
        "process": [*ranges["process"], *[0] * len(names)],
        "thread": [*ranges["thread"], *[None] * len(names)],
        "start_s": [*ranges["start_s"], *starts],
        "duration_s": [*ranges["duration_s"], *np.subtract(ends, starts).tolist()],
        "parent": [*ranges["parent"], *[None] * len(names)],
        "count": [*ranges["count"], *[1] * len(names)],
    }
    return table(RANGE_COLUMNS, further)

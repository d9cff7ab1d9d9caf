"""Phase, operator class and attribution source of each kernel.

The sources, strongest first (`schema.ATTRIBUTIONS`): a torch link from kernel to operator, the
innermost NVTX range around the launch, the NVTX state inside an ncu report, a phase pattern that
matches the ranges around a kernel or the report's label, the words in the kernel's name.  The
readers follow the links, since only they see them; names and patterns are interpreted here.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profilers.operators import linear_regex as expressions
from profilers.operators.gemms import gemm_flops
from profilers.operators.kernel_classes import OPERATOR_CLASSES, UNCLASSIFIED, class_of_name
from profilers.schema import ATTRIBUTIONS, Report
from profilers.timeline import time_spans

#: Attributions that tie a kernel to an operator or range of the program.
LINKS = ("torch_link", "nvtx_range", "ncu_nvtx")

#: Ranges that PyTorch's profiler opens around each call of its `step`.
_PROFILER_STEP = re.compile(r"ProfilerStep#\d+$")
_CODE = {name: code for code, name in enumerate(OPERATOR_CLASSES)}


@dataclass(frozen=True, slots=True)
class PhasePattern:
    """A case-insensitive regular expression; ranges that it matches belong to the phase."""

    phase: str
    pattern: str

    def compiled(self) -> expressions.Pattern:
        """The pattern, ready to search.

        Raises:
            InvalidValue: it is not a regular expression, or cannot be matched in linear time.
        """
        return expressions.compiled(self.pattern)


#: What may stand before "step": anything but "profiler" (a step of PyTorch's profiler, not of the
#: model) and a dot (of an optimizer).
_BEFORE_STEP = "|".join(
    ["^", "[^.r]", *(f"(?:^|[^{'profiler'[at]}]){'profiler'[at + 1 :]}" for at in range(7))]
)
#: The first match wins. The first three read vLLM's step names, which always hold both words:
#: execute_<n>_context_<prompts>(...)_generation_<decodes>(...); the next two read those of
#: TensorRT-LLM.
DEFAULT_PHASES: tuple[PhasePattern, ...] = (
    PhasePattern("decode", r"context_0(?:\D.*)?generation_[1-9]"),
    PhasePattern("prefill", r"context_[1-9].*generation_0(?:\D|$)"),
    PhasePattern("mixed", r"context_[1-9].*generation_[1-9]|step\[mixed"),
    PhasePattern("mixed", r"[1-9]\d* ctx reqs.*[, ][1-9]\d* gen reqs"),
    PhasePattern("prefill", r"[1-9]\d* ctx reqs"),
    PhasePattern("prefill", r"prefill|extend|context|prompt"),
    PhasePattern("decode", rf"decode(?:[^r]|$)|generation|(?:{_BEFORE_STEP})step"),
)


def phase_of(label: str, patterns: Sequence[PhasePattern] = DEFAULT_PHASES) -> str | None:
    """The phase of the first pattern that matches a range's name; None if none matches."""
    return next((p.phase for p in patterns if p.compiled().found_in(label)), None)


def range_phases(report: Report, patterns: Sequence[PhasePattern]) -> NDArray[np.object_]:
    """The phase of each range by its own name, None for none."""
    names = report.ranges["name"].cat
    phases = [phase_of(str(name), patterns) for name in names.categories]
    return np.array([*phases, None], dtype=object)[names.codes.to_numpy()]


def attribute(report: Report, patterns: Sequence[PhasePattern] = DEFAULT_PHASES) -> Report:
    """A report with the phase, operator class and source of attribution of every kernel.

    Args:
        patterns: phases by range name, the first match counts.
    """
    kernels = report.kernels.copy(deep=False)
    phase, phase_by = _phases(kernels, report.label, patterns)
    kernels["phase"], kernels["phase_by"] = phase, phase_by
    kernels["step"] = _steps(report, kernels, patterns)
    kernels["operator_class"] = _classes(kernels)
    kernels["attributed_by"] = _sources(kernels)
    kernels["flops"] = kernels["flops"].where(kernels["flops"].notna(), gemm_flops(kernels))
    return dataclasses.replace(report, kernels=kernels)


def _phases(
    kernels: pd.DataFrame, label: str, patterns: Sequence[PhasePattern]
) -> tuple[pd.Categorical, pd.Categorical]:
    """Phase of each kernel, and whether its path of ranges (innermost first) or the report's label
    gave it.
    """
    compiled = [(pattern.phase, pattern.compiled()) for pattern in patterns]
    names = list(dict.fromkeys(pattern.phase for pattern in patterns))

    @functools.cache
    def code(text: str) -> int:
        return next((names.index(p) for p, rule in compiled if rule.found_in(text)), -1)

    def path_code(path: str) -> int:
        return next((c for part in reversed(path.split("/")) if (c := code(part)) >= 0), -1)

    paths = kernels["nvtx_path"].cat
    codes = np.array([path_code(str(path)) for path in paths.categories] + [-1], dtype=np.int8)
    phases = codes[paths.codes.to_numpy()]
    by = np.where(phases >= 0, 0, -1).astype(np.int8)
    if len(phases) and not (phases >= 0).any() and (named := _label_code(label, compiled)):
        phases[:], by[:] = names.index(named), 1
    return (
        pd.Categorical.from_codes(phases, names),
        pd.Categorical.from_codes(by, ["range_pattern", "label_pattern"]),
    )


def _steps(
    report: Report, kernels: pd.DataFrame, patterns: Sequence[PhasePattern]
) -> pd.arrays.IntegerArray:
    """Row of the outermost range of the phase around each kernel, or of the PyTorch profiler's step
    where no range names a phase.
    """
    ranges = report.ranges
    parent = ranges["parent"].fillna(-1).to_numpy(dtype=np.int64)
    row = kernels["range_id"].fillna(-1).to_numpy(dtype=np.int64)
    phase = kernels["phase"].astype(object).to_numpy()
    of_range = range_phases(report, patterns)
    step = np.full(len(row), -1, dtype=np.int64)
    for name in dict.fromkeys(kernels["phase"].dropna()):
        inside = phase == name
        step[inside] = time_spans.outermost(parent, row[inside], of_range == name)
    names = ranges["name"].cat
    marked = np.array([*map(_PROFILER_STEP.match, names.categories.astype(str)), None], dtype=bool)
    rest = kernels["phase"].isna().to_numpy()
    step[rest] = time_spans.outermost(parent, row[rest], marked[names.codes.to_numpy()])
    return pd.arrays.IntegerArray(step, step < 0)


def _label_code(label: str, compiled: list[tuple[str, expressions.Pattern]]) -> str | None:
    """The phase that a file's name matches; None where it matches several."""
    phases = {phase for phase, rule in compiled if rule.found_in(label)}
    return phases.pop() if len(phases) == 1 else None


def _classes(kernels: pd.DataFrame) -> pd.Categorical:
    """Operator class by dispatcher name ("aten::mm"), else kernel name, else range name."""
    by_title = _class_codes(kernels["full_name"])
    by_title = np.where(by_title >= 0, by_title, _class_codes(kernels["name"]))
    dispatched = _dispatched(kernels["operator"])
    by_operator = _class_codes(kernels["operator"], dispatched | (by_title < 0))
    codes = np.where(dispatched & (by_operator >= 0), by_operator, by_title)
    codes = np.where(codes >= 0, codes, by_operator)
    return pd.Categorical.from_codes(np.where(codes >= 0, codes, _CODE[UNCLASSIFIED]), list(_CODE))


def _class_codes(names: pd.Series, rows: NDArray[np.bool_] | None = None) -> NDArray[np.int64]:
    """Code of the operator class of each name, -1 for none and outside `rows`."""
    codes = names.cat.codes.to_numpy(np.int64)
    name_codes = np.unique(codes if rows is None else codes[rows])
    code_of_name = np.full(len(names.cat.categories) + 1, -1, dtype=np.int64)
    for code in name_codes[name_codes >= 0].tolist():
        operator_class = class_of_name(str(names.cat.categories[code]))
        code_of_name[code] = -1 if operator_class is None else _CODE[operator_class]
    return code_of_name[codes]


def _dispatched(operators: pd.Series) -> NDArray[np.bool_]:
    """Whether each row's operator belongs to a framework's dispatcher, as "aten::mm" does."""
    flags = np.array(["::" in str(name) for name in operators.cat.categories] + [False], dtype=bool)
    return flags[operators.cat.codes.to_numpy()]


def _sources(kernels: pd.DataFrame) -> pd.Categorical:
    """Source of each row's attribution: the link that the reader found, otherwise the strongest
    guess.
    """
    by_reader = kernels["attributed_by"].astype(object).to_numpy()
    linked = np.isin(by_reader.astype(str), LINKS)
    phased = kernels["phase"].notna().to_numpy()
    named = (kernels["operator_class"] != UNCLASSIFIED).to_numpy()
    weaker = np.where(phased, "phase_pattern", np.where(named, "kernel_name", UNCLASSIFIED))
    return pd.Categorical(np.where(linked, by_reader, weaker), categories=list(ATTRIBUTIONS))

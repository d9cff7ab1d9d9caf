"""Columns that several readers build: nullable integers, categories, paths of ranges."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profilers.operators.demangle import demangled
from profilers.timeline.time_spans import MAX_DEPTH

#: PyTorch's emit_nvtx appends details that differ from call to call: "aten::mm, op_id = 12".
_SIZES = ", sizes = "
_CALL_DETAILS = (", seq = ", ", op_id = ", _SIZES, ", input_op_ids = ")
MAX_NAME_CHARS = 8192
_MAX_PATH_CHARS = 2000
#: Most different range labels that a report keeps; a module for every layer and expert needs fewer.
MAX_LABELS = 50_000
_OTHER = "further ranges"
#: A possible hexadecimal id, or the first digit of a number.
_NUMBER = re.compile(r"[0-9a-f]{6,}|(\d)\d*", re.IGNORECASE)


def label_of(path: Path) -> str:
    """The name of a file up to the first dot."""
    return path.name.split(".")[0]


def nullable_integers(values: Sequence[int] | NDArray[Any]) -> pd.arrays.IntegerArray:
    """A column of integers in which negative ones become unknown (<NA>)."""
    numbers = np.asarray(values, dtype=np.int64)
    return pd.arrays.IntegerArray(numbers, numbers < 0)


def categories(codes: NDArray[Any], names: Sequence[str]) -> pd.Categorical:
    """A text column from codes into `names`, which may repeat; negative codes are unknown."""
    unique = {name: code for code, name in enumerate(dict.fromkeys(names))}
    folded = np.array([unique[name] for name in names] + [-1], dtype=np.int64)
    return pd.Categorical.from_codes(folded[np.maximum(codes, -1)], list(unique))


def with_readable_names(kernels: pd.DataFrame) -> pd.DataFrame:
    """A kernel table with readable names in place of those that a profiler left mangled."""
    read = {}
    for column in ("name", "full_name"):
        names = kernels[column].cat
        shown = [demangled(str(name)) for name in names.categories]
        if shown != names.categories.tolist():
            read[column] = categories(names.codes.to_numpy(np.int64), shown)
    return kernels.assign(**read) if read else kernels


def range_name(label: str) -> str:
    """A range's name without the details that differ from call to call."""
    for detail in _CALL_DETAILS:
        label = label.partition(detail)[0]
    return label


class Labels:
    """Codes of the labels of ranges.

    Programs that name each request create a label per range.  Beyond `MAX_LABELS` different labels,
    the numbers in all of them are collapsed (a number to its first digit, an id to "#"); labels
    that still exceed the limit share one.
    """

    def __init__(self, short: Callable[[str], str]) -> None:
        """short: function that shortens a text before it is counted."""
        self._short = short
        self._codes: dict[str, int] = {"": 0}

    def code(self, text: str) -> int:
        """The preliminary code of a label, see `settled`."""
        name = self._short(text)
        code = self._codes.get(name)
        if code is None:
            if len(self._codes) > MAX_LABELS:
                name = _folded(name) if len(self._codes) < 2 * MAX_LABELS else _OTHER
            code = self._codes.setdefault(name, len(self._codes))
        return code

    def settled(self) -> tuple[NDArray[np.int64], tuple[str, ...]]:
        """The final code of each code given so far, and the label of each final code."""
        names = list(self._codes)
        if len(names) > MAX_LABELS:
            names = [_folded(name) for name in names]
        unique = {name: code for code, name in enumerate(dict.fromkeys(names))}
        return np.array([unique[name] for name in names], dtype=np.int64), tuple(unique)


class ShapeTexts:
    """Codes of the input shapes that labels of PyTorch's `emit_nvtx(record_shapes=True)` carry:
    "aten::mm, op_id = 12, sizes = [[32, 64], [64, 8]]" (torch/csrc/profiler/util.cpp, getNvtxStr).
    """

    def __init__(self) -> None:
        self._codes: dict[str, int] = {}
        self._by_text: dict[str, int] = {}

    def code(self, label: str) -> int:
        """The code of a label's shapes, counting from 1; 0 for no shapes, and beyond
        `MAX_LABELS`.
        """
        sizes = label.partition(_SIZES)[2]
        if not sizes:
            return 0
        text = sizes.partition(", input_op_ids")[0].strip()
        code = self._by_text.get(text)
        if code is None:
            if len(self._by_text) >= MAX_LABELS:
                return 0
            compact = _compact_shapes(text)
            code = self._codes.setdefault(compact, len(self._codes) + 1) if compact else 0
            self._by_text[text] = code
        return code

    def texts(self) -> tuple[str, ...]:
        """JSON of the shapes of each code, the first of code 1."""
        return tuple(self._codes)


def _compact_shapes(text: str) -> str:
    """Compact JSON of a list of shapes; "" where the text is not one."""
    if len(text) > _MAX_PATH_CHARS:
        return ""
    try:
        shapes = json.loads(text)
    except (ValueError, RecursionError):
        return ""
    whole = isinstance(shapes, list) and all(isinstance(shape, list) for shape in shapes)
    return json.dumps(shapes, separators=(",", ":")) if whole and shapes else ""


def _folded(label: str) -> str:
    return _NUMBER.sub(_short_number, label)


def _short_number(match: re.Match[str]) -> str:
    """The first digit of a number, "#" for an id of digits and letters; words as they are."""
    text = match[0]
    return text if text.isalpha() else text[0] if text.isdecimal() else "#"


def range_paths(
    names: Sequence[str],
    name_code: NDArray[np.int64],
    parent: NDArray[np.int64],
    rows: NDArray[Any],
) -> tuple[pd.Categorical, pd.Categorical]:
    """The path of ranges around each kernel, and the innermost range.

    Args:
        names: labels.  name_code, parent: one entry a range, the code into `names`.
        rows: innermost range of each kernel, -1 for none.
    """
    unique: dict[str, int] = {}
    short = (unique.setdefault(range_name(name), len(unique)) for name in names)
    folded = np.fromiter(short, np.int64, len(names))
    title = folded[name_code] if len(name_code) else name_code
    path, spelled = _path_codes(title, parent, list(unique))
    known_rows = np.where(rows >= 0, rows, 0)
    if not len(title):
        return categories(np.full(len(rows), -1), []), categories(np.full(len(rows), -1), [])
    return (
        categories(np.where(rows >= 0, path[known_rows], -1), spelled),
        categories(np.where(rows >= 0, title[known_rows], -1), list(unique)),
    )


def _path_codes(
    title: NDArray[np.int64], parent: NDArray[np.int64], names: Sequence[str]
) -> tuple[NDArray[np.int64], list[str]]:
    """Code of the path of each range and the text of each code, from the outermost ranges in."""
    path = np.full(len(title), -1, dtype=np.int64)
    spelled: list[str] = []
    level = np.flatnonzero(parent < 0)
    children = np.argsort(parent, kind="stable")
    sorted_parent = parent[children]
    for _ in range(MAX_DEPTH + 1):
        if not len(level):
            break
        above = np.where(parent[level] >= 0, path[parent[level]], -1)
        codes, pairs = pd.factorize((above + 1) << 32 | title[level])
        path[level] = codes + len(spelled)
        spelled += [
            _joined(spelled, pair >> 32, names[pair & 0xFFFFFFFF]) for pair in pairs.tolist()
        ]
        first = np.searchsorted(sorted_parent, level, side="left")
        count = np.searchsorted(sorted_parent, level, side="right") - first
        inside = np.repeat(first - np.cumsum(count) + count, count) + np.arange(count.sum())
        level = children[inside]
    return path, spelled


def _joined(spelled: Sequence[str], above: int, name: str) -> str:
    path = f"{spelled[above - 1]}/{name}" if above else name
    return path[-_MAX_PATH_CHARS:]


def extents(
    threads: Sequence[NDArray[np.int64]], groups: Sequence[NDArray[np.int64]]
) -> tuple[list[str | None], list[str | None]]:
    """Grid and block sizes as "x,y,z" texts, from AMD's counts.

    threads: of the whole grid, by axis, as AMD's tools count them.  groups: threads of a group.
    """
    blocks = [-(-whole // np.maximum(size, 1)) for whole, size in zip(threads, groups, strict=True)]
    said: list[list[str | None]] = [
        [f"{x},{y},{z}" for x, y, z in zip(*(axis.tolist() for axis in axes), strict=True)]
        for axes in (blocks, groups)
    ]
    return said[0], said[1]

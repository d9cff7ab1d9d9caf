"""Text output of Intel's unitrace: device activity (`-t`) and summaries of calls and kernels.

A line of activity states thread, device and command, and the nanoseconds at which it was appended,
submitted, started and ended.  A kernel's name ends in its SIMD width, work groups and their sizes,
a copy's in its bytes (intel/pti-gpu, tools/unitrace).  Summaries are tables below a title.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from genz_core.errors import ReportError
from profilers.readers.columns import MAX_NAME_CHARS, label_of
from profilers.readers.csv_tables import CsvTable, find_tables, read_text
from profilers.schema import (
    HOST_COLUMNS,
    Report,
    copy_table,
    kernel_table,
    table,
)

FORMAT = "unitrace"
_ACTIVITY = re.compile(
    r'Thread (\d{1,18}) Device (\d{1,18}) : "(.*)" \[ns\] (\d{1,18}) \(append\) '
    r"(\d{1,18}) \(submit\) (\d{1,18}) \(start\) (\d{1,18}) \(end\)\s*"
)
_SIZES = re.compile(r"(.*?)\[SIMD\w+ \{([\d; ]+)\} \{([\d; ]+)\}\]", re.DOTALL)
_COPY = re.compile(r"ze\w*Memory(Copy|Fill)\w*(?:\((\w)2(\w)\))?\[?(\d{0,18})\]?")
#: Memory types as unitrace abbreviates them: M of the host, D of the device, S shared.
_PLACES = {"M": "H", "H": "H", "D": "D", "S": "D"}
_MAX_LINES = 4_000_000
_NS = 1e-9


def sniff(text: str) -> bool:
    """Whether a text holds activity or a summary of unitrace."""
    head = text[: 1 << 20]
    return (" (append) " in head and "] [ns] " in head.replace('"', "")) or (
        "Timing Summary ===" in head and "Backend ==" in head
    )


@dataclass(slots=True)
class _Activity:
    """Columns of kernels and copies, one entry per command."""

    names: list[str] = field(default_factory=list)
    extents: list[tuple[str | None, str | None]] = field(default_factory=list)
    # device, launch, start, end
    kernels: list[tuple[int, int, int, int]] = field(default_factory=list)
    copies: list[tuple[str, float, int, int, int]] = field(default_factory=list)


def read(path: Path) -> Report:
    """Read an output.

    Raises:
        ReportError: damaged, or without activity and summaries.
    """
    text = read_text(path)
    activity = _Activity()
    for number, line in enumerate(text.splitlines()):
        if number > _MAX_LINES:
            raise ReportError(f"the output has over {_MAX_LINES} lines; trace less of the run")
        match = _ACTIVITY.fullmatch(line)
        if match is not None:
            _add(activity, match)
    kernels, host = _timed(activity), table(HOST_COLUMNS, {})
    for source in find_tables(text, _is_header):
        summed = _summary(source)
        if source.header[0].strip().lower() == "function":
            host = table(HOST_COLUMNS, {name: summed[name] for name in HOST_COLUMNS})
        elif not len(kernels):
            kernels = _summed_kernels(summed)
    if not (len(kernels) or len(host) or activity.copies):
        raise ReportError("the output of unitrace holds no activity of a device; run it with -t")
    notes = () if len(kernels) else ("the output lists no kernels; unitrace -t has them",)
    return Report(
        format=FORMAT,
        tool="unitrace",
        tool_version=None,
        label=label_of(path),
        kernels=kernels,
        copies=_copies(activity),
        host=host,
        notes=notes,
    )


def _add(activity: _Activity, match: re.Match[str]) -> None:
    """Add a command; raise where it ends before it starts."""
    device, name = int(match[2]), match[3][:MAX_NAME_CHARS]
    append, start, end = int(match[4]), int(match[6]), int(match[7])
    if end < start:
        raise ReportError("a command of the output ends before it starts; it is damaged")
    if copied := _COPY.fullmatch(name):
        source, target = (_PLACES.get(place or "", "") for place in (copied[2], copied[3]))
        kind = "memset" if copied[1] == "Fill" else f"{source}to{target}" if source else "copy"
        size = float(copied[4]) if copied[4] else float("nan")
        activity.copies.append((kind, size, device, start, end))
        return
    sizes = _SIZES.fullmatch(name)
    activity.names.append(sizes[1] if sizes else name)
    activity.extents.append((_extent(sizes[2]), _extent(sizes[3])) if sizes else (None, None))
    activity.kernels.append((device, append, start, end))


def _extent(text: str) -> str:
    """ "1,1024,1" of "1; 1024; 1"."""
    return ",".join(text.replace(" ", "").split(";"))


def _origin(activity: _Activity) -> int:
    starts = [kernel[1] for kernel in activity.kernels] + [copy[3] for copy in activity.copies]
    return min(starts, default=0)


def _ordinals(activity: _Activity) -> dict[int, int]:
    """Consecutive numbers for the handles of devices, in the order of their first command."""
    handles = [kernel[0] for kernel in activity.kernels] + [copy[2] for copy in activity.copies]
    return {handle: at for at, handle in enumerate(dict.fromkeys(handles))}


def _timed(activity: _Activity) -> pd.DataFrame:
    origin, devices = _origin(activity), _ordinals(activity)
    columns = {
        "tool": "unitrace",
        "device": [devices[kernel[0]] for kernel in activity.kernels],
        "name": activity.names,
        "launch_s": [(kernel[1] - origin) * _NS for kernel in activity.kernels],
        "start_s": [(kernel[2] - origin) * _NS for kernel in activity.kernels],
        "duration_s": [(kernel[3] - kernel[2]) * _NS for kernel in activity.kernels],
        "grid": [grid for grid, _ in activity.extents],
        "block": [block for _, block in activity.extents],
    }
    return kernel_table(columns, len(activity.kernels))


def _copies(activity: _Activity) -> pd.DataFrame:
    origin, devices = _origin(activity), _ordinals(activity)
    columns = {
        "device": [devices[copy[2]] for copy in activity.copies],
        "kind": [copy[0] for copy in activity.copies],
        "bytes": [copy[1] for copy in activity.copies],
        "start_s": [(copy[3] - origin) * _NS for copy in activity.copies],
        "duration_s": [(copy[4] - copy[3]) * _NS for copy in activity.copies],
    }
    return copy_table(columns, len(activity.copies))


def _is_header(cells: Sequence[str]) -> bool:
    names = [cell.strip().lower() for cell in cells[:3]]
    return names in (["function", "calls", "time (ns)"], ["kernel", "calls", "time (ns)"])


def _summary(source: CsvTable) -> pd.DataFrame:
    """name, count and time_s of a summary.

    Raises:
        ReportError: a cell that is not a number, or a negative number.
    """
    counts, nanoseconds = source.numbers(1), source.numbers(2)
    if any(not 0 <= value < 1e12 for value in counts) or any(not t >= 0 for t in nanoseconds):
        raise ReportError("the summary of the output holds an impossible number; it is damaged")
    names = [cell.strip().strip('"')[:MAX_NAME_CHARS] for cell in source.text(0)]
    return pd.DataFrame({"name": names, "count": [int(count) for count in counts],
                         "time_s": [t * _NS for t in nanoseconds]})  # fmt: skip


def _summed_kernels(summed: pd.DataFrame) -> pd.DataFrame:
    columns = {
        "tool": "unitrace",
        "name": summed["name"],
        "count": summed["count"],
        "duration_s": summed["time_s"],
    }
    return kernel_table(columns, len(summed))

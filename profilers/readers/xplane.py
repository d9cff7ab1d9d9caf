"""XSpace files of JAX, TensorFlow and XLA (`*.xplane.pb`): what ran on their GPUs and TPUs.

A plane per device holds lines of events; an event gives its metadata id, its offset from the line's
start and its duration in picoseconds (message types of xplane.proto, package tensorflow.profiler).
Only lines of device work are read: streams of a GPU, "XLA Ops" of a TPU.  Lines that aggregate
others (steps, modules, framework operators) and planes of hosts are skipped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from genz_core.errors import ReportError
from profilers.readers.columns import MAX_NAME_CHARS, label_of
from profilers.readers.compressed import text_bytes
from profilers.readers.protobuf import fields, integer, nested, text
from profilers.schema import (
    DeviceInfo,
    Report,
    copy_table,
    kernel_table,
)

FORMAT = "xplane"
_PLANE = 1
_DEVICE = re.compile(r"/device:(GPU|TPU)(?::(\d{1,6}))?")
_STREAM = re.compile(r"[Ss]tream\s*#?(\d{1,9})")
_COPY = re.compile(r"[Mm]em(cpy|set)([HDP])?2?([HDP])?")
_XLA_OPS = "XLA Ops"
_DEVICE_TYPE = "device_type_string"
_MAX_FILE_BYTES = 1 << 30
_MAX_EVENTS = 3_000_000
_PICOSECOND = 1e-12
_MOST_PS, _LATEST_PS = 1 << 62, 1 << 76


def sniff(head: bytes) -> bool:
    """Whether content starts with a plane of an XSpace."""
    return head[:1] == b"\x0a" and (b"/host:" in head[:4096] or b"/device:" in head)


@dataclass(slots=True)
class _Activity:
    """Columns of kernels and copies, one entry per event; times in picoseconds."""

    kernels: list[tuple[str, int, int, int, int]] = field(default_factory=list)
    copies: list[tuple[str, int, int, int, int]] = field(default_factory=list)
    devices: dict[int, str] = field(default_factory=dict)


@dataclass(slots=True)
class _Plane:
    """A plane with its fields separated."""

    name: str = ""
    lines: list[bytes] = field(default_factory=list)
    events: list[bytes] = field(default_factory=list)
    stats: list[bytes] = field(default_factory=list)
    stat_names: list[bytes] = field(default_factory=list)


def read(path: Path) -> Report:
    """Read an XSpace.

    Raises:
        ReportError: damaged, hostile, too large, or without a device.
    """
    activity, planes = _Activity(), 0
    for number, value in fields(text_bytes(path, _MAX_FILE_BYTES)):
        if number != _PLANE:
            continue
        planes += 1
        plane = _plane(nested(value))
        device = _DEVICE.match(plane.name)
        if device is not None:
            _add_plane(activity, plane, device[1], int(device[2] or 0))
    if not planes:
        raise ReportError("the file is not an XSpace of XLA: it holds no planes")
    notes = () if activity.kernels else ("the XSpace holds no work of a GPU or TPU",)
    origin = min((k[1] for k in (*activity.kernels, *activity.copies)), default=0)
    return Report(
        format=FORMAT,
        tool="xla",
        tool_version=None,
        label=label_of(path),
        kernels=_kernels(activity, origin),
        copies=_copies(activity, origin),
        devices=tuple(DeviceInfo(index=i, name=n) for i, n in sorted(activity.devices.items())),
        notes=notes,
    )


def _plane(message: bytes) -> _Plane:
    plane = _Plane()
    for number, value in fields(message):
        if number == 2:
            plane.name = text(value)[:MAX_NAME_CHARS]
        elif number in (3, 4, 5, 6):
            store = (plane.lines, plane.events, plane.stat_names, plane.stats)[number - 3]
            store.append(nested(value))
    return plane


def _names(entries: list[bytes]) -> dict[int, str]:
    """{id: name} of the metadata of a plane; a display name takes precedence over a name."""
    names = {}
    for entry in entries:
        parts = dict(fields(entry))  # a map entry: key and message
        found = dict(fields(nested(parts.get(2, b""))))
        shown = found.get(4) or found.get(2) or b""
        names[integer(parts.get(1, found.get(1, 0)))] = text(shown)[:MAX_NAME_CHARS]
    return names


def _add_plane(activity: _Activity, plane: _Plane, kind: str, device: int) -> None:
    names = _names(plane.events)
    activity.devices[device] = _device_name(plane)
    for message in plane.lines:
        line = list(fields(message))
        title = next((text(value) for number, value in line if number == 2), "")
        stream = _STREAM.search(title)
        if (kind == "GPU" and stream is None) or (kind == "TPU" and title != _XLA_OPS):
            continue
        start_ns = next((integer(value) for number, value in line if number == 3), 0)
        place = device, int(stream[1]) if stream else 0
        events = (nested(value) for number, value in line if number == 4)
        for name, start, duration in _events(events, names, start_ns * 1000):
            copied = _COPY.match(name)
            entry = (name, start, duration, *place)
            (activity.copies if copied else activity.kernels).append(entry)
            if len(activity.kernels) + len(activity.copies) > _MAX_EVENTS:
                raise ReportError(f"the XSpace has over {_MAX_EVENTS} events; trace fewer steps")


def _events(
    events: Iterator[bytes], names: dict[int, str], origin: int
) -> Iterator[tuple[str, int, int]]:
    """(name, start, duration) of the events that have a duration [ps].

    Raises:
        ReportError: a time beyond any capture.
    """
    for message in events:
        found = dict(fields(message))
        duration = integer(found.get(3, 0))
        start = origin + integer(found.get(2, 0))
        if not (0 <= duration < _MOST_PS and 0 <= start < _LATEST_PS):
            raise ReportError("an event of the XSpace lasts impossibly long; it is damaged")
        if duration:
            number = integer(found.get(1, 0))
            yield names.get(number) or f"unnamed {number}", start, duration


def _device_name(plane: _Plane) -> str:
    """The name that the plane gives its device ("TPU v5e"), "" where it gives none."""
    kinds = _names(plane.stat_names)
    for message in plane.stats:
        found = dict(fields(message))
        if kinds.get(integer(found.get(1, 0))) == _DEVICE_TYPE and 5 in found:
            return text(found[5])[:200]
    return ""


def _kernels(activity: _Activity, origin: int) -> pd.DataFrame:
    rows = activity.kernels
    names = [row[0] for row in rows]
    columns = {
        "tool": "xla",
        "name": names,
        "start_s": [(row[1] - origin) * _PICOSECOND for row in rows],
        "duration_s": [row[2] * _PICOSECOND for row in rows],
        "device": [row[3] for row in rows],
        "stream": [row[4] for row in rows],
    }
    return kernel_table(columns, len(rows))


def _copies(activity: _Activity, origin: int) -> pd.DataFrame:
    rows = activity.copies
    columns = {
        "kind": [_kind(row[0]) for row in rows],
        "start_s": [(row[1] - origin) * _PICOSECOND for row in rows],
        "duration_s": [row[2] * _PICOSECOND for row in rows],
        "device": [row[3] for row in rows],
        "stream": [row[4] for row in rows],
    }
    return copy_table(columns, len(rows))


def _kind(name: str) -> str:
    """ "DtoH" of "MemcpyD2H"."""
    match = _COPY.match(name)
    if match is None or match[1] == "set":
        return "memset"
    return f"{match[2]}to{match[3]}" if match[2] and match[3] else "copy"

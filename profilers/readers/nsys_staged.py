"""Nsight Systems exports other than SQLite: folders of Parquet tables, and JSON lines.

Their rows are written into a scratch database with the columns of the SQLite export, which
`nsys_sqlite` then reads, so that all exports of a capture give the same report.

`nsys export --type parquetdir` writes one file per table, named as in SQLite.  `--type json` and
`jsonlines` write one event per line, with texts given by their index in a line of strings (NVIDIA's
"Nsight Systems reports export documentation", JSON and Text Format Description): `CudaEvent` with
`kernel` or `memcpy`, `TraceProcessEvent` for calls, `NvtxEvent` for ranges.
"""

from __future__ import annotations

import dataclasses
import json
import re
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from genz_core.errors import ReportError
from profilers.readers import nsys_sqlite
from profilers.readers.columns import label_of
from profilers.readers.compressed import content_chunks
from profilers.schema import Report

_KERNEL, _RUNTIME = "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME"
_MEMCPY, _NVTX, _STRINGS = "CUPTI_ACTIVITY_KIND_MEMCPY", "NVTX_EVENTS", "StringIds"
_PLACE = ("start", "end", "deviceId", "streamId", "correlationId", "globalPid")
_EXTENTS = ("gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ")
#: Tables that the SQLite reader uses, with the columns that it reads.
_TABLES: Mapping[str, tuple[str, ...]] = {
    _KERNEL: (*_PLACE, "demangledName", "shortName", "graphNodeId", *_EXTENTS),
    _RUNTIME: ("start", "end", "globalTid", "correlationId", "nameId"),
    _MEMCPY: (*_PLACE, "bytes", "copyKind"),
    "CUPTI_ACTIVITY_KIND_MEMSET": (*_PLACE, "bytes"),
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": _PLACE,
    _NVTX: ("start", "end", "eventType", "text", "globalTid", "textId"),
    _STRINGS: ("id", "value"),
    "TARGET_INFO_GPU": (
        "id", "name", "totalMemory", "memoryBandwidth", "clockRate", "smCount", "l2CacheSize",
        "computeMajor", "computeMinor", "smMajor", "smMinor",
    ),
    "TARGET_INFO_CUDA_DEVICE": ("gpuId", "cudaId", "pid"),
    "META_DATA_EXPORT": ("name", "value"),
}  # fmt: skip
_MAX_ROWS = 8_000_000
_MAX_FILE_BYTES = 8 << 30
_MAX_LINE_BYTES = 256 << 20
_BATCH = 10_000
_PUSH_POP, _START_END = 59, 60
_STRINGS_FIRST = re.compile(rb'\{\s*"data"\s*:\s*\[\s*"')
_MARKS = (b'"CudaEvent":', b'"TraceProcessEvent":', b'"NvtxEvent":', b'"type":"String"')

Row = tuple[Any, ...]


# ------------------------------------------------------------------------------- Parquet


def is_parquet_folder(folder: Path) -> bool:
    """Whether a folder holds the tables of an export."""
    return (folder / f"{_STRINGS}.parquet").is_file()


def read_parquet_folder(folder: Path) -> Report:
    """Read the Parquet tables of an export.

    Raises:
        ReportError: damaged, hostile, or beyond bounds.
    """
    files = {name: folder / f"{name}.parquet" for name in _TABLES}
    report = _staged({name: _rows_of(name, file) for name, file in files.items() if file.is_file()})
    return dataclasses.replace(report, label=label_of(folder))


def _rows_of(name: str, file: Path) -> Iterator[Row]:
    """The wanted columns of a Parquet table, None for those it lacks."""
    import pyarrow
    import pyarrow.parquet as parquet

    wanted = _TABLES[name]
    try:
        with parquet.ParquetFile(file) as table:
            _refuse_large(name, table.metadata)
            here = [column for column in wanted if column in table.schema_arrow.names]
            for batch in table.iter_batches(_BATCH, columns=here):
                columns = {c: batch.column(c).to_pylist() for c in here}
                absent = [None] * batch.num_rows
                yield from zip(*(columns.get(c, absent) for c in wanted), strict=True)
    except (pyarrow.ArrowException, OSError, ValueError, OverflowError) as error:
        reason = type(error).__name__
        raise ReportError(f"the Parquet table {name} is damaged ({reason})") from None


def _refuse_large(name: str, metadata: Any) -> None:
    """Raise where a table's own metadata states a size beyond the bounds."""
    groups = range(metadata.num_row_groups)
    size = sum(metadata.row_group(at).total_byte_size for at in groups)
    if metadata.num_rows > _MAX_ROWS or size > _MAX_FILE_BYTES:
        raise ReportError(f"the table {name} is too large; export a shorter time range")


# ------------------------------------------------------------------------------- JSON lines


def sniff_lines(head: bytes) -> bool:
    """Whether content that starts with `head` is an export with an event a line."""
    start = head.lstrip()
    if start[:1] != b"{" or b'"traceEvents"' in head[:65536]:
        return False
    return bool(_STRINGS_FIRST.match(start)) or (
        b"\n{" in head and any(mark in head for mark in _MARKS)
    )


def read_lines(path: Path) -> Report:
    """Read an export of JSON lines.

    Raises:
        ReportError: damaged, hostile, or beyond bounds.
    """
    events = _Events()
    for number, line in enumerate(_lines(path), 1):
        try:
            events.add(json.loads(line))
        except (ValueError, RecursionError, TypeError, AttributeError, OverflowError):
            raise ReportError(f"line {number} of the export is damaged") from None
    report = _staged(events.tables())
    return dataclasses.replace(report, label=label_of(path))


def _lines(path: Path) -> Iterator[bytes]:
    """Lines that are not empty, of bounded length."""
    pieces: list[bytes] = []
    length = 0
    for chunk in content_chunks(path):
        first, *others = chunk.split(b"\n")
        pieces.append(first)
        length += len(first)
        if others:
            yield from filter(None, (b"".join(pieces).strip(), *map(bytes.strip, others[:-1])))
            pieces, length = [others[-1]], len(others[-1])
        if length > _MAX_LINE_BYTES:
            raise ReportError("a line of the export is too long; export to SQLite instead")
    if last := b"".join(pieces).strip():
        yield last


class _Events:
    """Rows of the tables, gathered event by event."""

    def __init__(self) -> None:
        self._rows: dict[str, list[Row]] = {
            name: [] for name in (_KERNEL, _RUNTIME, _MEMCPY, _NVTX, _STRINGS)
        }
        self._count = 0

    def add(self, line: Any) -> None:
        """Add an event, a line of strings, or one string."""
        if isinstance(line.get("data"), list) and not self._rows[_STRINGS]:
            self._rows[_STRINGS] = [(at, str(text)) for at, text in enumerate(line["data"])]
        elif line.get("type") == "String":
            self._rows[_STRINGS].append((int(line["id"]), str(line["value"])))
        elif "CudaEvent" in line:
            self._cuda(_lowered(line["CudaEvent"]))
        elif "TraceProcessEvent" in line:
            event = _lowered(line["TraceProcessEvent"])
            wanted = ("startns", "endns", "globaltid", "correlationid", "name")
            self._append(_RUNTIME, tuple(_whole(event.get(name)) for name in wanted))
        elif "NvtxEvent" in line:
            self._nvtx(_lowered(line["NvtxEvent"]))

    def _append(self, name: str, row: Row) -> None:
        self._count += 1
        if self._count > _MAX_ROWS:
            raise ReportError(f"the export holds over {_MAX_ROWS} events; export fewer")
        self._rows[name].append(row)

    def _cuda(self, event: Mapping[str, Any]) -> None:
        names = ("startns", "endns", "deviceid", "streamid", "correlationid", "globalpid")
        place = tuple(_whole(event.get(name)) for name in names)
        kernel, memcpy = event.get("kernel"), event.get("memcpy")
        if isinstance(kernel, dict):
            own = _lowered(kernel)
            wanted = ("demangledname", "shortname", "graphnodeid", *map(str.lower, _EXTENTS))
            self._append(_KERNEL, (*place, *(_whole(own.get(name)) for name in wanted)))
        elif isinstance(memcpy, dict):
            own = _lowered(memcpy)
            size = own.get("sizebytes", own.get("bytes"))
            self._append(_MEMCPY, (*place, _whole(size), _whole(own.get("copykind"))))

    def _nvtx(self, event: Mapping[str, Any]) -> None:
        start, end = _whole(event.get("timestamp")), _whole(event.get("endtimestamp"))
        kind = _START_END if event.get("type") in (_START_END, "NvtxStartEndRange") else _PUSH_POP
        if end is not None:
            text, thread = event.get("text"), _whole(event.get("globaltid"))
            shown = None if text is None else str(text)
            self._append(_NVTX, (start, end, kind, shown, thread, _whole(event.get("textid"))))

    def tables(self) -> dict[str, Iterable[Row]]:
        return {name: rows for name, rows in self._rows.items() if rows or name == _STRINGS}


def _lowered(event: Mapping[str, Any]) -> dict[str, Any]:
    return {key.lower(): value for key, value in event.items()}


def _whole(value: Any) -> int | None:
    """A whole number, which the format may write as a text; None for null."""
    if value is None or isinstance(value, (list, dict)):
        return None
    return int(value)


# ------------------------------------------------------------------------------- staging


def _staged(tables: Mapping[str, Iterable[Row]]) -> Report:
    """The report of the tables, read through a scratch database.

    Raises:
        ReportError: see `nsys_sqlite.read`; or a value that fits no column.
    """
    with tempfile.TemporaryDirectory(prefix="ridgeline-") as folder:
        path = Path(folder) / "report.sqlite"
        database = sqlite3.connect(path)
        try:
            database.execute("PRAGMA journal_mode = OFF")
            database.execute("PRAGMA synchronous = OFF")
            for name, rows in tables.items():
                _write(database, name, _TABLES[name], rows)
            database.commit()
        except (sqlite3.Error, OverflowError) as error:
            reason = type(error).__name__
            raise ReportError(f"the export holds a value that fits no table ({reason})") from None
        finally:
            database.close()
        return nsys_sqlite.read(path)


def _write(
    database: sqlite3.Connection, name: str, columns: Sequence[str], rows: Iterable[Row]
) -> None:
    declared = ", ".join(f'"{column}"' for column in columns)
    database.execute(f'CREATE TABLE "{name}" ({declared})')
    marks = ", ".join("?" * len(columns))
    signed = (tuple(map(_signed, row)) for row in rows)
    database.executemany(f'INSERT INTO "{name}" VALUES ({marks})', signed)


def _signed(value: Any) -> Any:
    """A value as SQLite stores it: unsigned 64-bit ids become signed."""
    if isinstance(value, int) and value >= 1 << 63:
        return value - (1 << 64)
    return value if isinstance(value, (int, str, type(None))) else str(value)

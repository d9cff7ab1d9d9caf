"""Tables that Nsight Compute prints with --csv: a row per metric ("details") or per kernel ("--page
raw", whose second row holds the units).

Units are scaled for reading unless --print-units base was given, numbers have thousands separators,
and the output of the profiled program may precede the header.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from genz_core.errors import ReportError
from profilers.readers.columns import label_of
from profilers.readers.csv_tables import CsvTable, find_tables, parse_numbers, read_text
from profilers.readers.ncu_metrics import KernelResult, Reading, build_report
from profilers.readers.ncu_rep import device_of_attributes
from profilers.schema import DeviceInfo, Report

FORMAT = "ncu-csv"

_PREFIX = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}
_TIMES_NS = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9, "nsecond": 1.0, "usecond": 1e3}
_TIMES_NS |= {"msecond": 1e6, "second": 1e9, "µs": 1e3, "μs": 1e3}
_SCALED = re.compile(r"^([kmgt]?)(byte|hz|inst|flop|cycle|b)\b(?:/(s|second))?", re.IGNORECASE)
_RANGE_COLUMN = re.compile(r"(push/pop|start/(stop|end))_range", re.IGNORECASE)
#: After domain and name follow type and value of the payload, of the color and of the message.
_SUFFIX_FIELDS = 6
#: Columns of the raw page that are not metrics.
_IDENTITY = frozenset(
    {
        "ID",
        "Process ID",
        "Process Name",
        "Host Name",
        "Kernel Name",
        "Kernel Time",
        "Kernel Mangled Name",
        "Launch",
        "Context",
        "Stream",
        "Block Size",
        "Grid Size",
        "Device",
        "CC",
        "Section Name",
    }
)


def knows(cells: Sequence[str]) -> bool:
    """Whether cells are the header of a table of ncu."""
    if len(cells) < 4 or cells[0].strip() != "ID" or "Kernel Name" not in cells:
        return False
    return "Metric Name" not in cells or {"Metric Unit", "Metric Value"} <= set(cells)


def read(path: Path) -> Report:
    """Read a table file.

    Raises:
        ReportError: no table of ncu in it, or a damaged one.
    """
    tables = list(find_tables(read_text(path), knows))
    if not tables:
        raise ReportError("the file holds no table of Nsight Compute")
    results = [result for table in tables for result in _results(table)]
    return build_report(FORMAT, label_of(path), results, devices=_devices(tables, results))


def _results(table: CsvTable) -> list[KernelResult]:
    return _from_metric_rows(table) if "Metric Name" in table.header else _from_kernel_rows(table)


def _from_metric_rows(table: CsvTable) -> list[KernelResult]:
    """One result per ID; where several sections print a metric, the first one counts."""
    at = {name: place for place, name in enumerate(table.header)}
    results: dict[str, KernelResult] = {}
    values = _numbers([row[at["Metric Value"]] for row in table.rows], table.separator)
    for row, value in zip(table.rows, values, strict=True):
        result = results.setdefault(row[at["ID"]], _identity(row, at))
        name, unit = row[at["Metric Name"]].strip(), row[at["Metric Unit"]].strip()
        if not name:
            continue  # a rule
        reading = _base(value, unit) if isinstance(value, float) else value
        result.metrics.setdefault(name if "__" in name else _titled(name, unit), reading)
    return list(results.values())


def _titled(name: str, unit: str) -> str:
    """A metric's title, with its unit where sections share the title: "Memory Throughput" is a
    percentage in some sections and bytes per second in others.
    """
    return f"{name} [byte/s]" if unit.lower().endswith(("byte/s", "byte/second")) else name


def _from_kernel_rows(table: CsvTable) -> list[KernelResult]:
    """One result per row; the units are in the first row if that has no ID."""
    at = {name: place for place, name in enumerate(table.header)}
    rows, units = table.rows, [""] * len(table.header)
    if rows and not rows[0][at["ID"]].strip():
        units, rows = rows[0], rows[1:]
    results = [_identity(row, at) for row in rows]
    for name, place in at.items():
        if name in _IDENTITY or _RANGE_COLUMN.search(name):
            continue
        values = _numbers([row[place] for row in rows], table.separator)
        for result, value in zip(results, values, strict=True):
            unit = units[place].strip()
            result.metrics[name] = _base(value, unit) if isinstance(value, float) else value
    return results


def _numbers(cells: list[str], separator: str) -> list[Reading]:
    """A column with numbers where its cells hold numbers, text elsewhere."""
    numeric = [i for i, cell in enumerate(cells) if re.match(r"^\s*[+-]?[\d.,]", cell)]
    readings: list[Reading] = [cell.strip() or None for cell in cells]
    try:
        values = parse_numbers([cells[i] for i in numeric], separator)
    except ReportError:
        values = []
        for i in numeric:
            values += _lenient(cells[i])
    for i, value in zip(numeric, values, strict=True):
        readings[i] = value
    return readings


def _lenient(cell: str) -> list[float]:
    """A cell as a number, NaN where it is none."""
    try:
        return parse_numbers([cell])
    except ReportError:
        return [float("nan")]


def _identity(row: list[str], at: dict[str, int]) -> KernelResult:
    """The kernel of a row without its metrics.  at: index of the column of each name."""

    def cell(name: str) -> str:
        return row[at[name]].strip() if name in at else ""

    columns = [row[place] for name, place in at.items() if _RANGE_COLUMN.search(name)]
    device = cell("Device")
    return KernelResult(
        name=cell("Kernel Name"),
        full_name=cell("Kernel Name"),
        grid=_extent(cell("Grid Size")),
        block=_extent(cell("Block Size")),
        stream=int(cell("Stream")) if re.fullmatch(r"\d{1,9}", cell("Stream")) else -1,
        device=int(device) if re.fullmatch(r"\d{1,6}", device) else -1,
        ranges=[name for column in reversed(columns) for name in _range_names(column)],
    )


def _extent(cell: str) -> str:
    """ "224,1,1" of "(224, 1, 1)" or "224, 1, 1"."""
    return ",".join(re.findall(r"\d+", cell)[:3])


def _range_names(cell: str) -> list[str]:
    """Names of open ranges in a cell such as `1 "<default domain>:decode:none:none:..."`."""
    quoted = re.findall(r'"([^"]*)"', cell)
    return [name for entry in quoted if (name := _range_name(entry.split(":")))]


def _range_name(parts: list[str]) -> str:
    if len(parts) > _SUFFIX_FIELDS + 2:
        return ":".join(parts[1:-_SUFFIX_FIELDS])
    return parts[1] if len(parts) > 1 else parts[0]


def _base(value: float, unit: str) -> float:
    """A value in base units: ns, byte, Hz, plain counts."""
    lowered = unit.lower()
    if lowered in _TIMES_NS:
        return value * _TIMES_NS[lowered]
    match = _SCALED.match(unit)
    return value * _PREFIX[match[1].lower()] if match else value


def _devices(tables: list[CsvTable], results: list[KernelResult]) -> tuple[DeviceInfo, ...]:
    """The devices of the kernels, from their attributes, or from their compute capability where
    that is all.
    """
    devices: dict[int, DeviceInfo] = {}
    capability = {
        row[table.header.index("Device")].strip(): row[table.header.index("CC")].strip()
        for table in tables
        if {"Device", "CC"} <= set(table.header)
        for row in table.rows
    }
    for result in results:
        name = result.metrics.get("device__attribute_display_name")
        device = device_of_attributes(result.device, str(name or ""), result.metrics)
        devices.setdefault(result.device, device)
    return tuple(
        DeviceInfo(
            index=index if index >= 0 else None,
            name=device.name,
            units=device.units,
            memory_bytes_per_s=device.memory_bytes_per_s,
            clock_hz=device.clock_hz,
            l2_bytes=device.l2_bytes,
            compute_capability=device.compute_capability or capability.get(str(index)),
        )
        for index, device in devices.items()
    )

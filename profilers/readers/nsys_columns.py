"""Columns of `nsys stats` tables by their current names, in SI units."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from genz_core.errors import ReportError
from profilers.readers.csv_tables import CsvTable

_TIME = re.compile(r"^(.*?)\s*\((ns|us|µs|μs|ms|s|sec|nsec|usec|msec)\)$", re.IGNORECASE)
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0}
_SECONDS |= {"nsec": 1e-9, "usec": 1e-6, "msec": 1e-3, "sec": 1.0}
_SIZE = re.compile(r"^(.*?)\s*\((b|byte|bytes|kb|mb|gb|kib|mib|gib)\)$", re.IGNORECASE)
_BYTES = {"b": 1.0, "byte": 1.0, "bytes": 1.0, "kb": 1e3, "mb": 1e6, "gb": 1e9}
_BYTES |= {"kib": 2.0**10, "mib": 2.0**20, "gib": 2.0**30}
_BRACKET = re.compile(r"\s*\((%|mb/s|mbps|gb/s)\)$", re.IGNORECASE)

#: Column names of older versions -> current ones, in lower case and without unit.
_RENAMED = {
    "average": "avg",
    "minimum": "min",
    "maximum": "max",
    "median": "med",
    "operations": "count",
    "calls": "num calls",
}

_MAX_COUNT = 1e12


class View:
    """A table whose columns have current names, with times in seconds and sizes in bytes."""

    def __init__(self, source: CsvTable) -> None:
        self.rows = len(source.rows)
        self._source = source
        self._at: dict[str, int] = {}
        self._scale: dict[str, float] = {}
        for place, cell in enumerate(source.header):
            name, scale = folded(cell)
            self._at.setdefault(name, place)
            self._scale.setdefault(name, scale)

    def __contains__(self, name: str) -> bool:
        return name in self._at

    def text(self, name: str) -> list[str]:
        return self._source.text(self._at.get(name))

    def numbers(self, name: str) -> NDArray[np.float64]:
        """A column in SI units, NaN where a cell has no number."""
        values = np.array(self._source.numbers(self._at.get(name)), dtype=np.float64)
        return values * self._scale.get(name, 1.0)

    def counts(self, name: str) -> NDArray[np.int64]:
        """A column of counts.

        Raises:
            ReportError: it holds anything but whole numbers of at least zero.
        """
        values = self.numbers(name)
        if not bool(((values >= 0) & (values < _MAX_COUNT) & (values == np.floor(values))).all()):
            raise ReportError(f"the column {name!r} of the table should hold counts")
        return values.astype(np.int64)

    def ordinals(self, name: str) -> NDArray[np.int64]:
        """A column of ordinals (devices, streams), -1 where a cell is empty."""
        values = self.numbers(name)
        return np.where((values >= 0) & (values < 2.0**31), values, -1).astype(np.int64)


def folded(cell: str) -> tuple[str, float]:
    """The current name of a column, in lower case and without unit, and its unit in SI."""
    cell = cell.strip()
    for pattern, units in ((_TIME, _SECONDS), (_SIZE, _BYTES)):
        if match := pattern.match(cell):
            name = match[1].strip().lower()
            return _RENAMED.get(name, name), units[match[2].lower()]
    name = _BRACKET.sub("", cell).strip().lower()
    return _RENAMED.get(name, name), 1.0

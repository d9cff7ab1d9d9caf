"""Figures of many configurations as columns, and rows as text, Markdown, CSV or JSON."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from app.answers.column import ends
from app.answers.columns import COLUMNS
from genz_core.common.cells import markdown_table, spreadsheet_cell
from genz_core.workload import WITH_TIMES

#: Digits of a number in text and Markdown.
_DIGITS = 4

if TYPE_CHECKING:
    import pandas as pd

Rows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True, eq=False)
class Table(Mapping[str, NDArray[Any]]):
    """Figures of many configurations: {column: array [rows]}, in the order in which they print.

    columns: arrays [rows], or functions that make them when they are first read.  length: number of
    rows.
    """

    columns: dict[str, Any]
    length: int

    def __getitem__(self, name: str) -> NDArray[Any]:
        """A column, read-only.

        Raises:
            KeyError: no such column.
            ValueError: an array of another length.
        """
        values = self.columns[name]
        if callable(values):
            values = self.columns[name] = values()
        # a text or None is one object for all rows
        plain = values is None or isinstance(values, str)
        array = np.asarray(values, dtype=object if plain else None)
        return np.broadcast_to(array, (self.length,))

    def __contains__(self, name: object) -> bool:
        return name in self.columns

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def __len__(self) -> int:
        """Number of columns, as of any mapping; `length` is the number of rows."""
        return len(self.columns)

    def __reduce__(self) -> Any:
        """For another process: all columns, made."""
        return Table, (dict(self), self.length)

    def row(self, at: int = 0) -> dict[str, Any]:
        """One row, with Python's own types."""
        return {name: _item(values[at]) for name, values in self.items()}

    def rows(self) -> list[dict[str, Any]]:
        """All rows, with Python's own types."""
        cells = (values.tolist() for values in self.values())
        return [dict(zip(self.columns, row, strict=True)) for row in zip(*cells, strict=True)]

    def part(self, chosen: slice | NDArray[Any]) -> Table:
        """A selection of the rows: a slice, a mask, or indices."""
        kept = {name: values[chosen] for name, values in self.items()}
        return Table(kept, len(np.arange(self.length)[chosen]))

    def only(self, names: Iterable[str]) -> Table:
        """A selection of the columns in this order; unknown names are left out."""
        return Table({n: self.columns[n] for n in names if n in self.columns}, self.length)

    def to_dataframe(self) -> pd.DataFrame:
        """The columns as a data frame."""
        import pandas as pd

        return pd.DataFrame(dict(self))


def later(
    names: Iterable[str], make: Callable[[], Mapping[str, Any]]
) -> dict[str, Callable[[], Any]]:
    """Columns that one call of `make` computes together, when any of them is first read.

    Every column calls `make`, so it should be cached.
    """

    def column(name: str) -> Any:
        return make()[name]

    return {name: partial(column, name) for name in names}


def _item(cell: Any) -> Any:
    """A cell as Python's own number or text."""
    return cell.item() if isinstance(cell, np.generic) else cell


# ------------------------------------------------------------------------------- text


class TableFormat(StrEnum):
    """The formats in which a command prints a table."""

    text = "text"
    markdown = "markdown"
    csv = "csv"
    json = "json"


def render(rows: Rows, form: TableFormat, *, once: bool = False) -> str:
    """Rows in a format; JSON and CSV have full precision, text and Markdown `_DIGITS`.

    In text and Markdown, an interval is one cell.  once: there, a line above the table has the
    columns that are equal in all of several rows.
    """
    if form is TableFormat.json:
        return to_json(list(rows))
    if form is TableFormat.csv:
        return to_csv(rows)
    rows, above = [folded(row) for row in rows], ""
    if once and len(rows) > 1:
        same = {name: value for name, value in rows[0].items() if _is_constant(rows, name)}
        rows = [{name: row[name] for name in row if name not in same} for row in rows]
        said = ", ".join(f"{name} {_cell(value)}".rstrip() for name, value in same.items())
        above = f"in all rows: {said}\n\n" if said else ""
    header = list(rows[0]) if rows else []
    cells = [[_cell(row.get(name)) for name in header] for row in rows]
    if form is TableFormat.markdown:
        return above + markdown_table(header, cells)
    return above + _aligned(header, cells)


def _is_constant(rows: Rows, name: str) -> bool:
    """Whether a column has one value, or none, in all rows."""
    first = rows[0][name]
    return all(row[name] == first or (row[name] != row[name] and first != first) for row in rows)


def folded(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row for a reader: both ends of an interval in one cell, which says if there is none and is
    empty for what cannot run, and bytes with their unit.
    """
    runs = row.get("status") not in WITH_TIMES
    lows = {ends(name)[0]: name for name in row if ends(name)[0] in row and name in COLUMNS}
    dropped = {ends(name)[1] for name in lows.values()}
    if lows:
        dropped.add("not_validated")
    shown: dict[str, Any] = {}
    for key, value in row.items():
        if key in lows:
            name = lows[key]
            high = row[ends(name)[1]]
            plain = name.removesuffix("_s") if COLUMNS[name].unit == "s" else name
            shown[f"{plain} 80 %"] = _span(name, row[name], value, high) if runs else ""
        elif key not in dropped:
            amount = isinstance(value, float | int) and key in COLUMNS
            in_bytes = amount and COLUMNS[key].unit == "bytes"
            shown[key] = COLUMNS[key].words(value) if in_bytes else value
    return shown


def _span(name: str, value: float | None, low: float | None, high: float | None) -> str:
    """The interval of a figure for a reader; "" for a figure that is not known or infinite."""
    if value is None or low is None or high is None or not math.isfinite(value):
        return ""
    fixed = math.isclose(low, high, rel_tol=1e-9)
    return "set by the load" if fixed else COLUMNS[name].span(low, high)


def to_json(value: Any, *, compact: bool = False) -> str:
    """A value as JSON, NaN and infinities as null, so that any parser reads it.

    compact: on one line.
    """
    indent, separators = (None, (",", ":")) if compact else (2, None)
    return json.dumps(
        _finite(value), indent=indent, separators=separators, ensure_ascii=False, allow_nan=False
    )


def finite(value: float) -> float | None:
    """A number of a document, None where it is NaN or infinite."""
    return float(value) if math.isfinite(value) else None


def without_empty(rows: Rows) -> list[dict[str, Any]]:
    """Rows without the columns that are empty in all rows: None, NaN or no text."""

    def states(value: Any) -> bool:
        return value == value and value not in (None, "")

    kept = [name for name in (rows[0] if rows else {}) if any(states(row[name]) for row in rows)]
    return [{name: row[name] for name in kept} for row in rows]


def to_csv(rows: Rows) -> str:
    """Rows as CSV at full precision; None and NaN become empty cells, and no text becomes a
    formula.
    """
    text = io.StringIO()
    if rows:
        header = {name: spreadsheet_cell(name) for name in rows[0]}
        writer = csv.DictWriter(text, list(header), lineterminator="\n")
        writer.writerow(header)
        writer.writerows({k: spreadsheet_cell(v) for k, v in row.items()} for row in rows)
    return text.getvalue().rstrip("\n")


def _aligned(header: list[str], cells: list[list[str]]) -> str:
    widths = [max(len(line[at]) for line in [header, *cells]) for at in range(len(header))]
    numeric = [all(_is_number(line[at]) for line in cells) for at in range(len(header))]

    def line(values: list[str]) -> str:
        padded = [
            value.rjust(width) if right else value.ljust(width)
            for value, width, right in zip(values, widths, numeric, strict=True)
        ]
        return "  ".join(padded).rstrip()

    return "\n".join(line(values) for values in [header, *cells])


def _cell(value: Any) -> str:
    if value is None or value != value:
        return ""
    if isinstance(value, float):
        return f"{value:.{_DIGITS}g}" if abs(value) < 1e6 else f"{value:.{_DIGITS}e}"
    if isinstance(value, (list, tuple)):
        return ", ".join(str(item) for item in value)
    return str(value)


def _is_number(text: str) -> bool:
    try:
        float(text or 0)
    except ValueError:
        return False
    return True


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else None
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    if hasattr(value, "item"):
        return _finite(value.item())
    return value

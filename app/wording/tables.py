"""Rows as text: an aligned table for a terminal, Markdown, CSV or JSON."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

from genz_core.cells import spreadsheet_cell

Rows = Sequence[Mapping[str, Any]]


class TableFormat(StrEnum):
    """The formats in which a command prints a table."""

    text = "text"
    markdown = "markdown"
    csv = "csv"
    json = "json"


def render(rows: Rows, form: TableFormat, *, digits: int = 4) -> str:
    """Rows in a format; JSON and CSV keep full precision, text and Markdown `digits` of it."""
    if form is TableFormat.json:
        return to_json(list(rows))
    if form is TableFormat.csv:
        return to_csv(rows)
    header = list(rows[0]) if rows else []
    cells = [[_cell(row.get(name), digits) for name in header] for row in rows]
    if form is TableFormat.markdown:
        from profilers.wording import markdown_table

        return markdown_table(header, cells)
    return _aligned(header, cells)


def to_json(value: Any, *, compact: bool = False) -> str:
    """A value as JSON, NaN and infinities as null, so that any parser reads it.

    compact: on one line.
    """
    indent, separators = (None, (",", ":")) if compact else (2, None)
    return json.dumps(
        _finite(value), indent=indent, separators=separators, ensure_ascii=False, allow_nan=False
    )


def to_csv(rows: Rows) -> str:
    """Rows as CSV at full precision; None and NaN are empty cells, no text is a formula."""
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


def _cell(value: Any, digits: int) -> str:
    if value is None or value != value:
        return ""
    if isinstance(value, float):
        return f"{value:.{digits}g}" if abs(value) < 1e6 else f"{value:.{digits}e}"
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

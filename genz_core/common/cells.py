"""Table cells for other programs: spreadsheets and Markdown."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

#: First letters that make a spreadsheet treat a text as a formula.
_FORMULA = tuple("=+-@＝＋－＠\t\r\n")


def spreadsheet_cell(value: Any) -> Any:
    """A value for CSV or Excel: text that a spreadsheet would run as a formula starts with "'".

    Numbers, and texts that hold numbers, are left unchanged; NaN and None become empty.
    """
    if value is None or value != value:
        return ""
    if not isinstance(value, str) or not value.startswith(_FORMULA) or _is_number(value):
        return value
    return f"'{value}"


def markdown_cell(text: str) -> str:
    """A text for a cell of a Markdown table: on one line, with its vertical bars escaped."""
    return " ".join(text.split()).replace("|", "\\|")


def markdown_row(cells: Iterable[str]) -> str:
    """A row of a Markdown table, whose cells may hold any text."""
    return f"| {' | '.join(map(markdown_cell, cells))} |"


def markdown_table(header: Sequence[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table of a header and rows of cells, which may hold any text."""
    return "\n".join(map(markdown_row, (header, ["---"] * len(header), *rows)))


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False

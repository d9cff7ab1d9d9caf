"""Tables of comma-separated text as profilers print them.

A table may follow other output of the tool.  It may have any encoding and separator that
spreadsheets save, and numbers in either locale.
"""

from __future__ import annotations

import codecs
import csv
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from genz_core.errors import ReportError
from profilers.readers.compressed import text_bytes

MAX_FILE_BYTES = 128 << 20
MAX_ROWS = 1_000_000
_MAX_PREAMBLE_LINES = 20_000
_SEPARATORS = (",", ";", "\t", "|")

_ENGLISH = re.compile(r"[+-]?(\d{1,3}(,\d{3})+|\d+)?(\.\d*)?(e[+-]?\d+)?", re.IGNORECASE)
_CONTINENTAL = re.compile(r"[+-]?(\d{1,3}(\.\d{3})+|\d+)?(,\d*)?(e[+-]?\d+)?", re.IGNORECASE)
_MISSING = frozenset({"", "n/a", "nan", "-", "(!) n/a", "no data", "inf", "-inf"})


@dataclass(frozen=True, slots=True)
class CsvTable:
    """A table: its header as printed and its rows, each as long as the header."""

    header: tuple[str, ...]
    rows: list[list[str]]
    separator: str

    def text(self, column: int | None) -> list[str]:
        """A column's cells; empty ones where the table lacks it."""
        return [""] * len(self.rows) if column is None else [row[column] for row in self.rows]

    def numbers(self, column: int | None) -> list[float]:
        """A column as numbers, NaN where a cell has none.

        Raises:
            ReportError: cells that are not numbers, or whose locale is ambiguous.
        """
        return parse_numbers(self.text(column), self.separator)


def read_text(path: Path) -> str:
    """A table file as text: UTF-8, UTF-16 by its mark, else Latin-1.

    Raises:
        ReportError: it is too large, or holds binary data.
    """
    return decoded(text_bytes(path, MAX_FILE_BYTES))


def decoded(data: bytes) -> str:
    """Bytes as text; encodings and errors as `read_text`."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return data.decode("utf-16", "replace")
    if b"\0" in data[:4096]:
        raise ReportError("the file holds binary data in an unknown format")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("latin-1")


def find_tables(text: str, is_header: Callable[[Sequence[str]], bool]) -> Iterator[CsvTable]:
    """The tables of a text, each under a line that `is_header` accepts.

    Raises:
        ReportError: a quote that never closes, a cell or table beyond bounds.
    """
    lines = without_cut_row(text).splitlines()
    at = 0
    while (header_line := find_header(lines, at, is_header)) is not None:
        start, separator, header = header_line
        rows: list[list[str]] = []
        at = len(lines)
        reader = csv.reader(iter(lines[start + 1 :]), delimiter=separator)
        try:
            for row in reader:
                if len(row) < len(header) and len(row) <= 1:
                    at = start + 1 + reader.line_num
                    break
                if is_header(row):
                    at = start + reader.line_num
                    break
                rows.append((row + [""] * len(header))[: len(header)])
                if len(rows) > MAX_ROWS:
                    raise ReportError(f"the table has over {MAX_ROWS} rows; export less of it")
        except csv.Error as error:
            raise ReportError(f"the table is damaged near line {start + 1} ({error})") from None
        yield CsvTable(tuple(header), rows, separator)


def breaks_off(text: str) -> str:
    """Where a text of tables is truncated, in a sentence; "" where its last row is complete.

    A row is truncated if it has no line end and fewer cells than the row before, or an open quote.
    """
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) < 2 or text.endswith(("\n", "\r")):
        return ""
    for separator in _SEPARATORS:
        try:
            before, last = (
                len(next(csv.reader([line], delimiter=separator))) for line in lines[-2:]
            )
        except (csv.Error, StopIteration):
            continue
        opened = before > 1 and lines[-1].count('"') % 2
        if opened or 1 < last < before or (last == 1 < before and separator == ","):
            return f"the table is cut off in row {len(lines):,}, and the rest is missing"
    return ""


def without_cut_row(text: str) -> str:
    """A text of tables without its last row where that is truncated, since its last number may be
    too.
    """
    return text.rstrip().rpartition("\n")[0] if breaks_off(text) else text


def find_header(
    lines: list[str], at: int, is_header: Callable[[Sequence[str]], bool]
) -> tuple[int, str, list[str]] | None:
    """(line number, separator, cells) of the next header from a line on; None without any."""
    for number in range(at, min(len(lines), at + _MAX_PREAMBLE_LINES)):
        line = lines[number]
        if len(line) > 1 << 20:
            continue
        for separator in _SEPARATORS:
            if separator not in line:
                continue
            try:
                cells = next(csv.reader([line], delimiter=separator), [])
            except csv.Error:
                continue
            cells = [cell.strip() for cell in cells]
            if is_header(cells):
                return number, separator, cells
    return None


def parse_numbers(cells: Sequence[str], separator: str = ",") -> list[float]:
    """Numbers of a column, whose cells share a locale: "13,485.5" or "13.485,5".

    Raises:
        ReportError: a cell is not a number, or "1,234" could be either in a file that is separated
            by semicolons, where the comma may be the decimal mark.
    """
    stripped = [cell.strip().replace("\u00a0", "").replace(" ", "") for cell in cells]
    present = [cell for cell in stripped if cell.lower() not in _MISSING]
    english = all(_ENGLISH.fullmatch(cell) for cell in present)
    continental = all(_CONTINENTAL.fullmatch(cell) for cell in present)
    marked = any("," in cell or "." in cell for cell in present)
    if english and continental and marked and separator == ";":
        raise ReportError(
            f"numbers such as {next(c for c in present if ',' in c or '.' in c)!r} are ambiguous "
            "in a table separated by semicolons; save it separated by commas"
        )
    if english:
        return [_number(cell.replace(",", "")) for cell in stripped]
    if continental:
        return [_number(cell.replace(".", "").replace(",", ".")) for cell in stripped]
    wrong = next(c for c in present if not _ENGLISH.fullmatch(c) or not _CONTINENTAL.fullmatch(c))
    raise ReportError(f"{wrong[:40]!r} stands where the table should have a number")


def _number(cell: str) -> float:
    if cell.lower() in _MISSING:
        return math.nan
    try:
        return float(cell)
    except ValueError:
        raise ReportError(f"{cell[:40]!r} stands where the table should have a number") from None

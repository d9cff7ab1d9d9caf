"""Shared by validations: parallel work, groups and columns of rows, and stored tables."""

import datetime
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from app.answers.table import TableFormat, render
from app.simulation.executor import Where, outcomes
from genz_core.common.progress import Cancel, Cancelled
from hardware_db import tables
from hardware_db.tables import TableFolder

Row = dict[str, Any]
#: Rows by column: numbers as floats, all else as objects, [rows].
Columns = Mapping[str, NDArray[Any]]
Given = TypeVar("Given")


def over_processes(
    price: Callable[[Given], Row],
    cases: Sequence[Given],
    workers: int,
    progress: Callable[[int, int], None],
    cancelled: Cancel,
    what: str,
) -> list[Row]:
    """`price` of every case, in order; workers: processes, 0 for one per core.

    what: plural noun for the cases, used in the message of `Cancelled`.

    Raises:
        Cancelled: `cancelled` returned True before the last case.
    """
    pieces, found = {at: (case,) for at, case in enumerate(cases)}, dict[int, Row]()
    for at, row in outcomes(price, pieces, Where(workers), cancelled):
        found[at] = row
        progress(len(found), len(cases))
    if len(found) < len(cases):
        raise Cancelled(f"{len(found)} of {len(cases)} {what}")
    return [found[at] for at in range(len(cases))]


def grouped(rows: Iterable[Mapping[str, Any]], by: Sequence[str]) -> list[tuple[Row, list[Any]]]:
    """Rows grouped by the columns `by`: (common values, rows), most rows first."""
    groups: dict[tuple[Any, ...], list[Any]] = {}
    for row in rows:
        groups.setdefault(tuple(row.get(name, "") for name in by), []).append(row)
    ordered = sorted(groups.items(), key=lambda item: -len(item[1]))
    return [(dict(zip(by, key, strict=True)), members) for key, members in ordered]


def columns_of(rows: Sequence[Row]) -> Columns:
    """Rows with the same columns, by column; {} without any."""
    return {name: column([row[name] for row in rows]) for name in rows[0]} if rows else {}


def column(values: Sequence[Any]) -> NDArray[Any]:
    """The values of a column, equal texts one object: most repeat, and a server holds them all."""
    if isinstance(values[0], float):
        return np.array(values, dtype=float)
    same: dict[Any, Any] = {}
    return np.array([same.setdefault(value, value) for value in values], dtype=object)


def rows_of(columns: Columns, at: Sequence[int] | NDArray[np.intp]) -> list[Row]:
    """The rows of columns at some places."""
    values = (one[at].tolist() for one in columns.values())
    return [dict(zip(columns, row, strict=True)) for row in zip(*values, strict=True)]


def today() -> str:
    """Today's date in ISO 8601, UTC."""
    return datetime.datetime.now(datetime.UTC).date().isoformat()


def table_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows as a Markdown table, or that the fit which writes them has not run."""
    return render(rows, TableFormat.markdown) if rows else "Not written yet."


def path_of(folder: TableFolder, name: str) -> Path:
    """The file of a table that documents and plans read."""
    return tables.folder(folder) / f"{name}.csv"


def kept(folder: TableFolder, name: str, texts: Sequence[str]) -> list[Row]:
    """The rows of a stored table without the date, numbers as floats; [] if it was not written yet.

    texts: columns that hold no numbers.
    """
    return [
        {n: text if n in texts else _number(text) for n, text in row.items() if n != "date"}
        for row in tables.table(folder, name)
    ]


def _number(text: str) -> float | int | None:
    if not text:
        return None
    return float(text) if "." in text else int(text)

"""Tables that ship: published measurements, and the errors and factors of the fits.

    measurements/   published and serving points, acceptance of drafts, what peers publish
    profiles/       errors of the operators' fit, points not used in the fit
    engines/        factors of devices and recipes, errors and intervals of the engines' fit
    technology/     memory generations, power of sites, cache tiers, starts and losses, with sources

All but the last are written by `python -m hardware_db.fit` and `python -m app.engine_fit`.
"""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

TableFolder = Literal["measurements", "profiles", "engines", "technology"]
HERE = Path(__file__).parent


def folder(folder_name: TableFolder) -> Path:
    """Path of one of the folders above."""
    return HERE / folder_name


def read_rows(folder_name: TableFolder, name: str) -> tuple[dict[str, str], ...]:
    """Rows of a table, {column: text} each, equal texts one object; empty if `name`.csv does not
    exist.  Read anew by each call.
    """
    path = folder(folder_name) / f"{name}.csv"
    if not path.is_file():
        return ()
    columns, *rows = csv.reader(io.StringIO(path.read_text(encoding="utf-8")))
    same: dict[str, str] = {}
    each = (map(same.setdefault, row, row) for row in rows)
    return tuple(dict(zip(columns, texts, strict=True)) for texts in each)


#: `read_rows`, kept.
table = cache(read_rows)


@dataclass(frozen=True, slots=True)
class SourcedFigure:
    """A figure with its kind ("datasheet", "derived", "measured", "assumed"), source and note."""

    value: float
    kind: str
    source: str
    note: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.note} ({self.source})"


def sourced_figures(name: str, of: str) -> dict[str, SourcedFigure]:
    """{figure: its row} of one subject ("*" for all) in a table of technology."""
    return {
        row["figure"]: SourcedFigure(float(row["value"]), row["kind"], row["source"], row["note"])
        for row in table("technology", name)
        if row["of"] == of
    }

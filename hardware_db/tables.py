"""The tables that ship: what was measured, and how far off the fits are.

    measurements/   published and serving points, what peers publish
    profiles/       errors of the operators' fit, points that fitted nothing
    engines/        factors of devices and recipes, errors and intervals of the engines' fit

They are written by `python -m hardware_db.fit` and `python -m app.engine_fit`.
"""

from __future__ import annotations

import csv
import io
from functools import cache
from pathlib import Path
from typing import Literal

Room = Literal["measurements", "profiles", "engines"]
HERE = Path(__file__).parent


def folder(room: Room) -> Path:
    """Where the tables of a room lie."""
    return HERE / room


@cache
def table(room: Room, name: str) -> tuple[dict[str, str], ...]:
    """The rows of a table by its name without ending, text as it stands; empty if there is none."""
    path = folder(room) / f"{name}.csv"
    if not path.is_file():
        return ()
    return tuple(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"))))

"""The tables of choices that documents and plans read: where they are kept, and what they say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from app.accuracy.decisions.correction import Correction
from app.accuracy.decisions.loads import Load
from app.accuracy.decisions.scores import split_table
from app.accuracy.tables import Row, kept, path_of, today
from hardware_db.tables import table

_KEPT = "decisions"  # `split_table`
_KEPT_CHOICES = "choices"  # `choice_corrections`: by what a chosen plan's probability is corrected


def kept_path() -> Path:
    """Where `kept_rows` are kept."""
    return path_of("measurements", _KEPT)


def kept_rows(by_split: Mapping[str, Sequence[Load]]) -> list[Row]:
    """`split_table` with the day of its pricing, today's."""
    return [{**row, "date": today()} for row in split_table(by_split)]


def shipped_table() -> list[Row]:
    """The kept rows, numbers as floats; [] before any was written."""
    return kept("measurements", _KEPT, ("split",))


def given_away(split: str) -> Row | None:
    """The kept row of a split; None before it was written."""
    return next((row for row in shipped_table() if row["split"] == split), None)


def choices_path() -> Path:
    """Where `choice_corrections` are kept."""
    return path_of("measurements", _KEPT_CHOICES)


def shipped_correction(split: str) -> Correction:
    """The kept correction of a split; one that changes nothing before any was written."""
    for row in table("measurements", _KEPT_CHOICES):
        if row["split"] == split:
            return Correction(float(row["slope"]), float(row["shift"]), int(row["choices"]))
    return Correction()

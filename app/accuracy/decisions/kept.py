"""The shipped tables of choices that documents and plans read."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from app.accuracy.decisions.correction import Correction
from app.accuracy.decisions.loads import Load
from app.accuracy.decisions.scores import split_table
from app.accuracy.tables import Row, kept, path_of, today
from hardware_db.tables import table

_KEPT = "decisions"  # `split_table`
_KEPT_CHOICES = "choices"  # corrections of a chosen plan's probability, `choice_corrections`


def kept_path() -> Path:
    """The file of `kept_rows`."""
    return path_of("measurements", _KEPT)


def kept_rows(by_split: Mapping[str, Sequence[Load]]) -> list[Row]:
    """`split_table` with the date of its pricing, today."""
    return [{**row, "date": today()} for row in split_table(by_split)]


def shipped_table() -> list[Row]:
    """The kept rows, numbers as floats; [] if none were written yet."""
    return kept("measurements", _KEPT, ("split",))


def given_away(split: str) -> Row | None:
    """The kept row of a split; None if it was not written yet."""
    return next((row for row in shipped_table() if row["split"] == split), None)


def choices_path() -> Path:
    """The file of `choice_corrections`."""
    return path_of("measurements", _KEPT_CHOICES)


def shipped_correction(split: str) -> Correction:
    """The kept correction of a split; the identity if none was written yet."""
    for row in table("measurements", _KEPT_CHOICES):
        if row["split"] == split:
            return Correction(
                float(row["slope"]),
                float(row["shift"]),
                int(row["choices"]),
                float(row["odd_share"]),
            )
    return Correction()

"""The shipped tables of choices that documents and plans read."""

from collections.abc import Mapping, Sequence

from app.accuracy.decisions.correction import Correction
from app.accuracy.decisions.loads import Load
from app.accuracy.decisions.scores import split_table
from app.accuracy.tables import Row, kept, today
from hardware_db.tables import table

KEPT = "decisions"  # `split_table`
CHOICES = "choices"  # corrections of a chosen plan's probability, `choice_corrections`


def kept_rows(by_split: Mapping[str, Sequence[Load]]) -> list[Row]:
    """`split_table` with the date of its pricing, today."""
    return [{**row, "date": today()} for row in split_table(by_split)]


def shipped_table() -> list[Row]:
    """The kept rows, numbers as floats; [] if none were written yet."""
    return kept("measurements", KEPT, ("split",))


def given_away(split: str) -> Row | None:
    """The kept row of a split; None if it was not written yet."""
    return next((row for row in shipped_table() if row["split"] == split), None)


def shipped_correction(split: str) -> Correction:
    """The kept correction of a split; the identity if none was written yet."""
    for row in table("measurements", CHOICES):
        if row["split"] == split:
            return Correction(
                float(row["slope"]),
                float(row["shift"]),
                int(row["choices"]),
                float(row["odd_share"]),
            )
    return Correction()

"""The runs of a search as a points file for `calibrate runs`, to correct later predictions."""

import math
from collections.abc import Sequence

from app.question import literals
from app.question.query import Query
from app.scenario.points_row import KNOWN
from app.tuning.study import Record

#: Columns that a points file always needs.
_NEEDED = ("model", "system", "isl", "osl")
#: Columns of `ridgeline calibrate runs`, by figure of a run.
_MEASURED = {"ttft": "measured_ttft_s", "tpot": "measured_tpot_s"}


def points(query: Query, records: Sequence[Record]) -> list[dict[str, str]]:
    """The measured runs with a latency as rows of a points file, all with the same columns."""
    stated = {
        name: literals.text(getattr(query.question, name))
        for name in KNOWN
        if name in query.given or name in _NEEDED
    }
    rows = []
    for record in records:
        figures = {
            column: f"{value:.6g}"
            for name, column in _MEASURED.items()
            if math.isfinite(value := record.outcome.figures.get(name, math.nan))
        }
        if record.outcome.status == "measured" and figures:
            chosen = {name: literals.text(v) for name, v in record.setting.items() if name in KNOWN}
            rows.append({"id": f"run {record.number}", **stated, **chosen, **figures})
    columns = dict.fromkeys(name for row in rows for name, text in row.items() if text)
    return [{name: row.get(name, "") for name in columns} for row in rows]

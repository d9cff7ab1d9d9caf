"""What the runs of a search teach later predictions: a points file that `calibrate runs` takes."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence

from app.question import typed
from app.question.asking import Asked
from app.scenario.points_row import KNOWN
from app.tuning.study import Record
from genz_core.cells import spreadsheet_cell

#: Of `ridgeline calibrate runs`, by the figures of a run.
_MEASURED = {"ttft": "measured_ttft_s", "tpot": "measured_tpot_s"}


def points(asked: Asked, records: Sequence[Record]) -> str:
    """The measured runs as rows of a points file, "" where none has a latency."""
    rows = []
    for record in records:
        figures = {
            column: f"{value:.6g}"
            for name, column in _MEASURED.items()
            if math.isfinite(value := record.outcome.figures.get(name, math.nan))
        }
        if record.outcome.status != "measured" or not figures:
            continue
        stated = {name: getattr(asked.question, name) for name in KNOWN if name in asked.given}
        texts = {name: typed.text(value) for name, value in {**stated, **record.setting}.items()}
        known = {name: text for name, text in texts.items() if name in KNOWN and text}
        rows.append({"id": f"run {record.number}", **known, **figures})
    if not rows:
        return ""
    out = io.StringIO()
    names = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv.DictWriter(out, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: spreadsheet_cell(text) for name, text in row.items()} for row in rows)
    return out.getvalue()

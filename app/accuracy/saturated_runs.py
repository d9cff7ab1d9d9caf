"""Measured runs that send all requests at once, and their output tokens per second.

`hardware_db/measurements/throughput.csv` holds them with their sources.  The closed form prices
each as a closed loop of all its requests, or of the concurrency that the source states.  Lengths
are equal, as the sources say; no constant was fitted on these runs.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from app.accuracy.measured_points import measured_rows
from app.accuracy.tables import Row, grouped
from app.scenario import points_file, points_row
from genz_core.calibration.error_metrics import error_summary

#: Default grouping columns.
BY = ("source", "engine", "system", "model")
_FIGURES = {"mape": "mean %", "median": "median %", "bias": "bias %", "within_20": "within 20 %"}


def as_run(row: Mapping[str, str]) -> dict[str, str]:
    """A row of the table as a row of a points file."""
    facts = {name: text for name, text in row.items() if name in points_row.KNOWN}
    return {**facts, "burst_start": "true", "length_ratio": "1"}


def records() -> list[Row]:
    """Every run: labels, status, and measured and predicted output tokens/s (NaN if refused)."""
    rows = measured_rows("throughput")
    priced = points_file.price([as_run(row) for row in rows])
    found = []
    for row, answer in zip(rows, priced, strict=True):
        measured = float(row["measured_output_tokens_per_s"])
        predicted = float(answer["output_tokens_per_s"] or "nan")
        labels = {name: text for name, text in row.items() if not name.startswith("measured_")}
        found.append(
            {
                **labels,
                "status": answer["status"],
                "measured_output_tokens_per_s": measured,
                "predicted_output_tokens_per_s": predicted,
                "error": predicted / measured - 1.0,
            }
        )
    return found


def error_table(found: Sequence[Row], by: Sequence[str] = ()) -> list[Row]:
    """Errors [%] of each group of runs with equal columns `by`, most runs first.

    found: of `records`.
    """
    rows = []
    for shared, members in grouped(found, by):
        predicted, measured = (
            np.array([record[f"{name}_output_tokens_per_s"] for record in members])
            for name in ("predicted", "measured")
        )
        figures = error_summary(predicted, measured).row()
        percent = {head: round(100.0 * figures[name], 1) for name, head in _FIGURES.items()}
        rows.append({**shared, "runs": int(figures["points"]), **percent})
    return rows


def worst(found: Sequence[Row], count: int) -> list[Row]:
    """The `count` runs with the largest |ln(predicted / measured)|, largest first."""
    priced = [record for record in found if np.isfinite(record["error"])]
    names = ("id", "model", "system", "engine", "isl", "osl", "error")
    ordered = sorted(priced, key=lambda record: -abs(np.log1p(record["error"])))
    return [{name: record[name] for name in names} for record in ordered[:count]]

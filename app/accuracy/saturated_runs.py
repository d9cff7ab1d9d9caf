"""Measured runs that send all requests at once, and their output tokens per second.

`hardware_db/measurements/throughput.csv` holds them with their sources and what these say of the
launch.  Each is simulated as it ran: all its requests at once, or with the concurrency that the
source states, until the last has ended.  Lengths are equal, as the sources say; no constant was
fitted on these runs.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from app.accuracy import measured_points, tables
from app.accuracy.tables import Row, grouped
from app.simulation import points
from genz_core.calibration.error_metrics import error_summary
from genz_core.common.progress import Cancel, never

#: Default grouping columns.
BY = ("source", "engine", "system", "model")
_FIGURES = {"mape": "mean %", "median": "median %", "bias": "bias %", "within_20": "within 20 %"}


def measured() -> list[dict[str, str]]:
    """Every run, as its table states it."""
    return measured_points.measured_rows("throughput")


def as_run(row: Mapping[str, str]) -> dict[str, str]:
    """A row of the table as a row of a simulation file."""
    facts = {name: text for name, text in row.items() if name in points.KNOWN}
    return {**facts, "burst_start": "true", "length_ratio": "1"}


def records(
    runs: Sequence[Mapping[str, str]] | None = None,
    workers: int = 1,
    progress: Callable[[int, int], None] = lambda done, of: None,
    cancelled: Cancel = never,
) -> list[Row]:
    """Each run: labels, status, and measured and predicted output tokens/s (NaN if refused).

    runs: rows of the table; every run by default.

    Raises:
        Cancelled: `cancelled` returned True before the last run.
    """
    rows = measured() if runs is None else runs
    return tables.over_processes(record, rows, workers, progress, cancelled, "runs")


def record(row: Mapping[str, str]) -> Row:
    """One run with its simulation, see `records`."""
    answer = points.simulate_row(as_run(row), "")
    measured_per_s = float(row["measured_output_tokens_per_s"])
    predicted_per_s = float(answer["output_tokens_per_s"] or "nan")
    labels = {name: text for name, text in row.items() if not name.startswith("measured_")}
    return {
        **labels,
        "status": answer["status"],
        "measured_output_tokens_per_s": measured_per_s,
        "predicted_output_tokens_per_s": predicted_per_s,
        "error": predicted_per_s / measured_per_s - 1.0,
    }


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
    names = ("id", "model", "system", "engine", "isl", "osl", "error")
    furthest = measured_points.worst(tables.columns_of(found), count)
    return [{name: record[name] for name in names} for record in furthest]

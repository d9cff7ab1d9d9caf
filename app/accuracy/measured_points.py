"""The shipped measured points with their predictions: records, and their errors by column."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

import hardware_db
from app.accuracy.tables import Columns, Row, grouped, rows_of
from app.answers.column import ends
from app.scenario import points_file
from genz_core.calibration.error_metrics import ErrorSummary, error_summary
from genz_core.errors import InvalidValue
from hardware_db.tables import table

#: The metrics that a serving row measures.
SERVING_METRICS = ("ttft_s", "tpot_s")


def measured_rows(name: str) -> list[dict[str, str]]:
    """The rows of hardware_db/measurements/<name>.csv as text.

    name: "serving", "published" or "disaggregated".

    Raises:
        InvalidValue: unknown name.
    """
    rows = table("measurements", name)
    if not rows:
        raise InvalidValue(
            f"no measured points called {name!r}; there are serving, published, throughput and "
            "disaggregated"
        )
    return [dict(row) for row in rows]


def as_run(row: Mapping[str, str]) -> dict[str, str]:
    """A measured row with the load stated explicitly where the table relies on convention.

    All users of a benchmark start at once and send ten requests each.  Lengths are equal if the row
    states no range; a batch row without an engine was run under an unknown engine.
    """
    engine = row.get("engine") or hardware_db.GENERIC
    if not row.get("concurrency"):
        return {**row, "engine": engine}
    ratio = row.get("length_ratio") or "1"
    return {**row, "engine": engine, "length_ratio": ratio, "burst_start": "true"}


def serving(progress: Callable[[int, int], None] = lambda done, of: None) -> list[Row]:
    """Predictions of the serving rows: one record per metric and row, ordered by metric."""
    rows = measured_rows("serving")
    priced = points_file.price([as_run(row) for row in rows], progress)
    return [
        _record(row, estimated, metric, row[f"measured_{metric}"])
        for metric in SERVING_METRICS
        for row, estimated in zip(rows, priced, strict=True)
    ]


def published(progress: Callable[[int, int], None] = lambda done, of: None) -> list[Row]:
    """Predictions of the published batch points: one record per row, for the measured phase."""
    rows = measured_rows("published")
    priced = points_file.price([as_run(row) for row in rows], progress)
    return [
        _record(row, estimated, row["phase"], row["measured_s"])
        for row, estimated in zip(rows, priced, strict=True)
    ]


def columns(name: str) -> list[str]:
    """Columns of the records of `serving` or `published`; prices only one row."""
    row, *_ = measured_rows(name)
    (priced,) = points_file.price([as_run(row)])
    metric = SERVING_METRICS[0] if name == "serving" else row["phase"]
    return list(_record(row, priced, metric, "1"))


def _record(row: Mapping[str, str], priced: Mapping[str, str], metric: str, measured: str) -> Row:
    """A record: the row's labels, predicted and measured [s], the interval's ends and the error.

    priced: the row as `points_file.price` returns it.  measured: seconds, as text.
    """
    column = points_file.FIGURES[metric].predicted
    value, truth = _number(priced[column]), float(measured)
    low, high = (_number(priced[end]) for end in ends(column))
    facts = {key: text for key, text in row.items() if not key.startswith("measured_")}
    return {
        **facts,
        "metric": metric,
        "status": priced["status"],
        "message": priced["message"],
        "predicted_s": value,
        "measured_s": truth,
        "low_s": low,
        "high_s": high,
        "error": value / truth - 1.0,
    }


def of_metric(records: Columns, metric: str) -> Columns:
    """The records of a metric."""
    chosen = records["metric"] == metric
    return {name: column[chosen] for name, column in records.items()}


def error_table(records: Columns, by: Sequence[str] = ()) -> list[Row]:
    """Errors in percent for each group of records with equal columns `by`, largest group first."""
    places = (
        {name: records[name][at] for name in by} | {"at": at} for at in range(len(records["error"]))
    )
    return [
        {**shared, **_percent(_accuracy(records, [place["at"] for place in of]))}
        for shared, of in grouped(places, by)
    ]


def worst(records: Columns, most: int = 20) -> list[Row]:
    """The records with the largest |ln(predicted / measured)|, at most so many, largest first."""
    finite = np.flatnonzero(np.isfinite(records["error"]))
    distance = np.abs(np.log1p(np.maximum(records["error"][finite], -0.999)))
    return rows_of(records, finite[np.argsort(-distance, kind="stable")][:most])


def _accuracy(records: Columns, at: Sequence[int]) -> ErrorSummary:
    names = ("predicted_s", "measured_s", "low_s", "high_s")
    return error_summary(*(records[name][at] for name in names))


def _percent(figures: ErrorSummary) -> Row:
    """Fractions as percent with one decimal; count and rank correlation unchanged."""
    row: Row = {}
    for name, value in figures.row().items():
        if name in ("points", "rank"):
            row[name] = value if name == "points" else round(value, 3)
        elif name != "worst" and not np.isnan(value):
            row[f"{name} %"] = round(100.0 * value, 1)
    return row


def _number(text: str) -> float:
    return float(text) if text else float("nan")

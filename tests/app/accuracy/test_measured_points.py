"""Measured points with their predictions: every row a record, errors by any column."""

import pytest

from app.accuracy import measured_points
from app.accuracy.tables import columns_of
from genz_core.errors import InvalidValue


def test_every_published_row_becomes_a_record_with_its_own_error(published_records):
    rows = measured_points.measured_rows("published")
    assert [record["id"] for record in published_records] == [row["id"] for row in rows]
    for record, row in zip(published_records, rows, strict=True):
        assert record["metric"] == row["phase"]
        assert record["measured_s"] == float(row["measured_s"])
        expected = record["predicted_s"] / record["measured_s"] - 1.0
        assert record["error"] == pytest.approx(expected, nan_ok=True)
    assert sum(record["predicted_s"] > 0 for record in published_records) > 0.9 * len(rows)


def test_errors_are_averaged_in_each_group_and_the_largest_comes_first():
    errors = {"a": (0.09, -0.3), "b": (0.5,)}
    others = {"measured_s": 1.0, "low_s": float("nan"), "high_s": float("nan")}
    records = columns_of(
        [
            {"engine": name, "predicted_s": 1.0 + error, "error": error, **others}
            for name, members in errors.items()
            for error in members
        ]
    )
    first, second = measured_points.error_table(records, ("engine",))
    assert (first["engine"], first["points"], first["mape %"]) == ("a", 2, 19.5)
    assert (first["bias %"], first["within_10 %"]) == (-10.5, 50.0)
    assert (second["engine"], second["points"], second["mape %"]) == ("b", 1, 50.0)
    (whole,) = measured_points.error_table(records)
    assert (whole["points"], whole["mape %"]) == (3, 29.7)


def test_an_unknown_set_of_points_is_refused_with_those_that_there_are():
    with pytest.raises(InvalidValue, match="serving, published, throughput and disaggregated"):
        measured_points.measured_rows("weather")

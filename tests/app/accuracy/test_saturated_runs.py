"""Runs that send all requests at once: how they are priced, and errors by any column."""

import math

import pytest

from app.accuracy import saturated_runs
from app.scenario import points_file

pytestmark = pytest.mark.usefixtures("priced_once")


@pytest.fixture
def found(priced_once):
    return saturated_runs.records()


def test_every_run_is_priced_as_its_row_of_a_points_file(found):
    assert len(found) == 82 and {record["status"] for record in found} == {"ok"}
    row = saturated_runs.measured_rows("throughput")[3]
    (alone,) = points_file.price([saturated_runs.as_run(row)])
    predicted = float(alone["output_tokens_per_s"])
    measured = float(row["measured_output_tokens_per_s"])
    assert found[3]["predicted_output_tokens_per_s"] == pytest.approx(predicted, rel=1e-3)
    assert found[3]["error"] == pytest.approx(predicted / measured - 1.0, rel=1e-3)


def test_errors_are_averaged_by_group_the_largest_group_first():
    predicted = {"a": (90.0, 130.0), "b": (50.0,)}
    records = [
        {"engine": name, "predicted_output_tokens_per_s": value,
         "measured_output_tokens_per_s": 100.0}
        for name, values in predicted.items()
        for value in values
    ]  # fmt: skip
    first, second = saturated_runs.error_table(records, ("engine",))
    assert first == {
        "engine": "a", "runs": 2, "mean %": 20.0, "median %": 20.0, "bias %": 10.0,
        "within 20 %": 50.0,
    }  # fmt: skip
    assert (second["engine"], second["mean %"]) == ("b", 50.0)
    assert saturated_runs.error_table(records)[0]["runs"] == 3


def test_the_worst_are_furthest_as_ratios(found):
    furthest = saturated_runs.worst(found, 3)
    ratios = [abs(math.log1p(record["error"])) for record in furthest]
    assert ratios == sorted(ratios, reverse=True) and len(ratios) == 3
    assert ratios[0] == max(abs(math.log1p(record["error"])) for record in found)


def test_the_command_prints_all_runs_and_groups_of_them(printed):
    tables = printed("validate", "throughput", "--worst", "2").strip().split("\n\n")
    assert len(tables) == 2 + len(saturated_runs.BY)
    assert tables[0].split()[0] == "runs" and len(tables[-1].splitlines()) == 3
    assert "no column 'colour'" in str(_refused(printed))


def _refused(printed):
    with pytest.raises(Exception, match="colour") as refused:
        printed("validate", "throughput", "--by", "colour")
    return refused.value

"""`validate`: errors by any column, with those of the held-out splits."""

import csv

import pytest

from genz_core.errors import InvalidValue
from hardware_db.profiles.validation import OPERATOR_SPLITS

pytestmark = pytest.mark.usefixtures("priced_once")


def test_operators_are_printed_by_split(printed):
    rows = list(csv.DictReader(printed("validate", "operators", "--format", "csv").splitlines()))
    of_gemm = [row for row in rows if row["operator"] == "gemm"]
    gemm = {row["split"].removeprefix("'"): float(row["mape %"]) for row in of_gemm}  # "'+ 20 ..."
    assert set(gemm) == set(OPERATOR_SPLITS)
    assert gemm["held-out shapes"] < gemm["unseen family"] < gemm["roofline"]


@pytest.mark.slow
def test_held_out_errors_and_the_worst_points_stand_beside_all_rows(printed):
    tables = printed("validate", "published", "--worst", "3").strip().split("\n\n")
    errors, heading, splits, worst = tables
    assert {line.split()[0] for line in errors.splitlines()[1:]} == {
        "all", "prefill", "decode", "e2e"
    }  # fmt: skip
    assert heading == "By how the fit used the points:"
    assert "configurations held out" in splits and "one GPU left out" in splits
    assert worst.splitlines()[0].split()[:4] == ["error", "predicted", "measured", "suspected"]
    assert len(worst.splitlines()) == 4


def test_an_unknown_column_is_refused_by_name_with_those_that_there_are(ridgeline):
    refused = ridgeline("validate", "operators", "--by", "colour")
    assert isinstance(refused.exception, InvalidValue)
    assert str(refused.exception).startswith("no column 'colour'; there are operator, system")


def test_every_row_goes_into_the_file_of_rows(printed, tmp_path):
    path = tmp_path / "rows.csv"
    printed("validate", "operators", "--rows", path)
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) > 100 and {"operator", "split", "mape %"} <= set(rows[0])


@pytest.mark.parametrize("what", ["disaggregated", "decisions"])
def test_an_unknown_column_of_what_is_kept_is_refused_before_anything_is_priced(ridgeline, what):
    refused = ridgeline("validate", what, "--by", "colour")
    assert isinstance(refused.exception, InvalidValue)
    assert str(refused.exception).startswith("no column 'colour'; there are ")


@pytest.mark.slow
def test_choices_on_measured_frontiers_are_printed_by_what_was_known(printed, tmp_path):
    path = tmp_path / "choices.csv"
    table = printed("validate", "decisions", "--rows", path, "--format", "csv")
    rows = list(csv.DictReader(table.splitlines()))
    assert (rows[0]["split"], rows[-1]["split"]) == ("in sample", "fewest GPUs")
    with path.open(encoding="utf-8", newline="") as file:
        choices = [row for row in csv.DictReader(file) if row["split"] == "in sample"]
    assert len(choices) == int(rows[0]["questions"])
    mean = sum(float(row["regret"]) for row in choices) / len(choices)
    assert float(rows[0]["throughput lost %"]) == pytest.approx(100 * mean, abs=0.06)

"""Charts of benchmarks: measured points on the predicted curve, replays, a history."""

import math
from pathlib import Path

import pandas as pd
import pytest

from app.benchmarks import curve as curves
from app.benchmarks.closed_form import predict
from app.benchmarks.comparison import compare
from app.benchmarks.deployment import deployments
from app.charts import benchmarks
from profilers.serving_results import read_results
from tests.app.charts.figures import LOOKS, both_looks, checked

FILE = Path(__file__).parents[2] / "fixtures/results/sglang/llama_405b_online_output.jsonl"
GIVEN = {"model": "meta-llama/Llama-3.1-405B", "system": "h200", "tp": 8, "weights": "fp8"}


@pytest.fixture(scope="module")
def group():
    comparison = compare(deployments(read_results(FILE), GIVEN))
    return curves.groups(comparison)[0]


def test_runs_of_like_lengths_are_one_curve(group):
    comparison = compare(deployments(read_results(FILE), GIVEN))
    assert [len(one.points) for one in curves.groups(comparison)] == [4, 2]
    loads = [point.load_value for point in group.points]
    assert loads == sorted(loads) == [1, 2, 4, 8]


def test_the_curve_runs_through_the_prediction_of_each_point(group):
    drawn = curves.curve(group, 0.8)
    for point in group.points[:2]:
        figures = predict(point.deployment, 0.8).figures
        at = min(
            range(len(drawn.columns["load"])),
            key=lambda n: abs(math.log(drawn.columns["load"][n] / point.load_value)),
        )
        assert drawn.columns["tpot"][at] == pytest.approx(figures["tpot_mean_s"].value, rel=0.1)
        assert drawn.columns["tpot_low"][at] < drawn.columns["tpot"][at]


@both_looks
@pytest.mark.parametrize("name", ["ttft", "rate"])
def test_a_curve_is_one_that_plotly_draws(group, name, look):
    points = curves.measured_points(group, name)
    read = checked(benchmarks.curve(curves.curve(group, 0.8), points, [], name, 0.8, look))
    measured = next(trace for trace in read.data if trace.name == "measured")
    assert len(measured.x) == 4


def test_a_point_below_the_bound_is_a_cross_in_the_colour_of_alarm(group):
    look = LOOKS["light"]
    points = [dict(one, place="below bound") for one in curves.measured_points(group, "ttft")]
    read = checked(benchmarks.curve(curves.curve(group, 0.8), points, [], "ttft", 0.8, look))
    measured = next(trace for trace in read.data if trace.name == "measured")
    assert set(measured.marker.symbol) == {"x"} and set(measured.marker.color) == {look.alarm}


def test_the_marks_of_a_curve_are_those_it_draws(group):
    predicted, points = curves.curve(group, 0.8), curves.measured_points(group, "ttft")
    inside = [dict(one, place="inside") for one in points]
    assert benchmarks.marks(predicted, inside, [], "ttft") <= {"band", "bound"}
    slow = [dict(one, place="worse") for one in points]
    assert "red" in benchmarks.marks(predicted, slow, slow, "ttft")
    assert benchmarks.marks(predicted, slow, slow, "ttft") >= {"red", "diamond"}
    fast = [dict(one, place="below bound") for one in points]
    assert benchmarks.marks(predicted, fast, [], "ttft") >= {"red", "cross"}


@both_looks
def test_a_replay_draws_both_sides_of_every_request(look):
    table = pd.DataFrame(
        {
            "request": [0, 1], "arrival_s": [0.0, 1.0], "isl": [10.0, 20.0], "osl": [3.0, 4.0],
            "ttft_measured_s": [0.1, 0.2], "ttft_simulated_s": [0.11, 0.19],
        }
    )  # fmt: skip
    read = checked(benchmarks.replayed(table, "ttft", look))
    assert {trace.name: list(trace.y) for trace in read.data} == {
        "measured": [0.1, 0.2], "simulated": [0.11, 0.19],
    }  # fmt: skip


@both_looks
def test_a_history_has_a_line_a_load_and_shows_no_markup_of_a_file(look):
    rows = [
        {"load": load, "when": when, "label": "<b>x", "tpot_mean_s": 0.01}
        for load in ("concurrency 1", "concurrency 8")
        for when in ("0.9 2026-01-01", "0.10 2026-02-01")
    ]
    read = checked(benchmarks.history(rows, "tpot_mean_s", look))
    assert [len(trace.x) for trace in read.data] == [2, 2]
    assert "<b>" not in "".join(read.data[0].customdata)


def test_runs_that_cannot_be_priced_are_on_no_curve():
    blind = deployments(read_results(FILE), {})
    assert not curves.groups(compare(blind))

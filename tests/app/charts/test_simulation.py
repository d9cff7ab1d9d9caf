"""Charts of a simulation: whole looks, axes with units, targets as lines, few points."""

from __future__ import annotations

import numpy as np
import pytest
import ridgeline

from app.charts import simulation as charts
from app.charts import style
from app.simulation import rows
from tests.app.charts.figures import both_looks, checked


@pytest.fixture(scope="module")
def answer():
    return ridgeline.simulate(
        "meta-llama/Llama-3.1-8B", system="l40s", rate=4.0, requests=300, osl=128, length_ratio=0.8
    ).run.simulation


@both_looks
def test_the_course_has_a_row_each_for_requests_cache_and_preemptions(answer, look: style.Look):
    figure = checked(charts.course(answer.series, look))
    assert [trace.name for trace in figure.data] == [
        "Running", "Waiting", "Cache in use", "Preemptions",
    ]  # fmt: skip
    assert [axis.title.text for axis in figure.select_yaxes()] == [
        "Requests", "KV cache", "Preemptions",
    ]  # fmt: skip
    assert figure.layout.template.layout.paper_bgcolor == look.paper


def test_a_long_course_is_thinned_to_what_a_browser_draws():
    columns = dict.fromkeys(("running", "waiting", "kv_use", "preemptions"), np.ones(4000))
    figure = checked(charts.course({"time_s": np.arange(4000.0), **columns}, style.LIGHT))
    assert len(figure.data[0].x) == 1500
    assert figure.data[0].x[0] == 0 and figure.data[0].x[-1] == 3999


def test_an_empty_course_is_drawn():
    names = ("time_s", "running", "waiting", "kv_use", "preemptions")
    drawn = charts.course({name: np.zeros(0) for name in names}, style.LIGHT)
    assert checked(drawn).data[0].x == ()


def test_percentiles_over_time_lie_one_above_the_other(answer):
    windows = rows.over_time(answer, "ttft_s")
    assert np.all(windows["p50"] <= windows["p90"]) and np.all(windows["p90"] <= windows["p99"])
    figure = checked(charts.over_time(windows, "TTFT", 0.5, style.LIGHT))
    (line,) = figure.layout.shapes
    assert line.y0 == line.y1 == 0.5
    assert 10 ** figure.layout.yaxis.range[1] > 0.5
    assert not checked(charts.over_time(windows, "TTFT", 0.0, style.LIGHT)).layout.shapes


def test_a_distribution_shows_its_target(answer):
    curves = {"E2E": rows.distribution(*answer.latencies()["e2e_s"])}
    figure = checked(charts.cumulative(curves, [3.0], "Distribution of E2E", style.DARK))
    curve, target = figure.data
    assert curve.y[-1] == 1.0 and list(target.x) == [3.0, 3.0] and target.name == "target 3.00 s"
    assert figure.layout.yaxis.tickformat == ".0%"


def test_a_distribution_of_gaps_is_not_one_of_requests():
    curves = {"ITL": (np.array([1.0, 2.0]), np.array([0.5, 1.0]))}
    figure = checked(charts.cumulative(curves, [], "t", style.LIGHT, "requests or tokens"))
    assert figure.layout.yaxis.title.text == "Share of requests or tokens"


def test_nothing_to_draw_is_an_empty_figure():
    empty = (np.zeros(0), np.zeros(0))
    assert checked(charts.cumulative({"TTFT": empty}, [], "t", style.LIGHT)).data[0].x == ()

"""Waterfalls of differences: bars between two totals sum to what lies between them."""

import json

import pytest

from app.charts import changes, style
from app.question.question import Question
from app.scenario.scenario import estimate
from app.scenario.summary import beyond_bound, parts_of, step_of
from tests.app.pages import brought, charts, opened, shown

PAIRS = [
    ({}, {"weights": "fp8"}),
    ({"engine": "vllm"}, {"engine": "vllm", "engine_version": "0.5.3"}),
    ({"tp": 4, "batch": 64}, {"tp": 8, "pp": 2, "batch": 64}),
]


def bars(chart: dict) -> dict:
    return next(trace for trace in chart["data"] if trace["type"] == "bar")


@pytest.mark.parametrize(("first", "second"), PAIRS, ids=["format", "version", "degrees"])
@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_changes_sum_to_the_difference(first: dict, second: dict, phase: str):
    before, after = (parts_of(step_of(estimate(Question(**s)), phase)) for s in (first, second))
    told = changes.ordered_changes(before, after)
    assert sum(told.values()) == pytest.approx(sum(after.values()) - sum(before.values()))


@pytest.mark.parametrize("pp", [1, 2])
def test_what_a_prediction_adds_to_its_bound_sums_to_the_gap(pp: int):
    priced = estimate(Question(pp=pp, batch=8))
    for phase in ("prefill", "decode"):
        step = step_of(priced, phase)
        gap = float(step.total_s[0] - step.bound_total_s[0])
        assert sum(beyond_bound(priced, phase).values()) == pytest.approx(gap)


def test_every_bar_of_a_bridge_begins_where_the_last_one_ended():
    gaps = [{"overhead": 2e-3, "host": 1e-3}, {"gemm": -0.5e-3, "overhead": 1.5e-3}]
    stages = [("Bound", 4e-3), ("Predicted", 7e-3), ("Measured", 8e-3)]
    bar = bars(changes.bridge(stages, gaps, "", style.LIGHT).document())
    assert len(set(bar["y"])) == len(bar["y"]) == 7
    ends = [base + value for base, value in zip(bar["base"], bar["x"], strict=True)]
    assert bar["base"] == pytest.approx([0, 4, 6, 0, 7, 6.5, 0])
    assert ends == pytest.approx([4, 6, 7, 7, 6.5, 8, 8])


@pytest.mark.parametrize("by", ["cause", "operator class"])
def test_two_pins_have_a_waterfall_from_one_to_the_other(by: str):
    pins = json.dumps([{}, {"weights": "fp8", "engine": "vllm"}])
    app = opened("compare", pins=pins, changed_by=by)
    assert not app.exception and not app.error
    chart = next(c for c in charts(app) if "A to B" in c["layout"]["title"]["text"])
    bar = bars(chart)
    assert sum(bar["x"][:-1]) == pytest.approx(bar["x"][-1])


def test_one_scenario_alone_has_no_waterfall_of_changes():
    assert not any("to B" in c["layout"]["title"]["text"] for c in charts(shown("compare")))


def test_bound_predicted_and_measured_of_a_trace_are_one_waterfall():
    from tests.app.pages import QWEN

    app = brought(opened("measured", model="Qwen/Qwen1.5-0.5B"), "upload_files", QWEN)
    assert not app.exception
    told = [c for c in charts(app) if "bound to predicted" in c["layout"]["title"]["text"]]
    assert told
    for chart in told:
        bar = bars(chart)
        totals = [at for at, base in enumerate(bar["base"]) if base == 0]
        assert len(totals) >= 3
        first, second, third = (at for at in totals if bar["y"][at].startswith("<b>"))
        assert sum(bar["x"][first:second]) == pytest.approx(bar["x"][second])
        assert sum(bar["x"][second:third]) == pytest.approx(bar["x"][third])

"""Breakdown of a step: parts that sum to the whole, error bars that end where intervals do."""

import pytest

from app.charts import breakdown, style
from tests.app.charts.figures import CAUSES, ESTIMATE, WHOLE, checked, drawn


def test_the_bars_of_a_step_sum_to_one():
    for name in ("by class", "by cause"):
        total = sum(trace.x[0] for trace in drawn(name).data)
        assert total == pytest.approx(1.0)


def test_the_waterfall_ends_where_its_parts_do():
    bars = checked(breakdown.waterfall(CAUSES, WHOLE, "Decode", style.LIGHT)).data[0]
    assert bars.x[-1] == pytest.approx(sum(CAUSES.values()) * 1e3)
    assert bars.base[-2] + bars.x[-2] == pytest.approx(bars.x[-1])
    assert len(bars.y) == 5  # a part without time has no bar


def test_the_icicle_adds_up_from_operator_to_model():
    trace = drawn("icicle").data[0]
    values = dict(zip(trace.ids, trace.values, strict=True))
    children: dict[str, float] = {}
    for parent, value in zip(trace.parents, trace.values, strict=True):
        children[parent] = children.get(parent, 0.0) + value
    assert children.pop("") == values["model"] and len(children) > 2
    for parent, total in children.items():
        assert total == pytest.approx(values[parent])
    assert values["model"] == pytest.approx(float(ESTIMATE.decode.operators_s[:, 0].sum()))


def test_the_error_bar_of_a_prediction_ends_where_its_interval_does():
    figure = drawn("bound")
    validated, bare = (trace for trace in figure.data if trace.type == "scatter")
    assert list(validated.y) == ["predicted"]  # a bound needs no interval
    assert validated.error_x.array == pytest.approx([10.0])  # 20 to 30 ms
    assert validated.error_x.arrayminus == pytest.approx([5.0])
    assert not bare.y
    assert "15.0 to 30.0 ms" in figure.layout.yaxis.ticktext[1]
    assert "not validated" in figure.layout.yaxis2.ticktext[1]

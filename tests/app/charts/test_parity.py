"""Parity: bands, groups, and a histogram that loses no point."""

import pytest

from app.charts import kernels, parity, style
from tests.app.charts.figures import checked


def point(predicted: float, measured: float, group: str) -> dict:
    return {"predicted_s": predicted, "measured_s": measured, "group": group, "label": group}


def test_parity_draws_bands_of_ten_and_twenty_percent_and_leaves_out_what_has_no_logarithm():
    points = [point(1.0, 2.0, "a"), point(0.0, 1.0, "a"), point(float("nan"), 1.0, "b")]
    figure = checked(parity.parity(points, "group", "", style.LIGHT))
    wide, narrow = figure.data[0], figure.data[1]
    assert wide.y[0] / wide.x[0] == pytest.approx(0.8)
    assert wide.y[-1] / wide.x[0] == pytest.approx(1.2)
    assert narrow.y[0] / narrow.x[0] == pytest.approx(0.9)
    assert [len(trace.x) for trace in figure.data if trace.mode == "markers"] == [1]


def test_beyond_eight_groups_the_smallest_share_one():
    points = [point(1.0, 1.0, f"g{at}") for at in range(12) for _ in range(12 - at)]
    groups = parity.largest_groups(points, "group")
    assert list(groups)[:8] == [f"g{at}" for at in range(8)]
    assert len(groups[parity.REST]) == 4 + 3 + 2 + 1
    assert sum(map(len, groups.values())) == len(points)


def test_errors_beyond_a_factor_of_four_are_counted_at_the_ends():
    ratios = [0.01, 0.5, 1.0, 1.0, 2.0, 97.0]
    figure = checked(parity.error_histogram([point(r, 1.0, "") for r in ratios], "", style.DARK))
    counts = list(figure.data[0].y)
    assert sum(counts) == len(ratios) and counts[0] == 1 and counts[-1] == 1


def test_an_operator_class_has_one_colour_in_every_chart():
    points = [{"label": "", "predicted_s": 1e-3, "measured_s": 2e-3, "class": words}
              for words in ("Attention", "Matrix products", "other")]  # fmt: skip
    clouds = {t.name: t for t in checked(parity.parity(points, "class", "", style.LIGHT)).data}
    seconds = {"gemm": 1.0, "attention": 1.0}
    bars = checked(kernels.time_by_class(seconds, "a", "", style.LIGHT)).data
    assert {bar.name for bar in bars} == {"Attention", "Matrix products"}
    for bar in bars:
        assert clouds[bar.name].marker.color == bar.marker.color
    assert clouds["other"].marker.color == style.LIGHT.faint

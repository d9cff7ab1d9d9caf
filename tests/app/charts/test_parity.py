"""Parity: bands, groups, and a histogram that loses no point."""

import pytest

from app.charts import kernels, parity, style
from tests.app.charts.figures import checked


def points(*rows: tuple[float, float, str]) -> dict[str, list]:
    """Points of predicted and measured seconds and a group."""
    predicted, measured, groups = map(list, zip(*rows, strict=True))
    return {"predicted_s": predicted, "measured_s": measured, "group": groups, "label": groups}


def test_parity_draws_bands_of_ten_and_twenty_percent_and_leaves_out_what_has_no_logarithm():
    drawn = points((1.0, 2.0, "a"), (0.0, 1.0, "a"), (float("nan"), 1.0, "b"))
    figure = checked(parity.parity(drawn, "group", "", style.LIGHT))
    wide, narrow = figure.data[0], figure.data[1]
    assert wide.y[0] / wide.x[0] == pytest.approx(0.8)
    assert wide.y[-1] / wide.x[0] == pytest.approx(1.2)
    assert narrow.y[0] / narrow.x[0] == pytest.approx(0.9)
    assert [len(trace.x) for trace in figure.data if trace.mode == "markers"] == [1]


def test_beyond_eight_groups_the_smallest_share_one():
    names = [f"g{at}" for at in range(12) for _ in range(12 - at)]
    groups = parity.largest_groups(names)
    assert list(groups)[:8] == [f"g{at}" for at in range(8)]
    assert len(groups[parity.REST]) == 4 + 3 + 2 + 1
    assert sorted(at for places in groups.values() for at in places) == list(range(len(names)))
    assert {names[at] for at in groups["g3"]} == {"g3"}


def test_errors_beyond_a_factor_of_four_are_counted_at_the_ends():
    ratios = [0.01, 0.5, 1.0, 1.0, 2.0, 97.0]
    figure = checked(
        parity.error_histogram(points(*((r, 1.0, "") for r in ratios)), "", style.DARK)
    )
    counts = list(figure.data[0].y)
    assert sum(counts) == len(ratios) and counts[0] == 1 and counts[-1] == 1


def test_an_operator_class_has_one_colour_in_every_chart():
    drawn = points(*((1e-3, 2e-3, words) for words in ("Attention", "Matrix products", "other")))
    clouds = {t.name: t for t in checked(parity.parity(drawn, "group", "", style.LIGHT)).data}
    seconds = {"gemm": 1.0, "attention": 1.0}
    bars = checked(kernels.time_by_class({"a": seconds}, "", style.LIGHT)).data
    assert {bar.name for bar in bars} == {"Attention", "Matrix products"}
    for bar in bars:
        assert clouds[bar.name].marker.color == bar.marker.color
    assert clouds["other"].marker.color == style.LIGHT.faint

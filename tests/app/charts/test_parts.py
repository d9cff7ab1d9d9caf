"""Pieces that charts share: axes over times, bands where intervals are known, guides."""

import math

import pytest

from app.charts import parts, style
from tests.app.charts.figures import checked


def test_an_axis_over_times_holds_all_that_are_known():
    axis = parts.time_axis([0.0, math.inf, math.nan, 0.01, 2.0])
    low, high = axis["range"]
    assert 10**low < 0.01 and 10**high > 2.0
    assert all(10**low <= tick <= 10**high for tick in axis["tickvals"])
    assert parts.time_axis([0.0, math.nan]) == {}


def test_a_band_is_drawn_where_both_ends_are_known():
    (area,) = parts.band([1, 2, 3], [1.0, math.nan, 3.0], [2.0, math.nan, 4.0], "80 %", "#123456")
    assert area["x"] == [1, 3, 3, 1] and area["y"] == [2.0, 4.0, 3.0, 1.0]
    assert parts.band([1], [math.nan], [math.nan], "80 %", "#123456") == []


@pytest.mark.parametrize("log", [True, False])
def test_the_words_of_a_guide_stand_at_its_line(log: bool):
    figure = style.blank(style.LIGHT, "", 300)
    parts.guide_across(figure, 100.0, "most", "#b3261e", log=log)
    parts.guide_upwards(figure, 100.0, "now", "#b3261e", log=log)
    read = checked(figure)
    place = 2.0 if log else 100.0
    assert read.layout.shapes[0].y0 == read.layout.shapes[1].x0 == 100.0
    across, upwards = read.layout.annotations
    assert (across.y, upwards.x) == (place, place)


def test_the_words_of_a_guide_stand_apart_from_the_axis_at_the_left():
    figure = style.blank(style.LIGHT, "", 300)
    parts.guide_across(figure, 100.0, "most", "#b3261e", end="left")
    parts.guide_across(figure, 100.0, "most", "#b3261e")
    left, right = checked(figure).layout.annotations
    assert left.x == 0 and left.xanchor == "left" and left.xshift >= 3
    assert right.x == 1 and not right.xshift


def test_bars_of_times_say_them_in_words():
    figure = style.blank(style.LIGHT, "", 300)
    figure.add_trace(parts.time_bars(["A", "B"], [0.002, 1.5], "Compute", "#123456"))
    (bars,) = checked(figure).data
    assert bars.x == (2.0, 1500.0) and bars.customdata == ("2.00 ms", "1.50 s")

"""Memory over an axis: configurations that do not fit are marked, and shown in full if
none fits.
"""

import math

from app.charts import memory, style
from tests.app.charts.figures import checked


def test_a_bar_beyond_what_is_usable_is_marked_as_not_fitting():
    table = {"at": [1, 2]} | {name: [30e9, 60e9] for name in memory.PARTS}
    figure = checked(
        memory.stacked(table, "Batch", {"usable": 150e9, "capacity": 160e9}, style.LIGHT)
    )
    assert "shaded: does not fit" in [note.text for note in figure.layout.annotations]
    assert math.isclose(figure.layout.shapes[-1].x0, 0.5)


def test_where_nothing_fits_the_least_bar_is_still_seen_whole():
    table = {"at": [1, 2]} | {name: [100e9, 200e9] for name in memory.PARTS}
    figure = checked(
        memory.stacked(table, "Batch", {"usable": 23e9, "capacity": 26e9}, style.LIGHT)
    )
    assert figure.layout.yaxis.range[1] > 400  # GB: four parts of 100


def test_words_above_the_bars_stand_below_the_buttons_of_a_touch_screen():
    table = {"at": [1, 2]} | {name: [30e9, 60e9] for name in memory.PARTS}
    limits = {"usable": 150e9, "capacity": 160e9}
    parts = {name: 30e9 for name in memory.PARTS}
    for figure in (
        memory.stacked(table, "Batch", limits, style.LIGHT),
        memory.single(parts, limits, style.LIGHT),
    ):
        assert checked(figure).layout.margin.t >= style.BUTTONS + 20  # a line of text


def test_the_names_of_the_limits_stand_above_the_bars_and_hide_none():
    table = {"at": [1, 2]} | {name: [30e9, 60e9] for name in memory.PARTS}
    figure = memory.stacked(table, "Batch", {"usable": 150e9, "capacity": 160e9}, style.LIGHT)
    notes = checked(figure).layout.annotations
    assert any("usable 150 GB · capacity 160 GB" in note.text for note in notes)
    assert all(note.yref == "paper" and note.y >= 1 for note in notes)

"""Grids, frontiers, degrees in short form, money and energy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genz_core.degrees import parse_degrees
from genz_core.economics import joules_per_token, usd_per_million_tokens
from genz_core.errors import InvalidParallelism, InvalidValue
from genz_core.search import grid, pareto, sweep


def test_a_grid_holds_every_combination():
    columns = grid({"batch": [1, 2], "tp": [1, 2, 4]})
    assert sorted(zip(columns["batch"], columns["tp"], strict=True)) == [
        (1, 1), (1, 2), (1, 4), (2, 1), (2, 2), (2, 4)
    ]  # fmt: skip


def test_an_unknown_axis_and_an_endless_grid_are_refused():
    with pytest.raises(InvalidValue, match="axes are"):
        grid({"bach": [1]})
    with pytest.raises(InvalidValue, match="at most"):
        grid({"batch": range(2000), "isl": range(2000)})


def test_a_sweep_prices_good_and_bad_points_alike(model, system):
    result = sweep(model, system, {"batch": [1, 8], "tp": [1, 3]})
    assert result.status.tolist() == ["ok", "invalid_parallelism"] * 2
    with pytest.raises(InvalidParallelism, match="tp=3"):
        sweep(model, system, {"batch": [1, 8], "tp": [1, 3]}, on_error="raise")


@pytest.mark.parametrize("tp", [1, 3])
def test_a_sweep_of_one_cell_has_one_row(model, system, tp):
    result = sweep(model, system, {"batch": [8], "tp": [tp]})
    assert result.ttft_s.shape == result.status.shape == (1,)
    assert result.status[0] == ("ok" if tp == 1 else "invalid_parallelism")


points = st.lists(st.tuples(st.floats(0, 1e3), st.floats(0, 1e3)), min_size=1, max_size=40)


@given(points)
def test_the_frontier_is_what_nobody_beats(pairs):
    costs, gains = (np.array(column) for column in zip(*pairs, strict=True))
    kept = pareto(costs, gains)
    for cost, gain in zip(costs[kept], gains[kept], strict=True):
        better = (costs <= cost) & (gains >= gain) & ((costs < cost) | (gains > gain))
        assert not better.any()
    for cost, gain in zip(costs[~kept], gains[~kept], strict=True):
        assert ((costs[kept] <= cost) & (gains[kept] >= gain)).any()


def test_points_that_are_no_numbers_are_never_best():
    assert pareto(np.array([np.nan, 1.0]), np.array([1e9, 1.0])).tolist() == [False, True]


def test_degrees_are_read_in_the_braces_form():
    assert parse_degrees("TP{4}_EP{2}_PP{1}") == {"tp": 4, "ep": 2, "pp": 1}
    assert parse_degrees("tp8-pp2") == {"tp": 8, "pp": 2}


@pytest.mark.parametrize("text", ["XP{2}", "TP{0}", "TP{2}_TP{4}", "TP"])
def test_degrees_that_cannot_be_read_are_refused(text):
    with pytest.raises(InvalidParallelism, match="TP"):
        parse_degrees(text)


def test_cost_and_energy_per_token(system):
    """3.6 USD an hour and 1000 tokens a second: 3.6e6 tokens, 1 USD a million; 500 W: 0.5 J."""
    assert usd_per_million_tokens(system, 1, 1000.0) == pytest.approx(1.0)
    assert joules_per_token(system, 2, 1000.0) == pytest.approx(1.0)

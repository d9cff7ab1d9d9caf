"""Sweeps: every combination once, priced like one estimate; the frontier of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genz_core.errors import InvalidParallelism, InvalidValue
from genz_core.search import grid, pareto, sweep
from genz_core.types import Parallelism, Workload
from genz_core.workload import estimate


def test_a_grid_holds_every_combination():
    columns = grid({"batch": [1, 2], "tp": [1, 2, 4]})
    assert sorted(zip(columns["batch"], columns["tp"], strict=True)) == [
        (1, 1), (1, 2), (1, 4), (2, 1), (2, 2), (2, 4)
    ]  # fmt: skip


def test_an_unknown_axis_an_empty_one_and_an_endless_grid_are_refused():
    with pytest.raises(InvalidValue, match="axes are"):
        grid({"bach": [1]})
    with pytest.raises(InvalidValue, match="'batch' has no values"):
        grid({"batch": []})
    with pytest.raises(InvalidValue, match="at most"):
        grid({"batch": range(2000), "isl": range(2000)})


def test_a_sweep_is_the_estimate_of_each_combination(model, system):
    axes = {"isl": [100, 2000], "batch": [1, 8], "tp": [1, 2]}
    swept, columns = sweep(model, system, axes), grid(axes)
    for at in range(8):
        load = Workload(columns["batch"][at], columns["isl"][at])
        alone = estimate(model, system, load, Parallelism(tp=int(columns["tp"][at])))
        assert swept.ttft_s[at] == pytest.approx(alone.ttft_s[0], rel=1e-12)
        assert swept.tpot_s[at] == pytest.approx(alone.tpot_s[0], rel=1e-12)


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
def test_no_point_beats_one_of_the_frontier_and_each_other_is_beaten(pairs):
    costs, gains = (np.array(column) for column in zip(*pairs, strict=True))
    kept = pareto(costs, gains)
    for cost, gain in zip(costs[kept], gains[kept], strict=True):
        better = (costs <= cost) & (gains >= gain) & ((costs < cost) | (gains > gain))
        assert not better.any()
    for cost, gain in zip(costs[~kept], gains[~kept], strict=True):
        assert ((costs[kept] <= cost) & (gains[kept] >= gain)).any()


def test_points_that_are_no_numbers_are_never_best():
    assert pareto(np.array([np.nan, 1.0]), np.array([1e9, 1.0])).tolist() == [False, True]

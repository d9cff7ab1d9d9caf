"""A kernel's time: the fastest way for each shape, in seconds and in terms that add up to them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genz_core.latency.kernel_time import KernelTime, Stages, Terms
from genz_core.latency.numerics import p_norm

times = st.lists(st.floats(1e-6, 1.0), min_size=3, max_size=3).map(np.array)


def two_ways(size, cost):
    """Way 0 takes the size, way 1 half of it plus a cost; both overlap with a tenth of it."""
    ways = np.stack([size, size / 2.0])
    stages = {"work": ways, "stream": (size / 10.0)[None]}
    together = p_norm(2.0, *stages.values())
    return Stages(
        stages,
        together,
        of_way={"split": np.stack([np.zeros_like(cost), cost])},
        after={"write": size / 100.0},
    )


@given(times, times)
def test_each_shape_takes_its_best_way(size, cost):
    first, second = (
        np.hypot(size / divisor, size / 10.0) + extra
        for divisor, extra in ((1.0, 0.0), (2.0, cost))
    )
    best = np.minimum(first, second) + size / 100.0
    assert two_ways(size, cost).total_s() == pytest.approx(best)


@given(times, times)
def test_the_terms_of_the_best_way_sum_to_its_time(size, cost):
    stages = two_ways(size, cost)
    terms = stages.terms()
    assert terms.total_s == pytest.approx(stages.total_s(), rel=1e-12)
    split = terms.terms["split"] > 0
    assert terms.terms["work"] == pytest.approx(np.where(split, size / 2.0, size))
    assert np.all(terms.terms["overlap"] >= 0)


def test_a_way_that_a_shape_cannot_take_is_never_chosen():
    size, cost = np.array([1.0, 1.0]), np.array([0.01, np.inf])
    stages = two_ways(size, cost)
    assert stages.total_s()[0] < stages.total_s()[1]
    assert stages.terms().terms["split"].tolist() == [0.01, 0.0]


def test_one_stage_has_nothing_to_overlap_with():
    terms = Terms.overlapped({"memory": np.array([2.0])}, np.array([2.0]))
    assert list(terms.terms) == ["memory"] and terms.total_s == [2.0]


def doubled(axis, other):
    return Stages({"only": axis * other}, axis * other)


@pytest.mark.parametrize("chunk", [1, 7, 10_000])
@pytest.mark.parametrize("repeats", [False, True])
def test_chunks_and_repeated_values_change_no_time(chunk, repeats):
    rows = np.random.default_rng(0).integers(1, 9, 500).astype(float)
    time = KernelTime(doubled, (rows, 3.0), work=rows, launch_s=1.0, chunk=chunk, repeats=repeats)
    assert np.array_equal(time.seconds(), 3.0 * rows + 1.0)


def test_no_work_costs_nothing_not_even_the_launch():
    time = KernelTime(doubled, (np.array([0.0, 2.0]), 3.0), np.array([0.0, 2.0]), launch_s=5.0)
    assert time.seconds().tolist() == [0.0, 11.0]
    assert {name: term.tolist() for name, term in time.terms().terms.items()} == {
        "only": [0.0, 6.0],
        "launch": [0.0, 5.0],
    }


def test_without_any_work_the_stages_are_not_evaluated():
    def never(*axes):
        raise AssertionError(axes)

    time = KernelTime(never, (np.zeros((2, 1)), np.ones(3)), work=0.0, launch_s=1.0)
    assert np.array_equal(time.seconds(), np.zeros((2, 3)))


def test_times_have_the_shape_that_the_axes_broadcast_to():
    rows = np.ones((2, 1))
    assert KernelTime(doubled, (rows, np.ones(3)), work=rows).seconds().shape == (2, 3)
    assert KernelTime(doubled, (1.0, 2.0), work=1.0).seconds().shape == ()

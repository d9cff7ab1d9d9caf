"""Lengths of a load in the closed form are the whole numbers that the simulation draws."""

from __future__ import annotations

import numpy as np
import pytest

from app.question.question import nominal_lengths
from genz_core.serving.load_checks import longest_lengths, real_lengths, whole_lengths
from genz_core.serving.simulation import draws
from genz_core.types import Workload


@pytest.mark.parametrize("ratio", [0.5, 0.8, 1.0])
@pytest.mark.parametrize("nominal", [1, 2, 3, 5, 8, 13, 100])
def test_shortest_and_longest_are_those_that_are_drawn(nominal, ratio):
    drawn = draws.uniform_lengths(2000, nominal, ratio, np.random.default_rng(0))
    assert whole_lengths(nominal, ratio) == (drawn.min(), drawn.max())


def test_the_mean_of_few_tokens_is_that_of_the_whole_numbers():
    """Answers of 2 or 3 tokens last 2.5 on average, not 0.75 times 3 rounded."""
    means = real_lengths(Workload(1.0, np.array([5.0, 8.0]), np.array([3.0, 2.0])), 0.5)
    assert means.isl.tolist() == [4.0, 6.0] and means.osl.tolist() == [2.5, 1.5]


def test_lengths_that_vary_by_a_tenth_have_the_mean_that_was_asked():
    means = np.arange(1.0, 300.0)
    isl, osl, ratio = nominal_lengths(means, means, None)
    real = real_lengths(Workload(1.0, isl, osl), ratio)
    assert np.array_equal(real.osl, means) and np.array_equal(real.isl, means)


def test_equal_lengths_stay_as_they_are():
    """A length that is not whole is then refused where sizes are checked."""
    load = longest_lengths(Workload(1.0, 10.5, 3.0), 1.0)
    assert (load.isl, load.osl) == (10.5, 3.0)
    varied = longest_lengths(Workload(1.0, 11.5, 3.3), 0.8)
    assert (varied.isl, varied.osl) == (11.0, 3.0)

"""The figures of a validation table."""

from __future__ import annotations

import numpy as np
import pytest

from genz_core.error_metrics import accuracy, rank_correlation


def test_errors_of_three_points_by_hand():
    found = accuracy(np.array([1.09, 0.79, 1.0]), np.ones(3))
    assert found.mape == pytest.approx(0.1) and found.median == pytest.approx(0.09)
    assert found.bias == pytest.approx(-0.04)
    assert (found.within_10, found.within_20) == (pytest.approx(2 / 3), pytest.approx(2 / 3))


def test_points_nobody_predicted_are_counted_out():
    assert accuracy(np.array([np.nan, 2.0]), np.array([1.0, 1.0])).points == 1
    assert accuracy(np.array([]), np.array([])).points == 0


def test_ranks_are_those_of_scipy_with_ties():
    from scipy.stats import spearmanr

    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 5, 50).astype(float), rng.integers(0, 5, 50).astype(float)
    assert rank_correlation(a, b) == pytest.approx(spearmanr(a, b).statistic)


def test_coverage_is_the_share_inside_the_interval():
    measured = np.array([1.0, 2.0, 3.0, 4.0])
    low, high = np.array([0.5, 2.5, 2.0, np.nan]), np.array([1.5, 3.0, 4.0, np.nan])
    assert accuracy(measured, measured, low, high).coverage == pytest.approx(2 / 3)

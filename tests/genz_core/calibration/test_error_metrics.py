"""Error summaries: figures of a few points by hand, omissions, ranks and coverage."""

from __future__ import annotations

import numpy as np
import pytest

from genz_core.calibration.error_metrics import error_summary, rank_correlation

FRACTIONS = ("mape", "median", "p90", "worst", "bias", "within_10", "within_20", "within_30")


def test_errors_of_three_points_by_hand():
    summary = error_summary(np.array([1.09, 0.79, 1.0]), np.ones(3))
    assert summary.points == 3
    assert summary.mape == pytest.approx(0.1) and summary.median == pytest.approx(0.09)
    assert summary.worst == pytest.approx(0.21) and summary.bias == pytest.approx(-0.04)
    assert summary.p90 == pytest.approx(0.09 + 0.8 * 0.12)
    within = (summary.within_10, summary.within_20, summary.within_30)
    assert within == (pytest.approx(2 / 3), pytest.approx(2 / 3), 1.0)


def test_a_row_holds_every_figure_by_its_name():
    summary = error_summary(np.array([2.0, 3.0]), np.array([1.0, 4.0]))
    row = summary.row()
    assert set(row) == {"points", *FRACTIONS, "rank", "coverage"}
    assert all(row[name] == getattr(summary, name) for name in FRACTIONS)


def test_pairs_that_are_no_times_are_left_out():
    predicted = np.array([np.nan, 2.0, 3.0, np.inf, 1.0])
    measured = np.array([1.0, 1.0, np.nan, 1.0, 0.0])
    summary = error_summary(predicted, measured)
    alone = error_summary(np.array([2.0]), np.array([1.0]))
    assert summary.row() == pytest.approx(alone.row(), nan_ok=True)
    assert (summary.points, summary.worst) == (1, 1.0)


def test_no_points_have_no_errors():
    summary = error_summary(np.array([]), np.array([]))
    assert summary.points == 0
    assert all(np.isnan(getattr(summary, name)) for name in FRACTIONS)


def test_ranks_are_those_of_scipy_with_ties():
    from scipy.stats import spearmanr

    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 5, 50).astype(float), rng.integers(0, 5, 50).astype(float)
    assert rank_correlation(a, b) == pytest.approx(spearmanr(a, b).statistic)


def test_values_that_are_all_alike_have_no_rank_correlation():
    assert np.isnan(rank_correlation(np.ones(4), np.arange(4.0)))
    assert np.isnan(rank_correlation(np.ones(1), np.ones(1)))


def test_coverage_is_the_share_inside_the_interval():
    measured = np.array([1.0, 2.0, 3.0, 4.0])
    low, high = np.array([0.5, 2.5, 2.0, np.nan]), np.array([1.5, 3.0, 4.0, np.nan])
    assert error_summary(measured, measured, low, high).coverage == pytest.approx(2 / 3)
    assert np.isnan(error_summary(measured, measured).coverage)

"""Agreement of predictions with measurements: errors, R² and the line, by hand."""

import math

import numpy as np
import pytest

from genz_core.calibration.error_metrics import error_summary
from profilers.collect.agreement import agreement


def test_predictions_that_are_measured_agree_wholly():
    times_s = np.array([1e-3, 2e-3, 5e-3])
    fit = agreement(times_s, times_s)
    assert (fit.points, fit.mape, fit.worst, fit.bias) == (3, 0.0, 0.0, 0.0)
    assert (fit.r2, fit.r2_line) == (1.0, 1.0)
    assert (fit.slope, fit.intercept_s) == pytest.approx((1.0, 0.0), abs=1e-12)


def test_errors_are_of_predicted_over_measured():
    fit = agreement(np.array([1.1, 1.0, 4.0]), np.array([1.0, 2.0, 4.0]))
    assert fit.mape == pytest.approx((0.1 + 0.5 + 0.0) / 3)
    assert (fit.median, fit.worst) == pytest.approx((0.1, 0.5))
    assert fit.bias == pytest.approx((0.1 - 0.5) / 3)


def test_the_line_finds_a_factor_and_an_offset_that_r2_alone_calls_wrong():
    predicted_s = np.array([1.0, 2.0, 3.0, 4.0])
    fit = agreement(predicted_s, 2.0 * predicted_s + 0.5)
    assert (fit.slope, fit.intercept_s) == pytest.approx((2.0, 0.5))
    assert fit.r2_line == pytest.approx(1.0)
    # 1 - sum (m - p)^2 / sum (m - mean m)^2 = 1 - (1.5^2 + 2.5^2 + 3.5^2 + 4.5^2) / 20
    assert fit.r2 == pytest.approx(1.0 - 41.0 / 20.0)


def test_pairs_without_a_positive_time_on_both_sides_are_left_out():
    predicted_s = np.array([1.0, math.nan, 2.0, 0.0, 3.0, math.inf])
    measured_s = np.array([1.0, 1.0, math.nan, 1.0, -1.0, 1.0])
    assert agreement(predicted_s, measured_s).points == 1


def test_too_few_points_have_no_line_and_none_have_no_errors():
    single = agreement(np.array([2.0]), np.array([1.0]))
    assert single.mape == 1.0 and math.isnan(single.slope) and math.isnan(single.r2)
    nothing = agreement(np.array([]), np.array([]))
    assert nothing.points == 0
    assert all(math.isnan(value) for name, value in nothing.row().items() if name != "points")


def test_its_errors_are_those_of_every_validation_table():
    rng = np.random.default_rng(3)
    predicted_s, measured_s = rng.uniform(1.0, 2.0, (2, 50))
    fit, errors = agreement(predicted_s, measured_s), error_summary(predicted_s, measured_s)
    assert (fit.mape, fit.median, fit.bias) == (errors.mape, errors.median, errors.bias)

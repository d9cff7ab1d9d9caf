"""The relative spread of repeats: half their range over their median, without outliers."""

import math

import pytest

from profilers.spread import relative_spread


def test_the_spread_is_half_the_range_over_the_median():
    assert relative_spread([1.0, 2.0, 3.0]) == pytest.approx(0.5)


def test_of_ten_samples_the_smallest_and_the_largest_do_not_count():
    samples = [100.0, 4.0, 4.0, 4.0, 3.0, 5.0, 4.0, 4.0, 4.0, 0.1]
    assert relative_spread(samples) == pytest.approx((5.0 - 3.0) / (2 * 4.0))


def test_one_sample_has_no_spread():
    assert math.isnan(relative_spread([2.0]))

"""Elasticities and least factors: results known in closed form."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genz_core.errors import InvalidValue
from genz_core.sensitivity import crossing, elasticity, least_factor


@given(st.floats(-3.0, 3.0), st.floats(1.01, 4.0), st.floats(0.1, 10.0))
def test_a_power_law_has_its_exponent(exponent: float, factor: float, scale: float):
    less, more = (scale * f**exponent for f in (1 / factor, factor))
    assert float(elasticity(less, more, factor)) == pytest.approx(exponent, abs=1e-6)


def test_a_figure_without_bound_has_no_elasticity():
    with np.errstate(all="raise"):
        assert math.isnan(float(elasticity(math.inf, math.inf, 1.1)))


@given(st.floats(0.02, 50.0))
def test_the_least_factor_meets_and_a_hundredth_less_does_not(threshold: float):
    found = least_factor(lambda f: f >= threshold, 64.0)
    assert found is not None and threshold <= found <= threshold * 1.011


def test_what_even_the_most_does_not_meet_is_none():
    assert least_factor(lambda f: False, 64.0) is None
    assert least_factor(lambda f: True, 64.0) == pytest.approx(1 / 64)


def test_two_power_laws_cross_where_algebra_says():
    at = np.array([1.0, 4.0, 16.0, 64.0, 256.0])
    assert crossing(at, at / 50.0, np.ones(5)) == pytest.approx(50.0)
    assert crossing(at, at / 1e6, np.ones(5)) is None
    assert crossing(at, at * 2, np.ones(5)) == 1.0


@pytest.mark.parametrize("factor", [1.0, 0.5, math.nan])
def test_a_factor_that_changes_nothing_is_refused(factor: float):
    with pytest.raises(InvalidValue, match="above 1"):
        elasticity(1.0, 1.0, factor)

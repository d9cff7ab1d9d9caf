"""Intervals at other levels: laws of a lognormal."""

import math

import pytest

from app.benchmarks.levels import at_level, checked_level
from genz_core.errors import InvalidValue
from hardware_db.intervals import Interval

KNOWN = Interval(0.8, 1.5, 100)


def test_the_level_of_the_tables_changes_nothing():
    assert at_level(KNOWN, 0.8) is KNOWN


def test_the_mass_of_a_lognormal_between_the_ends_is_the_level():
    low, high = math.log(KNOWN.low), math.log(KNOWN.high)
    from scipy.stats import norm

    spread = (high - low) / 2 / norm.ppf(0.9)
    law = norm((low + high) / 2, spread)
    for level in (0.9, 0.95, 0.99):
        wider = at_level(KNOWN, level)
        mass = law.cdf(math.log(wider.high)) - law.cdf(math.log(wider.low))
        assert mass == pytest.approx(level, abs=1e-9)


def test_a_higher_level_holds_the_lower_one():
    ends = [at_level(KNOWN, level) for level in (0.5, 0.8, 0.9, 0.95, 0.999)]
    assert [one.low for one in ends] == sorted((one.low for one in ends), reverse=True)
    assert [one.high for one in ends] == sorted(one.high for one in ends)


def test_a_level_that_is_none_is_refused_with_what_can_be_given():
    with pytest.raises(InvalidValue, match=r"from 50% to 99\.9%"):
        checked_level(100.0)

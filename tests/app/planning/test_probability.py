"""Probability of meeting targets: by the interval, monotone, and never more than each alone."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.planning.demand import Demand
from app.planning.probability import meets, probability_below
from app.planning.search import Question, search
from app.planning.space import Space
from app.planning.targets import parse_targets
from hardware_db.intervals import Interval

factors = st.floats(1.001, 3.0)


@given(factors, factors)
def test_a_tenth_lies_beyond_either_end_of_an_interval(below, above):
    interval = Interval(1.0 / below, above, 100)
    low = probability_below(math.log(interval.low), interval)
    high = probability_below(math.log(interval.high), interval)
    assert low == pytest.approx(0.1, abs=1e-6)
    assert high == pytest.approx(0.9, abs=1e-6)


@given(factors, factors, st.floats(-2.0, 2.0), st.floats(0.0, 1.0))
def test_an_easier_target_is_as_likely_at_least(below, above, slack, easier):
    interval = Interval(1.0 / below, above, 100)
    assert probability_below(slack + easier, interval) >= probability_below(slack, interval)


@pytest.fixture(scope="module")
def found():
    space = Space(("h200",), ("vllm",), devices=(1, 16), kinds=("aggregated",))
    return search(Question("Qwen/Qwen3-32B", space, Demand(rate=10.0), simulate=False))


def chances(found, text):
    return meets(found.candidates, parse_targets(text), found.question.demand)


def test_two_targets_are_no_likelier_than_either(found):
    both = chances(found, "ttft < 200ms, tpot < 30ms")
    assert np.all(both <= chances(found, "ttft < 200ms") + 1e-12)
    assert np.all(both <= chances(found, "tpot < 30ms") + 1e-12)
    assert np.all((both >= 0.0) & (both <= 1.0))


def test_what_cannot_run_meets_nothing_and_a_loose_target_is_sure_where_load_is_light(found):
    loose = chances(found, "ttft < 1000s, tpot < 100s")
    ran = found.candidates.status == "ok"
    assert np.all(loose[~ran] == 0.0)
    light = ran & (found.candidates.columns["utilisation"] < 0.3)
    assert np.all(loose[light] > 0.99)


def test_devices_are_certain(found):
    few = chances(found, "devices < 4")
    assert np.all(few[found.candidates.columns["devices"] > 4] == 0.0)

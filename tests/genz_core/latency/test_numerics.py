import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genz_core.latency.numerics import chunked, distinct, p_norm

times = st.floats(1e-7, 1.0)


@given(times, times, st.floats(1.0, 12.0))
def test_overlapping_stages_take_at_least_the_longest_and_at_most_the_sum(a, b, p):
    together = float(p_norm(p, a, b))
    assert max(a, b) * (1 - 1e-12) <= together <= (a + b) * (1 + 1e-12)


def test_no_overlap_is_the_sum_and_a_stage_of_no_time_changes_nothing():
    assert p_norm(1.0, 2.0, 3.0) == pytest.approx(5.0)
    assert p_norm(2.5, 3.0, 0.0) == pytest.approx(3.0)
    assert p_norm(2.0, 0.0, 0.0) == 0.0


def test_chunks_and_distinct_values_change_no_result():
    x = np.random.default_rng(0).integers(1, 50, 5000).astype(float)
    plain = np.sqrt(x) + 3.0
    assert np.array_equal(chunked(lambda a, b: np.sqrt(a) + b, x, 3.0, chunk=64), plain)
    assert np.array_equal(distinct(lambda a: np.sqrt(a) + 3.0, x), plain)
    assert chunked(lambda a, b: a + b, np.ones((3, 1)), np.ones(4)).shape == (3, 4)

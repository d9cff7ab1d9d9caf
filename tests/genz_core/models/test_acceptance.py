"""Acceptance of drafts: tokens per step from rates, positions and measured lengths."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genz_core.errors import InvalidValue
from genz_core.models.acceptance import Acceptance

#: Mean tokens per step with 1 to 8 drafted ones; the last two fall (DeepSeek-V4-Pro-0813, DSpark).
MEASURED = [1.84, 2.51, 3.01, 3.36, 3.61, 3.77, 3.73, 3.47]


@given(st.floats(0.0, 0.99), st.integers(1, 12))
def test_one_rate_gives_the_published_expectation(rate, tokens):
    """Leviathan et al. 2023, equation 1: (1 - alpha^(k+1)) / (1 - alpha)."""
    expected = (1.0 - rate ** (tokens + 1)) / (1.0 - rate)
    assert Acceptance.of_rate(rate, tokens).tokens_per_step == pytest.approx(expected)


@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=8))
def test_the_probabilities_of_a_step_sum_to_one_and_average_to_its_tokens(shares):
    acceptance = Acceptance(tuple(sorted(shares, reverse=True)))
    chances = acceptance.probabilities
    assert np.all(chances >= 0) and chances.sum() == pytest.approx(1.0)
    mean = chances @ np.arange(1, acceptance.draft_tokens + 2)
    assert mean == pytest.approx(acceptance.tokens_per_step)


@pytest.mark.parametrize("tokens", range(1, 9))
def test_measured_lengths_are_kept_even_where_they_fall(tokens):
    acceptance = Acceptance.of_lengths(MEASURED[:tokens])
    assert acceptance.tokens_per_step == pytest.approx(MEASURED[tokens - 1])
    assert np.all(np.diff(acceptance.positions) <= 1e-12)


def test_lengths_that_never_rise_too_much_are_differences():
    assert Acceptance.of_lengths([1.8, 2.4, 2.8]).positions == pytest.approx((0.8, 0.6, 0.4))


def test_shorter_drafts_keep_their_first_positions():
    assert Acceptance((0.9, 0.7, 0.5), "here").first(2) == Acceptance((0.9, 0.7), "here")


@pytest.mark.parametrize(
    ("positions", "words"),
    [
        ((), "at least one"),
        ((1.2,), "acceptance 1.2: give rates between 0 and 1"),
        ((0.5, -0.1), "acceptance -0.1"),
        ((float("nan"),), "acceptance nan"),
        ((0.5, 0.6), "rises from 0.5 at position 1 to 0.6"),
    ],
)
def test_shares_that_cannot_be_are_named(positions, words):
    with pytest.raises(InvalidValue, match=words):
        Acceptance(positions)

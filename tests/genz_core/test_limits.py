"""Every size has limits, and an error that names them."""

import math

import pytest

from genz_core.errors import InvalidValue
from genz_core.limits import LIMITS, MOST_SECONDS, brief, checked_duration, checked_size
from tests.rules import for_every


@for_every(LIMITS)
def test_both_ends_of_a_limit_can_be_asked_for_and_nothing_beyond(name: str) -> None:
    limit = LIMITS[name]
    for value in (limit.least, limit.most, str(limit.most), float(limit.least)):
        assert checked_size(name, value) == int(float(value))
    for value in (limit.least - 1, limit.most + 1):
        with pytest.raises(InvalidValue, match=f"{name} = {value}: give a whole number from"):
            checked_size(name, value)


@pytest.mark.parametrize("value", [1.5, math.nan, math.inf, -math.inf, "x", "", None, "9" * 5000])
def test_what_is_no_whole_number_is_refused_in_a_short_sentence(value: object) -> None:
    with pytest.raises(InvalidValue, match=r"--batch = .*give a whole number") as refused:
        checked_size("batch", value, "--batch")
    assert len(str(refused.value)) < 160


@pytest.mark.parametrize(
    ("typed", "shown"),
    [(0, "0"), (1.2, "1.2"), ("1.2", "1.2"), ("nan", "nan"), ("many", "'many'"), ("", "''")],
)
def test_a_refused_number_stands_plain_however_it_is_typed_and_a_text_in_quotes(
    typed: object, shown: str
) -> None:
    assert brief(typed) == shown


@for_every([0.0, -1.0, math.nan, math.inf, MOST_SECONDS + 1])
def test_a_duration_is_above_zero_and_at_most_a_week(seconds: float) -> None:
    with pytest.raises(InvalidValue, match="give seconds above 0"):
        checked_duration("timeout_s", seconds)
    assert checked_duration("timeout_s", 0.5) == 0.5

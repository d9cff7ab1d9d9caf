"""Typed numbers, lists and ranges; every value's text parses back to the value."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.question import literals
from app.question.parameters import PARAMETERS
from genz_core.errors import InvalidValue
from genz_core.limits import LIMITS
from tests.app.question.samples import NUMBERS, another
from tests.rules import for_every

ISL, RATE = PARAMETERS["isl"], PARAMETERS["rate"]


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1024", 1024), ("10k", 10_000), ("10K", 10_000), ("2Ki", 2048), ("1e6", 1e6),
        ("1_000", 1000), (".5", 0.5), ("1.5M", 1.5e6), ("1Mi", 2**20), ("2G", 2e9), ("1Gi", 2**30),
        (" 7 ", 7), ("-3", -3), ("1e-3", 1e-3),
    ],
)  # fmt: skip
def test_a_typed_number(text: str, number: float):
    assert literals.number(text) == number


@pytest.mark.parametrize("text", ["", "k", "10kk", "1,000", "0x10", "ten", "1 2", "nan", "inf"])
def test_a_text_that_is_not_a_number_is_refused(text: str):
    with pytest.raises(ValueError):
        literals.number(text)


@pytest.mark.parametrize("text", ["2,048", "1,024,2,048", "1, 024", "131,072", "10,000"])
def test_a_number_with_commas_is_no_list(text: str):
    with pytest.raises(InvalidValue, match="write numbers without separators, as 2048 or 2Ki"):
        literals.values(ISL, text)


@pytest.mark.parametrize("text", ["1,100", "16,384", "2,500"])
def test_two_values_that_look_like_one_number_are_noted_with_both_spellings(text: str):
    first, second = text.split(",")
    assert literals.values(ISL, text) == [int(first), int(second)]
    said = literals.two_or_one(ISL, text)
    assert f"for one number write {first}{second}, " in said
    assert said.endswith(f'"{first}, {second}"')


@pytest.mark.parametrize(
    "text", ["1, 100", "128,512", "64,128", "1,100,200", "1,99", "1100", "h,100"]
)
def test_an_evident_list_is_not_noted(text: str):
    assert not literals.two_or_one(ISL, text)


def test_zero_and_decimals_are_values_of_a_list():
    assert literals.values(PARAMETERS["micro_batches"], "0,64,0") == [0, 64]
    assert literals.values(RATE, "1,0.5") == [1.0, 0.5]


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_the_shortest_text_of_a_number_is_the_number(value: float):
    assert literals.number(repr(value)) == value


@given(st.sampled_from(NUMBERS), st.data())
def test_the_text_of_an_allowed_number_is_read_back(one, data):
    most = min(one.most, 1e15)
    least = max(one.least, -1e15)
    if one.kind == "whole":
        value = data.draw(st.integers(math.ceil(least), int(most)))
    else:
        value = data.draw(st.floats(least, most, exclude_min=one.above))
    assert literals.value(one, literals.text(value)) == value


@for_every(PARAMETERS)
def test_the_text_of_a_value_is_read_back(name: str):
    one = PARAMETERS[name]
    for value in (another(one), one.default):
        if value is not None:
            assert literals.value(one, literals.text(value)) == value


@given(st.lists(st.integers(1, 10**6), min_size=2, max_size=20, unique=True))
def test_a_list_of_numbers_is_read_in_its_order(values: list[int]):
    assert literals.values(ISL, ",".join(map(str, values))) == values


@given(st.integers(1, 1000), st.integers(1, 1000), st.integers(1, 50))
def test_steps_reach_from_the_first_to_at_most_the_last(first: int, span: int, step: int):
    values = literals.values(ISL, f"{first}:{first + span}:{step}")
    assert values == list(range(first, first + span + 1, step))


def test_ranges_double_from_the_first_to_the_last():
    assert literals.values(ISL, "1:256:x2") == [2**n for n in range(9)]
    assert literals.values(RATE, "0.5:4:x2") == [0.5, 1, 2, 4]
    assert literals.values(ISL, "1k:4k:x2") == [1000, 2000, 4000]
    assert literals.of_range(ISL, {"from": "1k", "to": 3000, "step": 1000}) == [1000, 2000, 3000]
    assert literals.of_range(ISL, {"from": 1, "to": 8, "step": "x2"}) == [1, 2, 4, 8]


@pytest.mark.parametrize(
    "text", ["1:256", "1:256:2:3", "256:1:x2", "1:256:x1", "1:256:0", "a:b:c", "0:8:x2", "1:inf:1"]
)
def test_a_range_that_is_none_says_how_one_is_typed(text: str):
    with pytest.raises(InvalidValue, match=r'isl .*: give "1,2,4", "1:256:x2" for doubling'):
        literals.values(ISL, text)


def test_more_values_than_an_axis_has_are_refused():
    with pytest.raises(InvalidValue, match=f"more than {LIMITS['axis'].most:,} values"):
        literals.values(ISL, "1:100000:1")


@pytest.mark.parametrize(
    "given_", [{"from": 1}, {"from": 1, "to": 4, "by": 2}, {"from": 4, "to": 1}]
)
def test_a_mapping_that_is_no_range_is_shown(given_: dict[str, int]):
    with pytest.raises(InvalidValue, match=r"is not a range; give \{from: 1, to: 8, step: 1\}"):
        literals.of_range(ISL, given_)


def test_words_are_named_once_without_blanks():
    assert literals.words(" h100, h200 ,,h100") == ("h100", "h200")
    assert literals.words(["a", " b "]) == ("a", "b")


@pytest.mark.parametrize(
    ("text", "truth"), [("yes", True), ("ON", True), ("0", False), ("no", False)]
)
def test_truths(text: str, truth: bool):
    assert literals.value(PARAMETERS["burst_start"], text) is truth

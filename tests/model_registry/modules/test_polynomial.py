"""Polynomials recovered from their values, exactly or not at all."""

import re
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from genz_core.errors import InvalidValue
from model_registry.modules.polynomial import Polynomial, fit_grid
from tests.draws import cases


@given(st.lists(st.integers(-9, 9), min_size=9, max_size=9))
def test_a_polynomial_is_found_again_from_its_values(coefficients: list[int]) -> None:
    terms = {(i, j): coefficients[3 * i + j] for i in range(3) for j in range(3)}
    points = [(x, y) for x in (1, 2, 3, 4) for y in (2, 3, 5, 9)]
    values = [sum(c * x**i * y**j for (i, j), c in terms.items()) for x, y in points]
    found = fit_grid(("x", "y"), points, values)
    assert found is not None
    assert {powers: int(c) for powers, c in found.terms.items()} == {
        powers: c for powers, c in terms.items() if c
    }


def test_what_is_no_polynomial_is_not_given_as_one() -> None:
    points = [(x,) for x in (1, 2, 3, 4)]
    assert fit_grid(("x",), points, [2.0**x for (x,) in points]) is None


def test_values_of_nothing_are_the_polynomial_without_terms() -> None:
    fitted = fit_grid(("x",), [(1,), (2,), (3,)], [0.0, 0.0, 0.0])
    assert fitted == Polynomial(("x",), {}) and fitted.text() == "0" and fitted({"x": 9}) == 0.0


def test_a_polynomial_is_read_back_from_json_and_shown_as_text() -> None:
    terms = {(1, 1): Fraction(8192), (1, 2): Fraction(1, 2), (0, 0): Fraction(-3)}
    polynomial = Polynomial(("batch", "tokens"), terms)
    assert polynomial.text() == "(1/2)*{batch}*{tokens}**2 + 8192*{batch}*{tokens} - 3"
    assert Polynomial.from_json(("batch", "tokens"), polynomial.to_json()) == polynomial


@settings(max_examples=cases(30))
@given(
    st.dictionaries(
        st.tuples(st.integers(0, 3), st.integers(0, 3)),
        st.fractions(-99, 99, max_denominator=7).filter(bool),
        min_size=1,
    )
)
def test_a_formula_is_read_back_from_its_text(terms: dict[tuple[int, int], Fraction]) -> None:
    polynomial = Polynomial(("batch", "tokens"), terms)
    assert Polynomial.parse(("batch", "tokens"), polynomial.text()) == polynomial


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("2*{x}*3 + {x}", {(1,): 7}),  # factors in any order, equal powers are added
        ("{x}*{x}**2 - 1.5", {(3,): 1, (0,): Fraction(-3, 2)}),
        ("0.25*{x} - 0.25*{x}", {}),  # terms that cancel are removed
        (" 3 +  + 4 ", {(0,): 7}),
    ],
)
def test_a_formula_that_was_edited_by_hand_is_read(text: str, terms: dict) -> None:
    assert Polynomial.parse(("x",), text).terms == terms


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is not a formula"),
        ("2*{y}", "give numbers and {symbols} of x, as in"),
        ("2**{x}", "give numbers"),
        ("{x}/2", "give numbers"),
        ("import os", "give numbers"),
        ("(1/0)*{x}", "give numbers"),
    ],
)
def test_what_is_no_formula_is_refused_in_a_sentence(text: str, said: str) -> None:
    with pytest.raises(InvalidValue, match=re.escape(said)):
        Polynomial.parse(("x",), text)

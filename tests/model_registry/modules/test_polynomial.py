"""Polynomials found again from their values, exactly or not at all."""

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from model_registry.modules.polynomial import Polynomial, fit_grid


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

"""The laws of growth that the page of speed states."""

import pytest

from tests.benchmarks.growth import Growth, shown


def test_the_exponent_of_a_power_is_found():
    law = Growth.of([10, 100, 1000], [3e-6 * size**1.5 for size in (10, 100, 1000)])
    assert law.exponent == pytest.approx(1.5)


def test_a_fixed_cost_lowers_the_exponent_and_not_the_cost_of_one_more():
    law = Growth.of([10, 100, 1000], [1e-3 + 2e-6 * size for size in (10, 100, 1000)])
    assert law.exponent < 1.0
    assert law.each_s == pytest.approx(2e-6)
    assert law.row("loads").startswith("| loads | 10 to 1,000 | 0.")
    assert law.row("loads").endswith("| 2 µs |")


@pytest.mark.parametrize(
    ("seconds", "text"), [(1.234, "1.23 s"), (0.0071, "7.1 ms"), (2.5e-4, "250 µs"), (3e-9, "3 ns")]
)
def test_seconds_are_shown_in_a_unit_that_fits(seconds: float, text: str):
    assert shown(seconds) == text

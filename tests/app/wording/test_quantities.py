"""Numbers in words and in display units."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.wording import quantities


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (0.0, "0 s"),
        (3.2e-9, "3.20 ns"),
        (4.5e-6, "4.50 µs"),
        (0.0045265, "4.53 ms"),
        (0.9999, "1.00 s"),
        (1.0, "1.00 s"),
        (12.34, "12.3 s"),
        (654.0, "654 s"),
        (7200.0, "2.00 h"),
        (math.nan, "–"),
    ],
)
def test_seconds_take_the_prefix_that_reads_well(value: float, words: str):
    assert quantities.seconds(value) == words


def test_rates_and_sizes_are_decimal():
    assert quantities.bandwidth(3.35e12) == "3.35 TB/s"
    assert quantities.size(80 * 2**30) == "85.9 GB"
    assert quantities.flops_rate(989.4e12) == "989 TFLOP/s"
    assert quantities.flops_rate(1.9789e15) == "1.98 PFLOP/s"


def test_parameters_are_in_billions_as_the_field_writes_them():
    assert quantities.parameters(8_030_261_248) == "8.03 B"
    assert quantities.parameters(124_439_808) == "124 M"


@given(st.floats(1e-9, 1e9))
def test_three_digits_are_within_half_a_percent(value: float):
    assert float(quantities.digits(value).replace(",", "")) == pytest.approx(value, rel=5e-3)


def test_a_share_has_no_more_digits_than_one_reads():
    shares = {0.0123: "1.2 %", 0.43: "43 %", 6.04: "604 %", 212296.43: "21,200,000 %"}
    assert {share: quantities.percent(share) for share in shares} == shares


@given(st.floats(1e-9, 7000))
def test_a_latency_can_be_read_back(value: float):
    number, unit = quantities.seconds(value).split()
    scale = {"ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "s": 1.0}[unit]
    assert float(number.replace(",", "")) * scale == pytest.approx(value, rel=6e-3)


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (2, 1, "−50 %"),
        (1, 1, "±0 %"),
        (1, 1.25, "+25 %"),
        (1, 3, "3.00×"),
        (0, 1, "–"),
        (1, math.nan, "–"),
    ],
)
def test_a_change_says_its_direction(before: float, after: float, words: str):
    assert quantities.change(before, after) == words


def test_what_limits_a_phase_names_the_largest_part_and_a_close_second():
    sentence = quantities.limits("Decode", {"memory": 0.006, "bandwidth": 0.003, "host": 0.001})
    assert sentence == (
        "Decode is limited by **memory traffic** (60 % of 10.0 ms), "
        "then memory bandwidth below its peak (30 %)"
    )


def test_a_second_limit_far_behind_the_first_is_not_named():
    assert "then" not in quantities.limits("Prefill", {"compute": 0.9, "memory": 0.1})


def test_advice_names_the_two_best_and_admits_when_nothing_helps():
    levers = [("twice the bandwidth", 0.4), ("fp8 weights", 0.3), ("twice the peak", 0.0)]
    assert quantities.advice("TPOT", levers) == (
        "twice the bandwidth would cut TPOT by **40 %**, fp8 weights by 30 %"
    )
    assert "none of the single changes" in quantities.advice("TPOT", [("twice the peak", 0.004)])


def test_an_interval_shares_its_unit_where_both_ends_have_it():
    assert quantities.span(0.0183, 0.0417) == "18.3 to 41.7 ms"
    assert quantities.span(0.742, 1.36) == "742 ms to 1.36 s"
    assert quantities.span(float("nan"), 1.0) == "not validated"


def test_a_rate_of_requests_has_no_exponent_and_one_request_is_one():
    rates = {1.0: "1 request/s", 2.5: "2.5 requests/s", 12000.0: "12,000 requests/s"}
    assert {rate: quantities.request_rate(rate) for rate in rates} == rates
    assert quantities.request_rate(1234.5, 3) == "1,230 requests/s"
    assert quantities.request_rate(1.00001) == "1 request/s", "as many as are shown"


def test_one_of_a_kind_is_singular_and_more_are_not():
    assert [quantities.counted(many, "user") for many in (1, 2048)] == ["1 user", "2,048 users"]
    assert [quantities.counted(text, "user") for text in ("1", "2k")] == ["1 user", "2k users"]
    loads = {"batch": "batch 8", "concurrency": "8 users", "rate": "8 requests/s"}
    assert {kind: quantities.load(kind, 8) for kind in loads} == loads

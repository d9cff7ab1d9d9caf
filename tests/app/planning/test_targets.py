"""Targets: the typed condition is the one that must hold; impossible ones are refused in a
sentence.
"""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.planning.targets import FIGURES, figure, parse_targets
from genz_core.errors import InvalidValue


def test_targets_are_read_with_their_units():
    asked = parse_targets("ttft_p95 < 500ms, tpot<30 ms, usd_per_mtok < $0.4, e2e <= 8s")
    assert [(target.figure.name, target.value) for target in asked] == [
        ("ttft_p95", pytest.approx(0.5)),
        ("tpot", pytest.approx(0.03)),
        ("usd_per_mtok", 0.4),
        ("e2e", 8.0),
    ]
    assert parse_targets("") == ()
    assert parse_targets("throughput > 1000")[0].below is False


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ttft_p96 < 1s", "did you mean"),
        ("ttft", "give a figure"),
        ("ttft < 3 parsecs", "not 'parsecs'"),
        ("ttft > 1s", "write <"),
        ("throughput < 5", "write >"),
        ("tpot < 0", "above 0"),
        ("tpot < 1s, tpot < 2s", "two targets"),
        ("tpot < " + "9" * 500, "above 0"),
        (",".join(f"x{n} < 1" for n in range(99)), "at most"),
    ],
)
def test_what_is_no_target_is_refused(text, said):
    with pytest.raises(InvalidValue, match=said):
        parse_targets(text)


@given(st.text(max_size=80))
def test_any_text_is_targets_or_a_refusal(text):
    with suppress(InvalidValue):
        parse_targets(text)


@given(st.sampled_from(sorted(FIGURES)), st.floats(1e-6, 1e6), st.floats(1e-6, 1e6))
def test_slack_margin_and_met_agree(name, wanted, value):
    sign, unit = "<" if figure(name).smaller else ">", "s" if figure(name).latency else ""
    (target,) = parse_targets(f"{name} {sign} {wanted!r}{unit}")
    met = bool(target.met(np.array([value]))[0])
    assert met == (target.margin(value) >= 0.0)
    slack = float(target.slack(np.array([value]))[0])
    assert abs(slack) < 1e-12 or met == (slack > 0.0)


def test_the_words_of_a_figure_stand_in_either_order():
    typed = parse_targets("p99 tpot < 30ms, tpot p50 < 20ms, mean ttft < 1s")
    assert typed == parse_targets("tpot_p99 < 30ms, tpot_p50 < 20ms, ttft < 1s")
    with pytest.raises(InvalidValue, match="no figure 'p98 tpot'"):
        parse_targets("p98 tpot < 30ms")


def test_a_figure_that_there_is_none_of_meets_no_target():
    (target,) = parse_targets("usd_per_mtok < 1")
    assert not target.met(np.array([np.nan]))[0]


def test_a_first_token_of_hundreds_of_seconds_without_a_unit_is_refused_with_both_readings():
    with pytest.raises(InvalidValue, match="in seconds; write 500ms or 500s"):
        parse_targets("ttft_p95 < 500")
    assert [one.value for one in parse_targets("ttft < 500s, tpot < 0.05, e2e < 60")] == [
        500.0, 0.05, 60.0,
    ]  # fmt: skip

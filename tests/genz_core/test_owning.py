"""Owned hardware, tokens, days and power: results computed by hand, and laws."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genz_core.economics import (
    Ownership,
    PowerModel,
    break_even_rate,
    carbon_g_per_mtok,
    replicas_over_day,
    token_costs,
)
from genz_core.errors import InvalidValue

share = st.floats(0.0, 1.0)


def test_a_device_without_interest_is_its_price_over_its_hours_and_its_power():
    """35,064 $ over four years of 8,766 h is 1 $; 1 kW at a PUE of 1.5 and 0.2 $ is 0.3 $."""
    owned = Ownership(4 * 8766.0, 4.0, pue=1.5, electricity_usd_per_kwh=0.2)
    assert float(owned.usd_per_hour(1000.0)) == pytest.approx(1.3)


def test_interest_is_an_annuity():
    """The payments for a loan of 1,000 at 10 % over two years are 576.19 per year."""
    owned = Ownership(1000.0, 2.0, interest=0.1)
    assert float(owned.usd_per_hour(0.0)) * 8766.0 == pytest.approx(576.19, abs=0.01)
    nearly_free = Ownership(1000.0, 2.0, interest=1e-9)
    assert float(nearly_free.usd_per_hour(0.0)) * 8766.0 == pytest.approx(500.0, rel=1e-6)


@given(st.floats(0.1, 100.0), st.floats(1.0, 1e5))
def test_owned_cost_scales_with_the_price(factor: float, capex: float):
    one, other = Ownership(capex), Ownership(capex * factor)
    assert float(other.usd_per_hour(0.0)) == pytest.approx(factor * float(one.usd_per_hour(0.0)))


@given(st.floats(1e-6, 10.0), st.integers(1, 10**6), st.integers(1, 10**5), share, share)
def test_the_tokens_of_a_request_cost_what_the_request_does(usd, isl, osl, prompts, cached):
    costs = token_costs(usd, isl, osl, prompts, cached)
    assert (isl * costs.in_ + osl * costs.out) / 1e6 == pytest.approx(usd)
    assert (isl + osl) * costs.blended / 1e6 == pytest.approx(usd)
    assert costs.cached <= costs.in_


def test_at_the_break_even_rate_both_cost_the_same():
    rate = break_even_rate(7.2, 0.001)
    assert rate == pytest.approx(2.0) and rate * 3600 * 0.001 == pytest.approx(7.2)
    assert break_even_rate(7.2, 0.0) == math.inf


@given(st.lists(st.floats(0.0, 1e3), min_size=24, max_size=24), st.floats(0.1, 50.0))
def test_replicas_carry_the_load_and_no_more_run_than_that_takes(rates, each):
    follows = replicas_over_day(np.array(rates), each, follows_load=True)
    steady = replicas_over_day(np.array(rates), each, follows_load=False)
    assert (follows * each >= np.array(rates) * (1 - 1e-6)).all()
    assert ((follows - 1) * each <= np.array(rates) + 1e-6).all()
    assert (steady == follows.max()).all()


@given(share, share, share)
def test_power_lies_between_idle_and_the_design_power(compute, memory, links):
    watts = float(PowerModel().power_w(700.0, compute, memory, links))
    assert 0.25 * 700.0 <= watts <= 700.0 * (1 + 1e-12)
    assert float(PowerModel().power_w(700.0, 0, 0, 0)) == pytest.approx(175.0)
    assert float(PowerModel().power_w(700.0, 1, 1, 1)) == pytest.approx(700.0)


def test_a_kilowatt_hour_a_million_tokens_is_the_grids_intensity():
    assert float(carbon_g_per_mtok(3.6, 1.0, 400.0)) == pytest.approx(400.0)


@pytest.mark.parametrize(
    "wrong", [{"capex_usd": -1.0}, {"capex_usd": 1.0, "pue": 0.9}, {"capex_usd": math.nan},
              {"capex_usd": 1.0, "lifetime_years": 0.0}],
)  # fmt: skip
def test_what_cannot_be_owned_is_refused(wrong: dict):
    with pytest.raises(InvalidValue, match="give"):
        Ownership(**wrong)

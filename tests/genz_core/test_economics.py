"""Money and energy per token from the rates of a datasheet."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from genz_core.economics import joules_per_token, usd_per_million_tokens


def test_rent_and_power_are_shared_by_the_tokens(system):
    """3.6 USD per hour and 1000 tokens/s: 3.6e6 tokens, 1 USD per million; 500 W: 0.5 J."""
    assert usd_per_million_tokens(system, 1, 1000.0) == pytest.approx(1.0)
    assert joules_per_token(system, 1, 1000.0) == pytest.approx(0.5)


def test_devices_and_rates_may_be_arrays(system):
    devices, rate = np.array([1, 2, 8]), np.array([1000.0, 1000.0, 4000.0])
    assert usd_per_million_tokens(system, devices, rate) == pytest.approx([1.0, 2.0, 2.0])
    assert joules_per_token(system, devices, rate) == pytest.approx([0.5, 1.0, 1.0])


def test_without_a_price_or_a_power_there_is_no_figure(system):
    bare = replace(system, price_usd_per_hour=None, tdp_w=None)
    assert usd_per_million_tokens(bare, 1, 1.0) is None
    assert joules_per_token(bare, 1, 1.0) is None

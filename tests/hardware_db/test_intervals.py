"""Intervals of predictions: the held-out points behind them, and combinations without any."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hardware_db
from genz_core.engine import EngineProfile
from genz_core.latency.profile import Fit
from hardware_db.intervals import (
    CROWD,
    USUAL_NOVELTY,
    WIDEST,
    Interval,
    load_interval,
    load_operator_interval,
    validated_tier,
)
from hardware_db.profiles import residual_quantiles
from hardware_db.tables import table
from tests.rules import for_every

ROWS = table("engines", "intervals")


@given(st.floats(0.1, 3.0), st.floats(1.0, 3.0))
def test_an_interval_contains_its_prediction(low, factor):
    interval = Interval(low, low * factor, 10)
    assert interval.low <= 1.0 <= interval.high
    assert interval.low <= low and interval.high >= low * factor


@for_every(ROWS)
def test_every_row_that_ships_is_an_interval_around_some_prediction(row):
    assert 0.0 < float(row["low"]) <= float(row["high"]) < 20.0
    assert int(row["points"]) >= 5


def row_of(**key: str) -> Interval | None:
    """The interval of a key's row, if there is one."""
    rows = (row for row in ROWS if key.items() <= row.items())
    names = ("low", "high", "points", "novelty", "crowd")
    return next((Interval(*(float(r[name]) for name in names)) for r in rows), None)


def stated(interval: Interval | None) -> Interval | None:
    """An interval, None if it is too wide to be useful."""
    return interval if interval and interval.high <= WIDEST else None


@pytest.mark.parametrize("tier", ["measured", "sibling", "default"])
@pytest.mark.parametrize("metric", ["ttft_s", "tpot_s"])
def test_an_engine_rests_on_its_own_points_then_on_all_and_an_unmeasured_one_on_the_generic(
    metric, tier
):
    measured = {row["engine"] for row in ROWS} - {"*", "generic"}
    assert measured >= {"vllm", "trtllm", "sglang"}
    key = {"metric": metric, "tier": tier, "known": "none"}
    for name in measured:
        expected = row_of(**key, engine=name) or row_of(**key, engine="*")
        assert load_interval(metric, tier, EngineProfile(name)) == stated(expected)
    generic = row_of(**key, engine="generic")
    assert load_interval(metric, tier, EngineProfile("unheard of")) == stated(generic)


def test_a_calibrated_recipe_has_its_own_points_and_a_few_runs_those_of_none():
    engine = hardware_db.load_engine("vllm")
    tiers = {
        state: load_interval("tpot_s", "measured", replace(engine, measured_on=state))
        for state in ("", "own_few", "recipe", "own")
    }
    assert tiers[""] == tiers["own_few"]
    assert len({tiers[""], tiers["recipe"], tiers["own"]}) == 3


def test_a_loads_interval_grows_with_its_novelty_and_its_crowd():
    interval = Interval(0.8, 1.25, 100, novelty=1.0, crowd=0.5)
    usual = interval.at(np.array([USUAL_NOVELTY]), np.array([CROWD]))
    assert (usual.low[0], usual.high[0]) == pytest.approx((0.8, 1.25))
    twice = interval.at(np.array([2 * USUAL_NOVELTY]), np.array([1.0]))
    crowded = interval.at(np.array([USUAL_NOVELTY]), np.array([4 * CROWD]))
    assert (twice.low[0], twice.high[0]) == pytest.approx((0.8**2, 1.25**2))
    assert crowded.high == pytest.approx(twice.high)


def test_only_loads_of_which_an_interval_says_something_have_one():
    interval = Interval(0.8, 1.25, 100, novelty=1.0)
    near, far = 0.1, 10 * USUAL_NOVELTY
    both = interval.at(np.array([near, far]), np.ones(2))
    assert both.high[0] < WIDEST and np.isnan([both.low[1], both.high[1]]).all()
    assert interval.at(np.array([far]), np.ones(1)) is None


@given(st.floats(0.05, 1.0), st.floats(1.0, 4096.0), st.floats(1.0, 4.0))
def test_what_lies_farther_from_measured_runs_is_never_more_certain(novelty, users, factor):
    engine = replace(hardware_db.load_engine("vllm"), measured_on="recipe")
    steps = np.array([novelty, min(novelty * factor, 1.0)])
    crowds = np.array([users, users * factor])
    for found in (
        load_interval("tpot_s", "measured", engine, steps, np.full(2, users)),
        load_interval("tpot_s", "measured", engine, np.full(2, novelty), crowds),
    ):
        if found is not None and not np.isnan(found.high).any():
            assert found.high[1] >= found.high[0] and found.low[1] <= found.low[0]


def test_a_figure_or_a_tier_without_points_has_no_interval():
    assert load_interval("tpot_s", "", hardware_db.load_engine("vllm")) is None
    assert load_interval("goodput", "measured", hardware_db.load_engine("vllm")) is None


def test_an_operators_interval_is_the_middle_four_fifths_of_its_residuals():
    fit = hardware_db.load("h100").latency.fit("gemm", "bf16")
    interval = load_operator_interval("gemm", fit, "vllm")
    levels = residual_quantiles()["gemm"]["measured"]
    assert interval.low == pytest.approx(math.exp(levels[0.1]))
    assert interval.high == pytest.approx(math.exp(levels[0.9]))


def test_constants_of_the_user_and_engines_with_other_kernels_have_no_residuals():
    fit = hardware_db.load("h100").latency.fit("gemm", "bf16")
    assert load_operator_interval("gemm", fit, "llama.cpp") is None
    assert load_operator_interval("gemm", Fit("measured", "own benchmark", 60), "vllm") is None


def test_the_tier_of_a_profile_counts_until_the_user_fits_a_part_of_it():
    profile = hardware_db.load("h100").latency
    assert validated_tier(profile) == "measured" and validated_tier(None) == ""
    own = {**profile.fits, "gemm.bf16": Fit("measured", "own benchmark", 60)}
    assert validated_tier(replace(profile, fits=own)) == ""

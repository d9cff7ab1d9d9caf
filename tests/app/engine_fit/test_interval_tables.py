"""Intervals from residuals that were left out, and what they cover."""

from dataclasses import replace

import numpy as np
import pytest

from app.engine_fit.interval_tables import AS_GENERIC, OWN, coverage_table, interval_table
from app.engine_fit.splits import SPLITS, Residuals
from app.engine_fit.targets import Target
from hardware_db.intervals import CROWD, USUAL_NOVELTY


def spread_out(sigma, metric="tpot_s", count=2000, draw=None, novelty=None, users=None):
    """Residuals with a given standard deviation, eight per configuration, model and system.

    draw: the residuals, [count]; normal ones if None.  novelty, users: of each.
    """
    rng = np.random.default_rng(0)
    targets = []
    for at in range(count):
        facts = {"engine": "e", "tier": "measured", "plausible": "yes", "load": "high"}
        facts |= {"users": str(1 if users is None else users[at])}
        names = {name: f"{name}{at // 8}" for name in tuple(SPLITS.values())}
        targets.append(
            Target(
                at,
                metric,
                1.0,
                facts | names,
            )
        )
    drawn = rng.normal(0.0, sigma, count) if draw is None else draw
    far = np.full(count, 0.25) if novelty is None else novelty
    residuals = Residuals(targets, drawn, far, drawn)
    splits = tuple(SPLITS)
    return dict.fromkeys((*splits, OWN, AS_GENERIC), residuals)


@pytest.mark.parametrize("count", [64, 8000], ids=["few", "many"])
def test_an_interval_is_the_middle_of_what_was_left_out(count):
    row = next(r for r in interval_table(spread_out(0.1, count=count)) if r["known"] == "recipe")
    ends = np.log(row["low"]), np.log(row["high"])
    assert ends == pytest.approx((-0.128, 0.128), abs=0.3 / np.sqrt(count) + 0.02)


def test_of_many_skewed_residuals_the_interval_leaves_out_the_longer_tail():
    skewed = -np.random.default_rng(0).exponential(0.5, 8000)  # measured over predicted: at least 1
    row = next(r for r in interval_table(spread_out(0.0, count=8000, draw=skewed)))
    assert row["low"] == pytest.approx(1.0, abs=0.01)
    assert np.log(row["high"]) == pytest.approx(0.5 * np.log(5.0), rel=0.1)
    few = interval_table(spread_out(0.0, count=64, draw=skewed[:64]))[0]
    assert few["high"] > row["high"]


def test_intervals_cover_what_drew_neither_them_nor_the_model():
    rows = coverage_table(spread_out(0.1))
    assert {row["known"] for row in rows} == {"recipe", "release", "few", "none"}
    assert all(75 <= row["coverage %"] <= 85 for row in rows)


@pytest.mark.slow
def test_a_load_far_from_measured_runs_or_crowded_has_a_wider_interval():
    rng = np.random.default_rng(1)
    novelty, users = rng.uniform(0.1, 1.0, 4000), 2.0 ** rng.integers(0, 11, 4000)
    crowded = np.maximum(users / CROWD, 1.0)
    draw = rng.normal(0.0, 0.3 * novelty * crowded**0.5)
    known = spread_out(0.0, count=4000, draw=draw, novelty=novelty, users=users)
    row = next(r for r in interval_table(known) if r["known"] == "recipe")
    assert (row["novelty"], row["crowd"]) == pytest.approx((1.0, 0.5), abs=0.1)
    assert np.log(row["high"]) == pytest.approx(1.2816 * 0.3 * USUAL_NOVELTY, rel=0.15)
    blind = next(r for r in interval_table(known) if r["known"] == "none")
    assert blind["novelty"] == 0.0  # nothing is near if none of it was measured
    judged = next(r for r in coverage_table(known) if r["known"] == "recipe")
    assert 75 <= judged["most novel third %"] <= 85


def test_a_thin_cell_draws_on_the_points_of_others():
    """Sixteen exact points of one tier, and two thousand scattered points of another."""
    draw = np.random.default_rng(0).normal(0.0, 0.3, 2016)
    draw[:8], draw[2000:2008], draw[1000:1008] = 0.0, 0.0, 0.0
    known = spread_out(0.0, metric="decode", count=2016, draw=draw)
    exact = {0, 125, 250}
    for at, target in enumerate(known[OWN].targets):
        tier = "measured" if at // 8 in exact else "sibling"
        known[OWN].targets[at] = replace(target, facts={**target.facts, "tier": tier})
    rows = {r["tier"]: r for r in interval_table(known) if r["known"] == "device"}
    thin, thick = rows["measured"], rows["sibling"]
    assert thin["points"] == 24
    assert thin["high"] > 1.2
    assert np.log(thick["high"]) == pytest.approx(1.2816 * 0.3, rel=0.15)


def test_few_points_state_no_interval():
    assert interval_table(spread_out(0.1, count=4)) == []
    assert coverage_table(spread_out(0.1, count=4)) == []


def test_static_batches_know_devices_and_requests_know_recipes():
    known_of = {
        metric: {row["known"] for row in interval_table(spread_out(0.1, metric))}
        for metric in ("tpot_s", "decode")
    }
    assert known_of == {
        "tpot_s": {"recipe", "release", "few", "none"},
        "decode": {"device", "none"},
    }

"""Choices on measured frontiers: counted by hand, and compared with every alternative."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.accuracy import measured_points
from app.accuracy.decisions import kept
from app.accuracy.decisions.choices import (
    LEEWAY,
    TARGETS_S,
    Choice,
    choices,
    gpu_pairs,
    most_users,
)
from app.accuracy.decisions.correction import Correction, correction
from app.accuracy.decisions.loads import KNOWN, Load, held_out, held_out_loads, measured_loads
from app.accuracy.decisions.scores import PLAUSIBLE, reliability_rows, scores
from hardware_db.intervals import Interval


def load(system="a", engine="x", users=1, tpot=(0.01, 0.01), tokens=(10.0, 10.0), devices=1):
    asked = ("model", "1024", "1024")
    return Load(asked, system, (engine, "fp8", "1", "1", "1"), users, devices, tpot, tokens)


def test_the_regret_is_the_share_of_the_best_measured_throughput_that_the_choice_lacks():
    better = load(engine="x", tokens=(100.0, 80.0))
    chosen = load(engine="y", tokens=(75.0, 90.0))
    of_target = {one.target_s: one for one in choices([better, chosen])}
    assert set(of_target) == set(TARGETS_S)
    assert all(one.regret == pytest.approx(0.25) for one in of_target.values())
    assert scores([better, chosen])["throughput lost %"] == 25.0


def test_a_target_that_is_missed_or_that_nothing_is_predicted_to_meet_loses_all():
    slow = load(engine="x", tpot=(0.0112, 0.009), tokens=(200.0, 200.0))
    near = load(engine="x", tpot=(0.0109, 0.009), tokens=(200.0, 200.0))
    good = load(engine="y", tpot=(0.009, 0.009), tokens=(100.0, 100.0))
    hidden = load(engine="x", tpot=(0.009, 0.2), tokens=(100.0, 100.0))
    dark = load(engine="y", tpot=(0.009, 0.2), tokens=(90.0, 90.0))
    first, within, none = (choices(pair)[0] for pair in
                           ([slow, good], [near, good], [hidden, dark]))  # fmt: skip
    assert (first.regret, first.missed) == (1.0, True)
    assert (within.regret, within.missed) == (0.0, False)
    assert (none.regret, none.none) == (1.0, True)


def test_one_deployment_alone_asks_nothing():
    assert not choices([load(users=1), load(users=2, tokens=(20.0, 20.0))])


def test_gpus_are_ranked_by_the_most_tokens_within_the_target():
    one = [load("a", tokens=(100.0, 50.0)), load("a", users=2, tpot=(0.2, 0.2), tokens=(900, 900))]
    other, like = load("b", tokens=(80.0, 60.0)), load("c", tokens=(98.0, 10.0))
    assert gpu_pairs([*one, other]) == [False] * len(TARGETS_S)
    assert gpu_pairs([one[0], like]) == []  # within 5 % by measurement


def test_most_users_are_compared_where_some_loads_miss_the_target():
    tpots = ((0.008, 0.008), (0.012, 0.018), (0.018, 0.025))
    loads = [load(users=2**at, tpot=tpot) for at, tpot in enumerate(tpots)]
    found = list(most_users(loads))
    # 10 ms: one predicted, one measured; 15 ms: two measured, one predicted
    assert found == [1.0, 0.5]


def test_a_perfect_prediction_gives_nothing_away():
    rows = measured_points.measured_rows("serving")
    truth = {row["id"]: tuple(float(row[f"measured_{name}"]) for name in ("ttft_s", "tpot_s"))
             for row in rows}  # fmt: skip
    score = scores(measured_loads(truth))
    assert score["questions"] > 300
    assert score["throughput lost %"] == score["target missed %"] == score["no plan %"] == 0.0
    assert score["ranked correctly %"] == score["limit exact %"] == 100.0


def test_held_out_predictions_are_worse_than_those_of_runs_that_were_known():
    rows = {row["split"]: row for row in kept.shipped_table()}
    if not rows:
        pytest.skip("no table was kept")
    assert list(rows)[: len(KNOWN)] == list(KNOWN)
    for split in list(KNOWN)[1:]:
        assert len(held_out(split)) > 1000
        assert rows[split]["questions"] > 300
    assert rows["in sample"]["throughput lost %"] <= rows["one model left out"]["throughput lost %"]


# ------------------------------------------------------------------------------- said and met


def made(said, met):
    return [
        Choice("m", "s", 0.01, 0.0, missed=False, none=False, rule=0.0, said=p, met=bool(m))
        for p, m in zip(said, met, strict=True)
    ]


def test_what_can_be_expected_is_chosen_over_what_is_most():
    """100 tokens/s with a one-in-three chance to meet the target, against 60 that nearly
    always do.
    """
    spread = Interval(0.8, 1.25, 100)
    edge = replace(load(engine="x", tpot=(0.0101, 0.0108), tokens=(90.0, 100.0)), spread=spread)
    sure = replace(load(engine="y", tpot=(0.006, 0.006), tokens=(60.0, 60.0)), spread=spread)
    assert edge.chance(0.01) < 0.5 and sure.chance(0.01) > 0.95
    first = next(one for one in choices([edge, sure]) if one.target_s == 0.01)
    assert first.said == pytest.approx(sure.chance(0.01)) and first.met and not first.regret


def test_a_near_miss_is_worth_something_and_a_load_predicted_to_miss_comes_last():
    spread = Interval(0.9, 1.11, 100)
    near = replace(load(engine="x", tpot=(0.0103, 0.0099), tokens=(90.0, 100.0)), spread=spread)
    safe = replace(load(engine="y", tpot=(0.008, 0.008), tokens=(70.0, 70.0)), spread=spread)
    slow = replace(load(engine="z", tpot=(0.0101, 0.0101), tokens=(190.0, 190.0)), spread=spread)
    assert near.chance(0.01) * 100.0 < 70.0 < near.chance(LEEWAY * 0.01) * 100.0
    assert slow.chance(LEEWAY * 0.01) * 190.0 > 100.0
    first = next(one for one in choices([near, safe, slow]) if one.target_s == 0.01)
    assert first.said == near.chance(0.01) and not first.met and not first.missed


def test_runs_below_the_bounds_of_their_loads_are_left_out_of_the_plausible_ones():
    rows = [row["split"] for row in kept.shipped_table()]
    assert rows[len(KNOWN) : 2 * len(KNOWN)] == [f"{split}{PLAUSIBLE}" for split in KNOWN]
    loads = held_out_loads()["configurations held out"]
    assert 0 < sum(not one.plausible for one in loads) < len(loads) / 100


def test_choices_that_kept_their_word_need_no_correction_and_others_are_brought_down():
    generator = np.random.default_rng(5)
    said = generator.uniform(0.5, 0.999, 4000)
    honest = correction(made(said, generator.uniform(size=4000) < said))
    assert np.max(np.abs(honest.of(said) - said)) < 0.05
    boasting = correction(made(said, generator.uniform(size=4000) < 0.75))
    assert np.mean(boasting.of(said)) == pytest.approx(np.minimum(0.75, said).mean(), abs=0.04)


def test_some_choices_miss_however_sure_they_are():
    """Where one sure choice in ten misses, no probability above nine tenths remains."""
    generator = np.random.default_rng(6)
    said = np.where(np.arange(4000) % 2, 0.999, generator.uniform(0.5, 0.9, 4000))
    met = generator.uniform(size=4000) < 0.9 * said
    found = correction(made(said, met))
    assert found.odd_share == pytest.approx(0.1, abs=0.01) and found.slope > 0.9
    assert found.of(0.999) == pytest.approx(0.9, abs=0.015)


@given(st.floats(0.2, 1.0), st.floats(-1.0, 0.0), st.floats(0.0, 1.0), st.floats(0.0, 1.0))
def test_a_corrected_probability_is_one_and_keeps_the_order(slope, shift, one, other):
    corrected = Correction(slope, shift)
    low, high = sorted((one, other))
    assert 0.0 <= corrected.of(low) <= corrected.of(high) <= high
    assert corrected.of(low) <= low and np.isnan(corrected.of(np.nan))


def test_said_and_met_agree_on_held_out_choices_after_the_correction():
    """The share that met is at least its band; where 80 % or more was said, it is in the band."""
    for split, loads in held_out_loads().items():
        found = choices(loads)
        rows = reliability_rows(found, correction(found))
        assert kept.shipped_correction(split).choices == len(found)
        for row in rows:
            if row["probability"].startswith("0%"):
                continue  # there was no alternative
            low, high = map(float, row["band %"].split(" to "))
            assert low - 2.0 <= row["met %"], (split, row)
            assert row["said %"] < 80.0 or row["met %"] <= high + 2.0, (split, row)

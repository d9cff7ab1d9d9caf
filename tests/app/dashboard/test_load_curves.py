"""Load curves: those of the engine, up to the highest sustained rate."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from app.dashboard import load_curves
from app.question.question import Question
from app.scenario.scenario import resolve
from app.scenario.served_rows import as_calibrated, served
from app.scenario.setup import Setup
from genz_core.serving import Traffic, serve


def test_the_curves_are_what_the_engine_computes():
    scenario = Question(engine="vllm", isl=1024, osl=1024, length_ratio=1.0)
    resolved = resolve(scenario)
    users = 2.0 ** np.arange(13)
    expected = serve(
        resolved.model, resolved.system, Traffic(1024, 1024, users), None, resolved.engine
    )
    table = load_curves.curve(Setup(scenario), "concurrency")
    assert table["tpot_s"].to_numpy() == pytest.approx(expected.tpot_s)
    assert table["ttft_s"].to_numpy() == pytest.approx(expected.ttft_s)


def test_a_chart_of_users_ends_where_the_first_wait_for_others_to_end():
    table = load_curves.curve(Setup(Question(engine="vllm", isl=8192, osl=1024)), "concurrency")
    drawn = load_curves.until_some_wait(table, "concurrency", 1.0)
    waiting = drawn["running"] < drawn["concurrency"] * 0.99
    assert list(waiting) == [False] * (len(drawn) - 1) + [True] and len(drawn) < len(table)
    asked = load_curves.until_some_wait(table, "concurrency", 2048.0)
    assert asked["concurrency"].max() == 2048.0
    assert len(load_curves.until_some_wait(table[:3], "concurrency", 1.0)) == 3


def test_the_highest_rate_is_drawn_and_the_next_is_overloaded():
    table = load_curves.curve(Setup(Question()), "rate")
    assert list(table["status"].unique()) == ["ok", "overloaded"]
    stable = table[table["status"] == "ok"]
    assert stable["utilisation"].max() == pytest.approx(0.98, rel=1e-6)
    assert stable["rate"].is_monotonic_increasing
    assert np.isfinite(stable["ttft_s"]).all()


@pytest.mark.parametrize("load", ["concurrency", "rate"])
def test_curves_of_several_degrees_are_those_of_each_alone(load: str):
    scenario = Question(model="mistralai/Mixtral-8x7B-v0.1", engine="vllm", batch=16)
    several = load_curves.curves_at(Setup(scenario), load, (2, 4, 8))
    assert list(several) == [2, 4, 8]
    for tp, table in several.items():
        alone = load_curves.curve(Setup(replace(scenario, tp=tp)), load)
        pd.testing.assert_frame_equal(table, alone, rtol=1e-12)


def test_a_degree_that_cannot_split_the_model_has_no_curve_and_leaves_the_others_theirs():
    several = load_curves.curves_at(Setup(Question()), "concurrency", (3, 4))
    assert set(several[3]["status"]) == {"invalid_parallelism"}
    assert set(several[4]["status"]) == {"ok"}


def test_what_was_measured_is_carried_over_to_hardware_that_nobody_has_and_is_not_validated():
    measured = Setup(Question(model="openai/gpt-oss-120b", engine="vllm"))
    faster = Setup(replace(measured.scenario, bandwidth=1.0001))
    assert "hypothetical hardware" in load_curves.basis(faster)
    real, tried = (load_curves.curve(s, "concurrency") for s in (measured, faster))
    assert tried["tpot_s"].to_numpy() == pytest.approx(real["tpot_s"].to_numpy(), rel=1e-3)
    ends = tried[["ttft_low_s", "tpot_low_s"]]
    assert ends.isna().all(axis=None)


def test_only_loads_that_run_at_once_are_on_the_trade_curve():
    table = load_curves.curve(Setup(Question(isl=8192, osl=1024)), "concurrency")
    kept = load_curves.without_waiting(table, "concurrency")
    assert 0 < len(kept) < len(table)
    assert (kept["concurrency"] <= kept["running"] * 1.001).all()


@pytest.mark.parametrize("load", ["concurrency", "rate"])
def test_the_batch_of_a_static_scenario_plays_no_part_under_load(load: str):
    one, many = (Setup(Question(engine="vllm", batch=batch)) for batch in (1, 48))
    pd.testing.assert_frame_equal(load_curves.curve(one, load), load_curves.curve(many, load))


@pytest.mark.parametrize("users", [16.0, 17.0])
def test_a_load_on_the_curve_and_one_beside_it_are_what_serving_it_alone_gives(users: float):
    scenario = Question(engine="vllm", batch=16)
    asked = replace(scenario, batch=1, concurrency=users)
    row = load_curves.one_load(Setup(asked))
    alone = served(as_calibrated(resolve(asked)))
    assert row["ttft_s"] == pytest.approx(float(alone.ttft_s[0]))
    assert row["tpot_s"] == pytest.approx(float(alone.tpot_s[0]))
    assert isinstance(row["status"], str) and isinstance(row["ttft_s"], float)

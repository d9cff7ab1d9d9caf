"""Curves under load: those of the engine, up to the highest rate that is sustained."""

from dataclasses import replace

import numpy as np
import pytest

from app.dashboard import load_curves
from app.scenario.scenario import Scenario, resolve
from app.scenario.setup import Setup
from genz_core.serving import Traffic, serve


def test_the_curves_are_what_the_engine_computes():
    scenario = Scenario(engine="vllm", isl=1024, osl=1024)
    resolved = resolve(scenario)
    users = 2.0 ** np.arange(13)
    expected = serve(
        resolved.model, resolved.system, Traffic(1024, 1024, users), None, resolved.engine
    )
    table = load_curves.closed_loop(Setup(scenario), 1.0)
    assert table["tpot_s"].to_numpy() == pytest.approx(expected.tpot_s)
    assert table["ttft_s"].to_numpy() == pytest.approx(expected.ttft_s)


def test_the_highest_rate_is_drawn_and_the_next_is_overloaded():
    table = load_curves.open_loop(Setup(Scenario()), 1.0)
    assert list(table["status"].unique()) == ["ok", "overloaded"]
    stable = table[table["status"] == "ok"]
    assert stable["utilisation"].max() == pytest.approx(0.98, rel=1e-6)
    assert stable["rate_per_s"].is_monotonic_increasing
    assert np.isfinite(stable["ttft_s"]).all()


def test_what_was_measured_is_carried_over_to_hardware_that_nobody_has_and_is_not_validated():
    measured = Setup(Scenario(model="openai/gpt-oss-120b", engine="vllm"))
    faster = replace(measured, bandwidth=1.0001)
    assert "nobody has" in load_curves.basis(faster)
    real, tried = (load_curves.closed_loop(setup, 1.0)["tpot_s"] for setup in (measured, faster))
    assert tried.to_numpy() == pytest.approx(real.to_numpy(), rel=1e-3)
    ends = load_curves.closed_loop(faster, 1.0)[["ttft_low_s", "tpot_low_s"]]
    assert ends.isna().all(axis=None)


def test_only_loads_that_run_at_once_are_on_the_trade_curve():
    table = load_curves.closed_loop(Setup(Scenario(isl=8192, osl=1024)), 1.0)
    kept = load_curves.without_waiting(table, "concurrency")
    assert 0 < len(kept) < len(table)
    assert (kept["concurrency"] <= kept["running"] * 1.001).all()

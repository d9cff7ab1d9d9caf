"""Requests that arrive at a rate, whether or not others are answered."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from genz_core.serving import Traffic, serve
from tests.genz_core.serving.closed_loops import ENGINE, closed


@pytest.mark.parametrize("load", [0.2, 0.5, 0.8])
def test_a_prefill_server_at_a_rate_queues_as_m_d_1(model, system, load):
    """Prompts of a whole step each: the wait is that of a single server with fixed service time."""
    engine = replace(ENGINE, chunk_tokens=4096, host_request_s=0.0)
    alone = closed(model, system, 1, engine, isl=4096, osl=1).ttft_s[0]
    traffic = Traffic(isl=4096, osl=1, rate_per_s=load / alone)
    served = serve(model, system, traffic, engine=engine)
    assert served.utilisation[0] == pytest.approx(load, rel=1e-3)
    assert served.ttft_s[0] == pytest.approx(alone * (1 + load / 2 / (1 - load)), rel=1e-3)


def test_a_rate_near_zero_is_an_idle_engine(model, system):
    alone = closed(model, system, 1, isl=500, osl=200)
    rare = serve(model, system, Traffic(isl=500, osl=200, rate_per_s=1e-3), engine=ENGINE)
    assert rare.ttft_s[0] == pytest.approx(alone.ttft_s[0], rel=0.01)
    assert rare.tpot_s[0] == pytest.approx(alone.tpot_s[0], rel=0.01)
    assert rare.running[0] == pytest.approx(1e-3 * alone.e2e_s[0], rel=0.01)


def test_arrivals_balance_with_what_runs(model, system):
    """Little's law: running sequences = rate x running time of each."""
    rates = np.array([0.1, 2.0, 20.0])
    load = serve(model, system, Traffic(isl=500, osl=200, rate_per_s=rates), engine=ENGINE)
    assert load.running == pytest.approx(rates * load.e2e_s, rel=0.01)
    assert np.all(np.diff(load.ttft_s) > 0) and np.all(np.diff(load.tpot_s) > 0)


def test_a_rate_beyond_what_is_sustained_says_so(model, system):
    load = serve(
        model, system, Traffic(isl=500, osl=200, rate_per_s=np.array([1.0, 1e6])), engine=ENGINE
    )
    assert load.status.tolist() == ["ok", "overloaded"]
    assert np.isinf(load.ttft_s[1]) and "sustains" in load.messages[1]


def test_places_that_prompts_fill_are_never_more_than_there_are_and_named(model, system):
    """Prompts first: from some rate on, far below the sustained one, all places are taken."""
    engine = replace(ENGINE, mixed_steps=False, max_sequences=32)
    rates = np.linspace(0.05, 0.95, 19)
    idle = serve(model, system, Traffic(isl=500, osl=200, rate_per_s=1e-6), engine=engine)
    rates = rates * 1e-6 / idle.utilisation[0]
    load = serve(model, system, Traffic(isl=500, osl=200, rate_per_s=rates), engine=engine)
    assert np.all(load.status == "ok") and np.all(load.running <= 32 * (1 + 1e-9))
    taken = load.running > 0.9 * 32
    assert taken.any() and not taken.all()
    assert [at in load.messages for at in range(rates.size)] == taken.tolist()
    assert "nearly all 32 places are taken" in load.messages[rates.size - 1]

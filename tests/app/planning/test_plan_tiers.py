"""A plan with sessions that pause and tiers that keep what they said."""

from __future__ import annotations

import numpy as np
import pytest

from app.planning import percentiles, search
from app.question.query import ask
from app.scenario.served_rows import deployed, served
from genz_core.errors import InvalidValue
from tests.app.planning.asking import asked, plan

MODEL = "meta-llama/Llama-3.1-8B"
SESSIONS = {
    "system": "h100", "engine": "vllm", "rate": 3.0, "isl": 8000, "osl": 200, "turns": 5,
    "think_s": 60.0, "devices": "4:6", "tp": "1,2", "simulate": False,
}  # fmt: skip


def priced(**given):
    return search.search(asked(MODEL, **SESSIONS | {"pools": "aggregated"} | given)).candidates


def test_every_deployment_that_sustains_the_load_is_priced_as_serve_prices_it():
    found = priced(host_cache_gib=50.0, disk_cache_gib=100.0)
    load = {name: SESSIONS[name] for name in ("system", "engine", "rate", "isl", "osl", "turns",
                                              "think_s")}  # fmt: skip
    sustained = np.flatnonzero(found.status == "ok").tolist()
    assert {int(found.row(at)["tp"]) for at in sustained} == {1, 2}
    for at in sustained:
        row = found.row(at)
        each = {name: int(row[name]) for name in ("replicas", "tp", "pp", "dp", "ep")}
        tiers = {"host_cache_gib": 50.0, "disk_cache_gib": 100.0}
        one = served(deployed(ask("serve", {"model": MODEL, **load, **each, **tiers})))
        assert row["ttft_s"] == pytest.approx(float(one.ttft_s[0]), rel=1e-9)
        assert row["tpot_s"] == pytest.approx(float(one.tpot_s[0]), rel=1e-9)


def test_a_larger_host_cache_makes_no_first_token_of_a_deployment_later():
    few, many = (priced(host_cache_gib=size).columns["ttft_s"] for size in (20.0, 400.0))
    assert (many <= few * (1.0 + 1e-9)).all() and (many < few).any()


def test_a_recommended_deployment_is_simulated_with_its_tiers_while_its_sessions_last():
    small = {"rate": 0.5, "isl": 2000, "devices": "1:1", "tp": "1", "pools": "aggregated"}
    question = asked(MODEL, **SESSIONS | small, host_cache_gib=50.0)
    found = percentiles.simulate(search.search(question).candidates, 0, question)
    assert found.sustained and found.requests > 200
    e2e_s = found.means["e2e_s"]
    assert percentiles._lifetime_s(question.question, e2e_s) == pytest.approx(5 * e2e_s + 240.0)


def test_a_deployment_of_users_who_pause_is_priced_as_serve_prices_and_simulate_serves_it():
    load = {"isl": 1024, "turns": 3, "think_s": 10.0, "think_spread": 0.5, "concurrency": 100}
    small = {**load, "rate": None, "devices": "1:1", "tp": "1", "pools": "aggregated"}
    question = asked(MODEL, **SESSIONS | small)
    candidates = search.search(question).candidates
    row = candidates.row(0)
    one = served(deployed(ask("serve", {
        "model": MODEL, "system": "h100", "engine": "vllm", "osl": 200, **load
    })))  # fmt: skip
    assert row["max_num_seqs"] >= 100
    assert row["tpot_s"] == pytest.approx(float(one.tpot_s[0]), rel=1e-9)
    found = percentiles.simulate(candidates, 0, question)
    assert row["ttft_s"] == pytest.approx(found.means["ttft_s"], rel=0.15)
    assert row["tpot_s"] == pytest.approx(found.means["tpot_s"], rel=0.10)


def test_prompts_read_elsewhere_are_priced_as_serve_prices_them_where_users_pause():
    load = {"isl": 1024, "turns": 3, "think_s": 10.0, "think_spread": 0.5, "concurrency": 100}
    small = {**load, "rate": None, "devices": "2:2", "tp": "1", "pools": "disaggregated"}
    candidates = search.search(asked(MODEL, **SESSIONS | small)).candidates
    row = candidates.row(0)
    one = served(deployed(ask("serve", {
        "model": MODEL, "system": "h100", "engine": "vllm", "osl": 200, "prefill_workers": 1, **load
    })))  # fmt: skip
    assert row["output_tokens_per_s"] == pytest.approx(float(one.output_tokens_per_s[0]), rel=0.03)
    assert row["tpot_s"] == pytest.approx(float(one.tpot_s[0]), rel=0.03)


def test_workers_that_read_prompts_are_left_out_with_the_reason():
    found = plan(MODEL, **SESSIONS | {"devices": "4:4"}, host_cache_gib=50.0).to_dict()
    assert any("cache tiers of prefill workers" in one["why"] for one in found["left_out"])
    assert {one["kind"] for one in found["plans"]} == {"aggregated"}


REFUSED = {
    "remote_cache_gib is not modelled by plan": {"remote_cache_gib": 10.0},
    "host_cache_gib has no effect unless prefixes are reused": {"turns": 1, "think_s": 0.0},
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_a_plan_does_not_model_is_refused_by_name(words: str):
    given = SESSIONS | {"devices": "4:4", "host_cache_gib": 50.0} | REFUSED[words]
    with pytest.raises(InvalidValue, match=words):
        plan(MODEL, **given)


def test_a_trace_is_for_a_simulation():
    with pytest.raises(InvalidValue, match="a plan models cache tiers only for sessions"):
        plan(MODEL, system="h100", engine="vllm", trace="mooncake_conversation",
             host_cache_gib=50.0, devices="4:4")  # fmt: skip

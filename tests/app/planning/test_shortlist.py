"""A candidate that misses a target in simulation, or is overloaded there, is not a plan."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from app.planning import shortlist as module
from app.planning.answer import answer
from app.planning.changes import changes
from app.planning.document import document
from app.planning.percentiles import Simulated
from app.planning.search import search
from app.planning.shortlist import shortlist
from tests.app.planning.asking import asked as ask
from tests.app.planning.asking import plan

MODEL = "Qwen/Qwen3-32B"
FIGURES = ("ttft_s", "tpot_s", "e2e_s")


def asked(target="tpot < 40ms", load=None, **more):
    named = {"system": "h200", "engine": "vllm", "devices": "1:8", "pools": "aggregated", **more}
    return ask(MODEL, **named, **(load or {"rate": 4.0}), target=target)


def pretend(monkeypatch, factor, sustained=lambda row, draw: True):
    """Simulations that take `factor(row, draw)` times the closed form's value; returns
    the calls.
    """
    calls = []

    def simulate(candidates, at, asked, draw=0, times=1):
        row = candidates.row(at)
        by = factor(row, draw)
        calls.append((at, draw))
        figures = {n: v * by for n, v in row.items() if n.split("_")[0] + "_s" in FIGURES}
        figures = {name: value for name, value in figures.items() if name.endswith("_s")}
        means = {name: row[name] * by for name in FIGURES}
        return Simulated(figures, means, 400, 1.0, sustained(row, draw))

    monkeypatch.setattr(module, "simulate", simulate)
    return calls


def test_a_mean_that_misses_its_target_when_simulated_is_no_plan(monkeypatch):
    found = search(asked())
    assert len(found.order) > 3
    use = found.candidates.columns["utilisation"]
    limit = float(np.median(use[found.order]))
    calls = pretend(monkeypatch, lambda row, draw: 100.0 if row["utilisation"] >= limit else 1.0)
    short = shortlist(found)
    assert short.plans and short.rejected
    assert all(use[one.at] < limit for one in short.plans)
    tried = [use[at] for at, _ in calls if use[at] >= limit]
    # a candidate with more load than one that failed is not tried
    assert tried == sorted(tried, reverse=True)
    pretend(monkeypatch, lambda row, draw: 100.0)
    none = answer(asked(), with_changes=False)
    assert not none.short.plans
    assert all(one.value > 0.04 for one in changes(replace(found, candidates=none.short.candidates))
               if one.what == "target")  # fmt: skip
    named = document(none)
    assert named["rejected_by_simulation"] >= len(none.short.rejected)
    assert named["fewest_devices"] is None


def test_what_is_recommended_meets_its_targets_with_arrivals_that_did_not_choose_it(monkeypatch):
    found = search(asked())
    first = found.candidates.row(int(found.order[0]))["tpot_s"]
    calls = pretend(
        monkeypatch, lambda row, draw: 1.0 + 100.0 * (draw > 0 and row["tpot_s"] == first)
    )
    short = shortlist(found)
    assert short.plans and set(short.rejected) == {int(found.order[0])}
    for one in short.plans:
        assert (one.at, 0) in calls and (one.at, 1) in calls


def test_figures_of_a_plan_are_simulated_and_throughput_follows_by_littles_law(monkeypatch):
    found = search(asked("tpot < 80ms", {"concurrency": 32}))
    pretend(monkeypatch, lambda row, draw: 1.25)
    short = shortlist(found)
    assert short.plans
    for one in short.plans:
        before, after = found.candidates.row(one.at), short.candidates.row(one.at)
        for name in (*FIGURES, "usd_per_mtok"):
            assert after[name] == pytest.approx(1.25 * before[name])
        for name in ("interactivity", "requests_per_s", "output_tokens_per_s_per_device"):
            assert after[name] == pytest.approx(before[name] / 1.25)


def test_plans_stand_in_the_order_of_their_simulated_figures(monkeypatch):
    found = search(asked("tpot < 200ms", {"concurrency": 32}, top=4))
    first = int(found.order[0])
    slow = found.candidates.row(first)["tpot_s"]
    pretend(monkeypatch, lambda row, draw: 3.0 if row["tpot_s"] == slow else 1.0)
    short = shortlist(found)
    costs = [short.candidates.row(one.at)["usd_per_mtok"] for one in short.plans]
    assert costs == sorted(costs) and short.plans[0].at != first


def test_what_does_not_sustain_the_load_when_simulated_is_overloaded(monkeypatch):
    found = search(asked(""))
    use = found.candidates.columns["utilisation"]
    limit = float(np.median(use[found.order]))
    calls = pretend(monkeypatch, lambda row, draw: 1.0, lambda row, _: row["utilisation"] < limit)
    short = shortlist(found)
    assert short.plans and all(use[one.at] < limit for one in short.plans)
    tried = [use[at] for at, _ in calls if use[at] >= limit]
    assert tried == sorted(tried, reverse=True)  # nothing with more load than a failed one is tried
    assert {short.candidates.status[at] for at in short.rejected} == {"overloaded"}


def test_a_rate_beyond_what_the_simulation_sustains_is_never_recommended():
    """Whatever the closed form predicts where prompts take more time than decode steps leave."""
    for rate in (2.0, 4.0):
        planned = plan(
            "mistralai/Mixtral-8x7B-Instruct-v0.1", system="l40s", engine="sglang", isl=1547,
            osl=69, rate=rate, target="tpot < 200ms", devices=8, tp=8, pools="aggregated",
        )  # fmt: skip
        for row in planned.rows:
            assert row["simulated_tpot_s"] <= row["tpot_s"] < 0.2
            assert row["tpot_s"] < row["tpot_p95_s"]

"""Answers of one token: no gap between tokens, so no TPOT and no target on it to miss."""

from __future__ import annotations

import numpy as np
import pytest
import ridgeline

from app.planning.targets import judged, parse_targets
from tests.app.planning import asking

MODEL = "llama-3.1-8b"
LOAD = {"system": "h100", "isl": 8000, "osl": 1}
POOLS = {"prefill_system": "h100", "prefill_workers": 1}
LOADS = [{"concurrency": 2000}, {"concurrency": 1}, {"rate": 2.0}, {"concurrency": 64, **POOLS}]


@pytest.mark.parametrize("load", LOADS, ids=["saturated", "one user", "open", "pools"])
def test_an_answer_of_one_token_has_no_time_between_tokens(load):
    found = ridgeline.serve(MODEL, **LOAD, **load)
    assert found.status == "ok"
    for name in ("tpot_s", "tpot_low_s", "tpot_high_s", "bound_tpot_s", "interactivity"):
        assert np.isnan(getattr(found, name)), name
    assert found.e2e_s == found.ttft_s > 0.0


def test_a_static_batch_of_one_output_token_has_no_tpot():
    found = ridgeline.estimate(MODEL, **LOAD | {"osl": [1, 64]})
    for name in ("tpot_s", "tpot_low_s", "bound_tpot_s"):
        one, more = getattr(found, name)
        assert np.isnan(one) and more > 0.0, name
    for end in ("", "_low", "_high"):
        (first, _), (last, later) = (getattr(found, f"{n}{end}_s") for n in ("ttft", "e2e"))
        assert first == last < later


def test_its_interval_is_that_of_its_first_token():
    found = ridgeline.serve(MODEL, system="h100", isl=1000, osl=1, concurrency=20)
    assert (found.e2e_low_s, found.e2e_high_s) == (found.ttft_low_s, found.ttft_high_s)


def test_the_simulation_says_the_same():
    found = ridgeline.simulate(MODEL, **LOAD, concurrency=8, requests=20, tpot_target_s=1e-6)
    assert found.good_share == 1.0 and np.isnan(found.tpot_mean_s)


def test_a_target_on_time_between_tokens_is_met_by_all():
    load = {"systems": "h100", "isl": 800, "osl": 1, "concurrency": 64, "engine": "vllm",
            "devices": 2, "simulate": False}  # fmt: skip
    free = asking.plan(MODEL, **load, target="ttft < 3s")
    bound = asking.plan(MODEL, **load, target="ttft < 3s, tpot < 1us, interactivity > 1e6")
    assert [one["replicas"] for one in bound.rows] == [one["replicas"] for one in free.rows]
    assert bound.rows and bound.best["tpot_s"] is None
    assert any("all requests meet tpot" in note for note in bound.to_dict()["notes"])


def test_targets_on_gaps_are_judged_from_the_second_token_on():
    stated = parse_targets("ttft < 1s, tpot_p95 < 30ms, interactivity > 20, e2e < 2s")
    assert [one.figure.name for one in judged(stated, 1.0)] == ["ttft", "e2e"]
    assert judged(stated, 2.0) == stated


@pytest.mark.parametrize(
    ("load", "why"),
    [
        ({"isl": 800, "osl": 1}, "an output of one token needs no decode steps"),
        (
            {"isl": 800, "osl": 64, "devices": 1},
            "too few devices: a worker of each pool has to hold the model",
        ),
    ],
    ids=["one token", "one device"],
)
def test_a_disaggregated_plan_without_candidates_says_why(load, why):
    rest = {"systems": "h100", "concurrency": 8, "engine": "vllm", "devices": 2, "model": MODEL,
            "weights": "bf16", "simulate": False, "pools": "disaggregated"}  # fmt: skip
    said = asking.plan(**{**rest, **load}).to_dict()["others"]
    assert len(said) == 1 and said[0]["why"].startswith(why)

"""Drafts as an option of the search: compared with none, and chosen only where they pay off."""

from __future__ import annotations

import pytest

from app.planning.search import search
from genz_core.errors import InvalidValue
from tests.app.planning.asking import asked, plan

MODEL = "Qwen/Qwen3-32B"


def found(acceptance, users):
    return search(asked(
        MODEL, system="h100", engine="vllm", devices=4, tp=4, pp=1, pools="aggregated",
        speculation="none,ngram", draft_tokens=3, acceptance=acceptance, max_num_seqs=0,
        concurrency=users, rank="tpot", simulate=False,
    ))  # fmt: skip


def tpots(result):
    columns, candidates = result.candidates.columns, result.candidates
    return {
        candidates.of(at).speculation is not None: columns["tpot_s"][at]
        for at in range(len(candidates))
    }


def test_drafts_are_tried_beside_none_and_win_where_they_pay():
    result = found("0.9", 2)
    seconds = tpots(result)
    assert set(seconds) == {True, False}
    best = result.candidates.of(result.order[0])
    assert (best.speculation is not None) == (seconds[True] < seconds[False])
    assert seconds[True] < seconds[False]


def test_drafts_that_are_never_accepted_do_not_pay_and_more_users_gain_less():
    bad = tpots(found("0.01", 2))
    assert bad[True] >= bad[False]
    few, many = tpots(found("0.7", 2)), tpots(found("0.7", 400))
    assert few[True] / few[False] < many[True] / many[False]


def test_a_speculative_plan_is_started_with_its_drafts_and_not_validated():
    best = plan(
        MODEL, systems="h100", devices=4, tp=4, concurrency=2, engine="vllm", kind="aggregated",
        speculation="ngram", draft_tokens=3, acceptance="0.9", rank="tpot",
    ).best  # fmt: skip
    assert best["speculation"].startswith("ngram")
    assert best["probability"] > 0 and best["probability_validated"] is False
    assert '"num_speculative_tokens": 3' in best["launch"]
    assert best["simulated_tpot_s"] == pytest.approx(best["tpot_s"], rel=0.15)


def test_a_model_without_the_module_is_left_out_and_said_so():
    given = {"systems": "h100", "devices": 4, "rate": 2, "engine": "vllm", "kind": "aggregated"}
    planned = plan(MODEL, speculation="none,mtp", **given)
    assert planned.best["speculation"] is None
    assert any("mtp" in left["what"] for left in planned.to_dict()["left_out"])


def test_a_way_to_draft_that_is_stated_alone_is_the_only_one():
    """A plan without drafts is only tried if the question lists "none"."""
    given = {"systems": "h100", "devices": 4, "rate": 2, "engine": "vllm", "simulate": False}
    found = plan(MODEL, speculation="ngram", acceptance="0.5", **given)
    assert all(row["speculation"] for row in found.rows)
    with pytest.raises(InvalidValue, match="multi-token-prediction"):
        plan(MODEL, speculation="mtp", **given)

"""Contradictory or meaningless parameters are refused by name, with what to do instead."""

from __future__ import annotations

import pytest

from app.question.query import ask
from app.question.question import Question
from app.question.validity import drafts, has_pool, meaningless, refuse_contradictions
from app.question.verbs import NOT_OF_A_BATCH, NOT_UNDER_LOAD
from genz_core.errors import InvalidValue
from tests.app.question.samples import MODEL
from tests.rules import for_every

CONTRADICTIONS = [
    ({"acceptance": "0.8"}, "acceptance without speculation: choose"),
    ({"draft_tokens": 3}, "draft_tokens without speculation"),
    ({"speculation": "draft_model"}, "give its name as draft_model"),
    ({"speculation": "mtp", "draft_model": "x"}, "needs no draft model"),
    ({"prefix_hits": 0.5, "turns": 2}, "prefix_hits with a shared prompt or turns"),
    ({"samples": 2, "beams": 2}, "samples and beams cannot be combined"),
    ({"turns": 2, "samples": 2}, "every turn of a session has one answer"),
    ({"prefix_tier": "host"}, "needs cached prefixes: give prefix_hits or turns"),
    ({"think_s": 1.0}, "give turns above 1"),
    ({"burstiness": 0.5, "concurrency": 4}, "give a rate, or leave it out"),
    (
        {"rate": 1.0, "burstiness": 0.5, "ramp_to": 2.0, "ramp_s": 9.0},
        "give either burstiness or ramp_to",
    ),
    ({"rate": 1.0, "ramp_to": 2.0}, "a ramp needs both"),
    ({"length_ratio": 0.8, "length_spread": 0.5}, "draw lengths in different ways: give one"),
    ({"trace": "a.csv", "turns": 2}, "a trace has lengths and sessions of its own"),
    ({"burst_start": True, "rate": 1.0}, "give a concurrency"),
    ({"prefill_tp": 2}, "prefill_tp without a prefill pool"),
    (
        {"engine": "vllm 0.9", "engine_version": "0.10.0"},
        "the engine is named vllm 0.9 and engine_version = 0.10.0: leave out one",
    ),
    ({"lora_adapters": 4}, "lora_adapters = 4 without a rank"),
]


@pytest.mark.parametrize(("given", "words"), CONTRADICTIONS, ids=lambda value: str(value)[:40])
def test_a_contradiction_is_refused_with_what_to_leave_out(given, words: str):
    with pytest.raises(InvalidValue, match=words):
        refuse_contradictions(Question(**given))


@pytest.mark.parametrize(
    "given",
    [
        {}, {"speculation": "mtp", "draft_tokens": 0}, {"draft_tokens": 0},
        {"turns": 4, "think_s": 1},
        {"rate": 1, "ramp_to": 2, "ramp_s": 60}, {"prefill_system": "h200", "prefill_tp": 2},
        {"engine": "vllm 0.9", "engine_version": "0.9"},
        {"lora_rank": 8, "lora_adapters": 4}, {"concurrency": 4, "burst_start": True},
    ],
)  # fmt: skip
def test_compatible_parameters_are_accepted(given):
    refuse_contradictions(Question(**given))


def test_two_loads_are_no_question():
    with pytest.raises(InvalidValue, match="not concurrency and rate"):
        Question(concurrency=4, rate=1)


@for_every([n for n in NOT_OF_A_BATCH if n != "burst_start"])
def test_what_only_a_load_has_means_nothing_to_a_static_batch(name: str):
    others = {"prefix_tier": "host", "prefix_hits": 0.5, "step_scale": 0.5, "layer_wise": True,
              "prefill_system": "h200", "prefill_weights": "fp8",
              "cache_writes": "back"}  # fmt: skip
    value = others.get(name, 2)
    said = list(meaningless(Question(**{name: value})))
    way = "give a concurrency or a rate, or leave it out"
    assert said[-1] == f"{name} does not apply to a static batch: {way}"
    assert not list(meaningless(Question(concurrency=4, **{name: value})))


@pytest.mark.parametrize("name", NOT_UNDER_LOAD)
def test_what_only_a_static_batch_has_means_nothing_to_a_load(name: str):
    value = {"sequence_parallel": True, "placement": "tp pp"}.get(name, 2)
    (said,) = meaningless(Question(concurrency=4, **{name: value}))
    assert said == f"{name} does not apply to a load: leave it out"
    assert not list(meaningless(Question(**{name: value})))


def test_several_values_are_refused_as_one_is():
    given = {"model": MODEL, "batch": 4, "stream_interval": [1, 1]}
    with pytest.raises(InvalidValue, match="stream_interval does not apply to a static batch"):
        ask("estimate", given)
    assert ask("estimate", given, strict=False).arrays


def test_the_lengths_of_a_trace_are_its_own():
    for name in ("isl", "osl"):
        with pytest.raises(InvalidValue, match=f"{name} does not apply to a trace"):
            ask("simulate", {"model": MODEL, "trace": "a.csv", name: 300})


def test_requests_are_those_of_a_burst_or_of_a_simulation():
    given = {"model": MODEL, "concurrency": 4, "requests": 40}
    with pytest.raises(InvalidValue, match="requests does not apply to a steady load"):
        ask("serve", given)
    assert ask("serve", {**given, "burst_start": True}).question.requests == 40
    assert ask("simulate", given).question.requests == 40


def test_a_pool_and_drafts_are_told_by_what_makes_them():
    assert has_pool(Question(prefill_workers=1)) and not has_pool(Question(prefill_tp=2))
    assert drafts(Question(speculation="mtp")) and not drafts(
        Question(speculation="mtp", draft_tokens=0)
    )

"""A static batch above what an engine's server runs at a time by default says so."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.question.question import Question
from app.scenario.scenario import estimate_resolved, resolve
from app.scenario.summary import facts

BASE = Question(model="Qwen/Qwen3-0.6B", isl=32, osl=8, engine="vllm")


def message(question: Question) -> str:
    resolved = resolve(question)
    [row] = facts(resolved, estimate_resolved(resolved)).rows()
    return str(row["message"])


@pytest.mark.parametrize(
    ("given", "most"),
    [
        ({"batch": 1025}, "1,024"),
        ({"batch": 257, "system": "a100-sxm4-80gb"}, "256"),
        ({"batch": 2049, "engine": "trtllm"}, "2,048"),
        ({"batch": 2052, "dp": 2}, "1,024"),
    ],
)
def test_a_batch_above_the_servers_default_names_it_and_the_limit_to_set(given, most):
    said = message(replace(BASE, **given))
    engine, on_rank = given.get("engine", "vllm"), given["batch"] // given.get("dp", 1)
    assert f"a server of {engine} runs at most {most} sequences a rank by default" in said
    assert f"start it with max_num_seqs {on_rank:,}" in said


@pytest.mark.parametrize(
    "given", [{"batch": 1024}, {"batch": 2048, "dp": 2}, {"batch": 4096, "engine": "generic"}]
)
def test_a_batch_within_it_or_under_an_assumed_default_says_nothing(given):
    assert "runs at most" not in message(replace(BASE, **given))

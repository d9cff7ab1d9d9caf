"""Needed hardware: the least of a resource is never more than what suffices."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest

from app.decide.needed_hardware import requirement
from app.planning.targets import parse_targets
from app.question.question import Question
from app.scenario.scenario import resolve
from tests import draws

#: Factor of each resource that has a least amount.
FACTORS = {
    "capacity_bytes": "capacity",
    "bytes_per_s": "bandwidth",
    "flops_per_s": "peak",
    "link_bytes_per_s": "link",
}
MODELS = (("Qwen/Qwen3-32B", (1, 2, 4)), ("openai/gpt-oss-120b", (2, 4)), ("Qwen/Qwen3-8B", (1,)))
LOADS = ({"batch": 64}, {"concurrency": 8}, {"concurrency": 256}, {"rate": 1}, {"rate": 10})
OPTIONS = (
    {}, {"replicas": 2}, {"length_ratio": 0.3}, {"prefill_workers": 1}, {"prefix_hits": 0.5},
    {"speculation": "ngram"},
)  # fmt: skip
TARGETS = ("ttft < 300ms", "tpot < 20ms", "ttft < 1s, tpot < 10ms", "ttft < 100ms, tpot < 50ms")


def drawn(number: int) -> tuple[dict[str, Any], str]:
    any_of = random.Random(draws.seed(7) * 10_000 + number)
    model, degrees = any_of.choice(MODELS)
    load = any_of.choice(LOADS)
    question = {
        "model": model,
        "tp": any_of.choice(degrees),
        "system": any_of.choice(["h100", "b200", "mi300x"]),
        "engine": any_of.choice(["vllm", "sglang", "generic"]),
        "isl": any_of.choice([128, 1024, 9000]),
        "osl": any_of.choice([16, 256, 1000]),
        **load,
        **({} if "batch" in load else any_of.choice(OPTIONS)),
    }
    return question, any_of.choice(TARGETS)


def crossed(question: dict[str, Any], targets: str) -> dict[str, float]:
    """{resource: least over sufficient amount}, where the least is more."""
    need = requirement(resolve(Question(**question)), parse_targets(targets))
    over = {}
    for name, resource in FACTORS.items():
        sufficient = [need.factors[one] for one in (resource, "together") if need.factors[one]]
        ratio = need.least[name] / need.has[name]
        if sufficient and math.isfinite(ratio) and ratio > min(sufficient) * (1.0 + 1e-6):
            over[name] = ratio / min(sufficient)
    return over


@pytest.mark.draws
@pytest.mark.parametrize("number", range(draws.cases(24)))
def test_the_least_never_exceeds_what_suffices(number: int):
    assert crossed(*drawn(number)) == {}


@pytest.mark.parametrize(
    ("question", "targets"),
    [
        # prompts of all open requests were counted in one first token
        ({"model": "openai/gpt-oss-120b", "tp": 2, "system": "a100", "rate": 10}, "ttft < 100ms"),
        # at a rate a faster device runs fewer sequences at once
        ({"model": "Qwen/Qwen3-8B", "rate": 10, "osl": 1000}, "ttft < 100ms, tpot < 5ms"),
        # the memory that an engine takes for a larger device is no need
        ({"model": "Qwen/Qwen3-8B", "engine": "vllm", "tp": 2, "system": "b200", "weights": "fp8",
          "isl": 9000, "osl": 16}, "ttft < 1s"),
    ],
)  # fmt: skip
def test_causes_of_a_least_above_what_suffices(question: dict[str, Any], targets: str):
    assert crossed(question, targets) == {}


def test_what_suffices_serves_the_load():
    """A queue without bound leaves TPOT finite, so a target on it alone does not show it."""
    overloaded = resolve(Question(model="Qwen/Qwen3-32B", tp=2, engine="vllm", rate=40))
    need = requirement(overloaded, parse_targets("tpot < 1s"))
    assert need.factors["together"] is None or need.factors["together"] > 1.0

"""Boards of one family keep their order: as much of everything is never slower."""

import random

import numpy as np
import pytest
import ridgeline

import hardware_db
from tests import draws
from tests.rules import for_every

MODELS = (
    "meta-llama/Llama-3.1-8B",
    "meta-llama/Llama-3.2-1B",
    "Qwen/Qwen3-4B",
    "Qwen/Qwen3-30B-A3B",
)
SAME_DEVICE = [
    (slug, record.device_of)
    for slug in hardware_db.names()
    if (record := hardware_db.facts(slug)).device_of
]


def questions(number: int):
    """Random questions of one device, within one chunk of every server at its defaults."""
    random.seed(draws.seed(4))
    for _ in range(draws.cases(number)):
        isl = random.choice((128, 500, 1900))
        yield (
            random.choice(MODELS),
            {
                "engine": random.choice(("generic", "vllm", "sglang", "trtllm", "llama.cpp")),
                "weights": random.choice(("bf16", "fp8", "int4")),
                "isl": isl,
                "osl": 128,
                "batch": random.choice((1, 1900 // isl)),
            },
        )


def times(system: str, model: str, question: dict) -> np.ndarray:
    """TTFT and TPOT of one device [s]."""
    answer = ridgeline.estimate(model, system=system, **question)
    return np.array([answer.ttft_s, answer.tpot_s])


@pytest.mark.draws
@for_every(SAME_DEVICE)
def test_systems_with_the_same_device_answer_alike_on_one_device(system, other):
    for model, question in questions(12):
        assert times(system, model, question) == pytest.approx(times(other, model, question))

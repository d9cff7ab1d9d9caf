"""Boards of one family keep their order: as much of everything is never slower."""

import itertools
from random import Random

import numpy as np
import pytest
import ridgeline

import hardware_db
from genz_core.errors import OutOfMemory
from hardware_db.profiles import measured_profiles
from hardware_db.profiles.siblings import has_at_least
from tests import draws
from tests.rules import for_every

MODELS = (
    "meta-llama/Llama-3.1-8B",
    "meta-llama/Llama-3.2-1B",
    "Qwen/Qwen3-4B",
    "Qwen/Qwen3-30B-A3B",
)
SYSTEMS = {slug: hardware_db.facts(slug).system() for slug in hardware_db.names()}
MEASURED = {slug for profile in measured_profiles() for slug in profile.systems}
#: (more, less) of one family, not both measured: measured boards answer as they were measured.
IN_ORDER = [
    (more.slug, less.slug)
    for more, less in itertools.permutations(SYSTEMS.values(), 2)
    if more.family == less.family and has_at_least(more, less)
    if not {more.slug, less.slug} <= MEASURED
]
SAME_DEVICE = [(slug, system.device_of) for slug, system in SYSTEMS.items() if system.device_of]


def questions(number: int, *engines: str):
    """Random questions of one device, within one chunk of every server at its defaults."""
    random = Random(draws.seed(4))
    for _ in range(draws.cases(number)):
        isl = random.choice((128, 500, 1900))
        yield (
            random.choice(MODELS),
            {
                "engine": random.choice(engines),
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
    for model, question in questions(12, "generic", "vllm", "sglang", "trtllm"):
        assert times(system, model, question) == pytest.approx(times(other, model, question))


@pytest.mark.draws
def test_a_board_with_at_least_as_much_of_everything_is_never_slower():
    """By the hardware alone: other engines have corrections that were measured on single boards."""
    random = Random(draws.seed(7))
    slower = []
    for model, question in questions(200, "generic"):
        more, less = random.choice(IN_ORDER)
        try:
            ahead, behind = times(more, model, question), times(less, model, question)
        except OutOfMemory:
            continue
        if np.any(ahead > 1.01 * behind):
            slower.append((more, less, model, question, ahead / behind))
    assert not slower

"""Drafts in closed form: steps of an answer, and the simulator beside it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hardware_db
from genz_core.acceptance import Acceptance, expected_steps
from genz_core.engine import EngineProfile
from genz_core.serving.simulation import Requests, simulate
from genz_core.serving.speculation import speculate
from genz_core.types import Parallelism
from model_registry.drafts import speculation
from tests.model_registry.shared_models import built

shares = st.lists(st.floats(0.0, 1.0), min_size=1, max_size=7)


def acceptance_of(values) -> Acceptance:
    return Acceptance(tuple(sorted(values, reverse=True)))


# ------------------------------------------------------------------------------- steps


@given(shares)
def test_one_token_takes_a_step_and_none_takes_none(values):
    steps = expected_steps(np.array([0.0, 1.0]), acceptance_of(values))
    assert steps == pytest.approx([0.0, 1.0])


@given(shares, st.integers(1, 2000))
def test_steps_lie_between_full_drafts_and_one_a_token(values, tokens):
    acceptance = acceptance_of(values)
    steps = float(expected_steps(tokens, acceptance))
    assert tokens / (1 + acceptance.draft_tokens) - 1e-9 <= steps <= tokens + 1e-9
    assert steps >= tokens / acceptance.tokens_per_step - 1e-9


@given(shares)
def test_steps_rise_with_tokens_and_meet_their_limit_smoothly(values):
    acceptance = acceptance_of(values)
    steps = expected_steps(np.arange(300.0), acceptance)
    assert np.all(np.diff(steps) >= -1e-3)
    late = np.diff(steps[200:])
    assert late == pytest.approx(np.full_like(late, 1 / acceptance.tokens_per_step), abs=1e-3)


# ------------------------------------------------------------------------------- the simulator


@dataclass(frozen=True)
class Case:
    """A deployment whose decode is simulated and computed."""

    model: str
    system: str
    degrees: dict[str, int]
    method: str
    tokens: int
    users: int


CASES = [
    Case("meta-llama/Llama-3.1-8B", "h100", {}, "eagle", 3, 1),
    Case("meta-llama/Llama-3.1-8B", "h100", {}, "ngram", 4, 32),
    Case("meta-llama/Llama-3.1-70B", "h200", {"tp": 4}, "eagle", 5, 16),
    Case("deepseek-ai/DeepSeek-V3", "h200", {"tp": 8, "ep": 8}, "mtp", 1, 64),
    Case("deepseek-ai/DeepSeek-V3", "b200", {"dp": 8, "ep": 8}, "mtp", 3, 128),
    Case("Qwen/Qwen3-30B-A3B", "h100", {}, "eagle", 2, 8),
]


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c.model}, {c.method} {c.tokens}")
def test_the_closed_form_is_the_simulator_without_prompts(case):
    """Prompts of 16 tokens and long answers: steps of users that decode, and little else."""
    target, system, par = (
        built(case.model),
        hardware_db.load(case.system),
        Parallelism(**case.degrees),
    )
    drafts = speculation(target, case.method, Acceptance.of_rate(0.75, case.tokens))
    count, osl = 2 * case.users, 400
    load = Requests(np.zeros(count), np.full(count, 16.0), np.full(count, float(osl)))
    engine = EngineProfile()
    run = simulate(
        target, system, load, par, engine, concurrency=case.users, speculation=drafts
    ).summary()
    closed = speculate(target, drafts, system, float(case.users), 16 + osl / 2, par, engine)
    steps = float(expected_steps(osl - 1.0, drafts.acceptance))
    assert closed.step_s[0] * steps / (osl - 1) == pytest.approx(run["tpot_mean_s"], rel=0.1)
    assert closed.tpot_s[0] == pytest.approx(run["tpot_mean_s"], rel=0.1)


def test_a_speed_up_is_tokens_over_the_cost_of_a_step():
    target, system = built("meta-llama/Llama-3.1-70B"), hardware_db.load("h200")
    drafts = speculation(target, "eagle", Acceptance.of_rate(0.75, 3))
    closed = speculate(target, drafts, system, np.array([1.0, 512.0]), 1000.0, Parallelism(tp=4))
    assert closed.speedup == pytest.approx(
        closed.plain_step_s / closed.step_s * drafts.acceptance.tokens_per_step
    )
    assert closed.speedup[0] > 2.0 > closed.speedup[1]

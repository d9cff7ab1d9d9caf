"""Drafts in closed form: the steps of an answer, compared with the simulator."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hardware_db
from genz_core import decode, decode_step, estimate, serve
from genz_core.engine import EngineProfile
from genz_core.models.acceptance import Acceptance, expected_steps
from genz_core.models.speculative import Method, SpeculativeModel
from genz_core.serving import Traffic
from genz_core.serving.simulation import Requests, simulate
from genz_core.serving.simulation.draws import uniform_lengths
from genz_core.types import Parallelism, Workload
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
    """A deployment whose decode is simulated and computed in closed form."""

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
    """Prompts of 16 tokens and long answers: nearly all steps are decode steps."""
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
    drafting, sizes = SpeculativeModel(target, drafts), (float(case.users), 16 + osl / 2)
    step_s = decode_step(drafting, system, *sizes, par, engine).total_s[0]
    steps = float(expected_steps(osl - 1.0, drafts.acceptance))
    assert step_s * steps / (osl - 1) == pytest.approx(run["tpot_mean_s"], rel=0.1)
    assert step_s / drafts.acceptance.tokens_per_step == pytest.approx(run["tpot_mean_s"], rel=0.1)


# ------------------------------------------------------------------------------- under load


@dataclass(frozen=True)
class Load:
    """A deployment under a closed loop whose drafts are accepted with one probability."""

    model: str
    method: Method
    tokens: int
    users: int
    isl: int
    osl: int
    tp: int = 8
    pp: int = 1
    system: str = "h200-sxm-141gb"

    @property
    def parallelism(self) -> Parallelism:
        return Parallelism(tp=self.tp, pp=self.pp)

    @property
    def objects(self):
        drafts = speculation(built(self.model), self.method, Acceptance.of_rate(0.7, self.tokens))
        engine = replace(hardware_db.load_engine("vllm"), measurements=None)
        return drafts, hardware_db.load(self.system), engine

    def served(self, **traffic):
        drafts, system, engine = self.objects
        model = SpeculativeModel(built(self.model), drafts)
        load = Traffic(self.isl, self.osl, **({"concurrency": self.users} | traffic))
        return serve(model, system, load, self.parallelism, engine)

    def simulated(self):
        drafts, system, engine = self.objects
        count = max(10 * self.users, 100)
        generator = np.random.default_rng(0)
        lengths = (uniform_lengths(count, size, 0.5, generator) for size in (self.isl, self.osl))
        requests = Requests(np.zeros(count), *lengths)
        return simulate(
            built(self.model), system, requests, self.parallelism, engine,
            concurrency=self.users, speculation=drafts,
        )  # fmt: skip


LOADS = (
    Load("meta-llama/Llama-3.1-70B", "ngram", 3, 32, 2048, 256),
    Load("deepseek-ai/DeepSeek-V3", "mtp", 2, 12, 1024, 300),
    Load("Qwen/Qwen3-30B-A3B", "ngram", 4, 48, 700, 500, 2),
    Load("meta-llama/Llama-3.1-8B", "ngram", 2, 8, 512, 128, 1, 2),
)


@pytest.mark.parametrize("load", LOADS, ids=str)
def test_the_closed_form_shadows_the_simulation_of_drafts(load: Load):
    closed, run = load.served(length_ratio=0.5), load.simulated()
    steady = slice(len(run.ttft_s) // 4, -load.users)
    assert closed.tpot_s[0] == pytest.approx(np.nanmean(run.tpot_s[steady]), rel=0.1)
    assert closed.ttft_s[0] == pytest.approx(np.mean(run.ttft_s[steady]), rel=0.2)


@pytest.mark.parametrize("load", LOADS, ids=str)
def test_tokens_come_no_faster_than_steps_whose_drafts_are_all_kept(load: Load):
    served = load.served(concurrency=np.array([1.0, 4.0, load.users]))
    assert np.all(served.tpot_s >= served.bound_decode_step_s)
    plain = serve(
        built(load.model), load.objects[1], Traffic(load.isl, load.osl, served.running),
        load.parallelism, load.objects[2],
    )  # fmt: skip
    assert np.all(served.tpot_s > plain.tpot_s / (1 + load.tokens))
    assert np.all(np.diff(served.tpot_s) > 0)


def test_loads_with_drafts_cost_the_same_side_by_side_and_alone():
    load, users = LOADS[1], np.array([1.0, 7.0, 40.0])
    together = load.served(concurrency=users)
    for at, each in enumerate(users):
        alone = load.served(concurrency=each)
        assert together.tpot_s[at] == pytest.approx(alone.tpot_s[0], rel=1e-9)
        assert together.ttft_s[at] == pytest.approx(alone.ttft_s[0], rel=1e-9)


def test_a_static_batch_with_drafts_takes_the_steps_of_its_answer():
    load = LOADS[0]
    drafts, system, engine = load.objects
    model = SpeculativeModel(built(load.model), drafts)
    answer = estimate(model, system, Workload(4, 1000, 200), load.parallelism, engine)
    step = decode(model, system, Workload(4, 1000, 200), load.parallelism, engine).total_s
    steps = expected_steps(199, drafts.acceptance)
    assert answer.e2e_s == pytest.approx(answer.ttft_s + steps * step)

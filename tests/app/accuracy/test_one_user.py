"""One user served, one request simulated and a static batch of one are priced alike."""

from __future__ import annotations

from dataclasses import replace

import pytest
from ridgeline import serve

import hardware_db
import model_registry
from app.question.question import Question
from app.scenario.scenario import Resolved, combined, estimate_resolved, resolve
from app.scenario.served_rows import served
from app.simulation.run import run
from genz_core.phases import decode, prefill
from genz_core.types import Workload

MODELS = {
    "meta-llama/Llama-3.1-8B": 2, "Qwen/Qwen3-32B": 2, "openai/gpt-oss-120b": 2,
    "deepseek-ai/DeepSeek-V3": 8,
}  # fmt: skip


#: A simulation without random differences between steps.
NO_CHANCE = {"step_jitter": 0.0, "delivery_jitter": 0.0}


def alone(model: str, engine: str, osl: int) -> Resolved:
    """A single user of a deployment, without the engine's measured corrections."""
    question = Question(
        model=model, system="h200-sxm-141gb", engine=engine, tp=MODELS[model], osl=osl,
        concurrency=1, length_ratio=1.0, requests=8,
    )  # fmt: skip
    plain = replace(hardware_db.load_engine(engine), measurements=None, **NO_CHANCE)
    loaded = model_registry.load(model), hardware_db.load(question.system)
    return combined(question, *loaded, engine=plain)


@pytest.mark.by_day(4)
@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm", "generic"])
@pytest.mark.parametrize("model", MODELS)
def test_one_user_is_priced_alike_however_it_is_asked(model: str, engine: str):
    asked = alone(model, engine, osl=200)
    load, simulated = served(asked), run(asked).simulation.summary()
    deployed = asked.model, asked.system
    split, sizes = asked.scenario.parallelism, Workload(1.0, 1024.0, 200.0)
    first = prefill(*deployed, Workload(1.0, 1024.0, 1.0), split, asked.engine).total_s
    step = decode(*deployed, sizes, split, asked.engine).total_s
    assert load.prefill_s[0] == pytest.approx(first[0], rel=0.01)
    assert load.tpot_s[0] == pytest.approx(step[0], rel=0.01)
    assert simulated["tpot_mean_s"] == pytest.approx(step[0], rel=0.01)
    assert simulated["ttft_mean_s"] == pytest.approx(load.ttft_s[0], rel=0.01)
    assert load.ttft_s[0] == pytest.approx(load.prefill_s[0] + load.wait_s[0])
    assert load.wait_s[0] == pytest.approx(asked.engine.intake_s(1024.0), rel=0.5)


@pytest.mark.by_day(4)
@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm", "generic"])
@pytest.mark.parametrize("model", MODELS)
def test_one_user_is_priced_alike_with_what_measured_runs_teach(model: str, engine: str):
    asked = replace(alone(model, engine, osl=200).scenario, batch=1)
    found = resolve(asked)
    found = replace(found, engine=replace(found.engine, **NO_CHANCE))
    load, simulated = served(found), run(found).simulation.summary()
    static = estimate_resolved(found)
    assert load.prefill_s[0] == pytest.approx(static.ttft_s[0], rel=0.01)
    assert load.tpot_s[0] == pytest.approx(static.tpot_s[0], rel=0.01)
    assert simulated["tpot_mean_s"] == pytest.approx(static.tpot_s[0], rel=0.01)
    assert simulated["ttft_mean_s"] == pytest.approx(load.ttft_s[0], rel=0.01)
    learned = found.engine.neighbours is not None
    assert (load.correction.steps[0] != 1.0) == learned


@pytest.mark.parametrize("overlap", ["shared_experts", "two_batch"])
@pytest.mark.parametrize("dp", [1, 8])
def test_work_beside_an_exchange_is_hidden_under_load_as_in_a_batch(overlap: str, dp: int):
    asked = alone("deepseek-ai/DeepSeek-V3", "sglang", osl=200)
    split = {"tp": 8 // dp, "dp": dp, "ep": 8, "overlap": overlap}
    found = replace(asked, scenario=replace(asked.scenario, **split))
    load, simulated = served(found), run(found).simulation.summary()
    deployed = found.model, found.system, Workload(1.0, 1024.0, 200.0)
    step = decode(*deployed, found.scenario.parallelism, found.engine).total_s
    assert load.tpot_s[0] == pytest.approx(step[0], rel=0.01)
    assert simulated["tpot_mean_s"] == pytest.approx(step[0], rel=0.01)
    busy = replace(found, scenario=replace(found.scenario, concurrency=2048, requests=4096))
    serial = replace(busy, scenario=replace(busy.scenario, overlap="none"))
    faster = served(serial).tpot_s[0] / served(busy).tpot_s[0]
    simulated_faster = (
        run(serial).simulation.summary()["tpot_mean_s"]
        / run(busy).simulation.summary()["tpot_mean_s"]
    )
    assert faster == pytest.approx(simulated_faster, rel=0.02)


@pytest.mark.parametrize("users", [1, 4])
def test_experts_see_the_tokens_that_users_fewer_than_ranks_send(users: int):
    """Sixteen data-parallel ranks route the tokens of the users that there are, not one each."""
    asked = alone("deepseek-ai/DeepSeek-V3", "vllm", osl=200)
    wide = replace(asked.scenario, tp=1, dp=16, ep=16, concurrency=users)
    found = replace(asked, scenario=wide)
    deployed, sizes = (asked.model, asked.system), Workload(float(users), 1024.0, 200.0)
    step = decode(*deployed, sizes, wide.parallelism, asked.engine).total_s
    assert served(found).tpot_s[0] == pytest.approx(step[0], rel=0.01 if users == 1 else 0.1)


@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm"])
def test_what_runs_teach_of_a_first_token_does_not_depend_on_the_length_of_the_answer(engine):
    short, long = (
        served(resolve(alone("Qwen/Qwen3-32B", engine, osl).scenario)).ttft_s[0]
        for osl in (16, 512)
    )
    assert short == pytest.approx(long, rel=1e-3)


@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm", "generic"])
def test_the_first_token_of_one_user_does_not_depend_on_the_length_of_the_answer(engine: str):
    short, long = (served(alone("Qwen/Qwen3-32B", engine, osl)).ttft_s[0] for osl in (16, 512))
    assert short == pytest.approx(long, rel=1e-6)


def test_one_user_of_an_engine_without_intake_does_not_wait_at_all():
    """The difference of two equal times was -1.4e-17 s, and shown."""
    table = serve(
        "llama-3.1-8b", system="rtx-4090", engine="llama.cpp", concurrency=1,
        isl=list(range(100, 2000, 50)),  # in one step
    )  # fmt: skip
    assert {row["wait_s"] for row in table.rows} == {0.0}

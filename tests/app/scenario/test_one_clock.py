"""Operators, causes, advice and intervals of one estimate agree with each other."""

import math
from dataclasses import replace

import numpy as np
import pytest

from app.dashboard import caches
from app.question.question import Question
from app.scenario import intervals, operator_intervals, served_rows
from app.scenario.scenario import estimate_resolved, resolve
from app.scenario.setup import Setup
from app.scenario.summary import parts_of, step_of
from app.wording import quantities

SCENARIOS = (
    Question(model="openai/gpt-oss-120b", system="h200", batch=64, isl=1024, osl=1024),
    Question(model="openai/gpt-oss-120b", system="h200", engine="vllm", batch=64, osl=1024),
    Question(model="meta-llama/Llama-3.1-70B", engine="trtllm", weights="fp8", tp=4, batch=32),
    Question(model="meta-llama/Llama-3.1-8B", engine="vllm", pp=2, batch=8, osl=512),
    Question(
        model="deepseek-ai/DeepSeek-V3", system="h200", engine="sglang", tp=8, ep=8, batch=128
    ),
)


def named(scenario: Question) -> str:
    return f"{scenario.model.split('/')[1]}-{scenario.engine}"


@pytest.mark.parametrize("scenario", SCENARIOS, ids=named)
@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_operators_host_and_pipeline_sum_to_the_step_and_so_do_the_causes(scenario, phase: str):
    step = step_of(estimate_resolved(resolve(scenario)), phase)
    operators = sum(operator_intervals.operator_table(step)["predicted_s"])
    rest = float(step.host_s[0] + step.pipeline_s[0] + step.learned_s[0])
    assert operators + rest == pytest.approx(float(step.total_s[0]), rel=1e-6)
    assert sum(parts_of(step).values()) == pytest.approx(float(step.total_s[0]), rel=1e-6)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=named)
def test_what_doubled_arithmetic_would_cut_is_in_the_causes_that_arithmetic_has_a_part_in(scenario):
    """In memory-bound operators, the overlapping arithmetic is part of the bandwidth that is not
    reached.
    """
    setup = Setup(scenario)
    estimate, faster = caches.priced(setup), caches.priced(Setup(replace(scenario, peak=2.0)))
    for phase in ("prefill", "decode"):
        before, after = (float(step_of(e, phase).total_s[0]) for e in (estimate, faster))
        parts = parts_of(step_of(estimate, phase))
        causes = ("compute", "tiles", "bandwidth", "pipeline")
        assert before - after <= sum(parts.get(cause, 0.0) for cause in causes) * 1.02


@pytest.mark.parametrize("scenario", SCENARIOS, ids=named)
def test_the_interval_of_a_whole_request_follows_from_those_of_its_parts(scenario):
    """Its own held-out points may make it narrower than the sum of its parts, never wider."""
    estimate = estimate_resolved(resolve(scenario))
    first, token, whole = (
        intervals.latency(estimate, name) for name in ("ttft_s", "tpot_s", "e2e_s")
    )
    more = scenario.osl - 1
    assert whole.value == pytest.approx(first.value + more * token.value)
    assert not math.isnan(whole.low) or math.isnan(token.low)
    if not any(math.isnan(latency.low) for latency in (first, token, whole)):
        assert whole.low >= (first.low + more * token.low) * (1 - 1e-9)
        assert whole.high <= (first.high + more * token.high) * (1 + 1e-9)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=named)
def test_intervals_of_e2e_and_throughput_under_load_follow_from_those_of_ttft_and_tpot(scenario):
    resolved, users = resolve(replace(scenario, batch=1, concurrency=16)), np.array([16.0])
    served = served_rows.served(resolved)
    row = served_rows.table(resolved, served, "concurrency", users).row()
    assert row["status"] == "ok"
    steps = (row["e2e_s"] - row["ttft_s"]) / row["tpot_s"]
    for end, beyond in (("low", -1), ("high", 1)):
        whole, parts = row[f"e2e_{end}_s"], row[f"ttft_{end}_s"] + steps * row[f"tpot_{end}_s"]
        assert math.isnan(parts) or beyond * (whole - parts) <= 1e-9 * parts
    if not math.isnan(row["e2e_low_s"]):
        most = row["output_tokens_per_s"] * row["e2e_s"] / row["e2e_low_s"]
        assert row["output_tokens_per_s_high"] == pytest.approx(most)


def test_where_arithmetic_saves_time_the_breakdown_has_time_that_waits_for_it():
    """In gpt-oss-120b's decode twice the arithmetic saves a sixth, although arithmetic bounds
    nothing.
    """
    setup = Setup(SCENARIOS[1])
    parts = parts_of(step_of(caches.priced(setup), "decode"))
    levers = caches.levers(setup)["decode"]
    assert dict(levers)["twice the peak arithmetic"] > 0.1
    assert parts.get("compute", 0.0) == 0.0
    assert parts["tiles"] > 0.1 * sum(parts.values())


def test_where_a_change_saves_more_than_its_resource_is_said_to_take_the_page_says_why():
    levers = [("twice the peak arithmetic", 0.17)]
    said = quantities.advice("TPOT", levers, {"memory": 0.7, "bandwidth": 0.2, "host": 0.1})
    assert "arithmetic overlaps only in part" in said and "below peak bandwidth" in said


def test_nothing_is_explained_where_a_change_saves_what_its_resource_takes():
    levers = [("twice the memory bandwidth", 0.35), ("fp8 weights", 0.2)]
    said = quantities.advice("TPOT", levers, {"memory": 0.7, "bandwidth": 0.1, "host": 0.2})
    assert said == "twice the memory bandwidth would cut TPOT by **35 %**, fp8 weights by 20 %"

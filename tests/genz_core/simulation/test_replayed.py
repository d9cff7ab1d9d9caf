"""Traces by replicas that come and go: the simulator beside a loop that shares no code with it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest

from genz_core.serving.simulation import (
    Options,
    ReplicaSetPlan,
    Requests,
    StepTime,
    simulate_replica_set,
)
from genz_core.serving.simulation.policies import Vllm
from tests.genz_core.simulation.loads import ENGINE
from tests.genz_core.simulation.step_by_step import Loop
from tests.recorded_traces import NAMES, requests

BUDGET, SEQUENCES = 4096, 48
LOOKS, START_S, REPLACE_S = 15.3, 11.9, 17.7


@dataclass
class Steps:
    """Times of steps, so many times those of a fast engine."""

    slower: float = 1.0

    def seconds(self, decodes: int, tokens: int) -> float:
        return self.slower * (0.0071317 + 1.9e-4 * decodes) + 2.3e-5 * tokens

    def __call__(self, ranks) -> StepTime:
        (rank,) = ranks
        whole = self.seconds(rank.decodes, sum(new for new, _ in rank.prompts))
        return StepTime(whole, whole)


@dataclass
class Scripted:
    """So many replicas as the hour of a script says."""

    period_s: float
    interval_s: float = LOOKS

    def wanted(self, seen) -> int:
        return wanted(seen.now_s, self.period_s)


def wanted(now: float, period_s: float) -> int:
    return 3 + round(2.0 * math.sin(2.0 * math.pi * now / period_s))


def trace(name: str, count: int = 0) -> np.ndarray:
    """[arrival, prompt, output] of a trace, or of its first `count` requests."""
    load = requests(name, count)
    return np.array([load.arrival_s, load.input_tokens, load.output_tokens])


def compare(model, system, arrival, prompts, outputs, slower=1.0) -> None:
    steps = Steps(slower)
    period, end = arrival[-1] / 2.0, float(arrival[-1])
    losses = [(0.11 * end + 0.0137, 0), (0.15 * end + 0.0093, 1), (0.62 * end + 0.0071, 2)]
    run, course = simulate_replica_set(
        model,
        system,
        Requests(arrival, prompts, outputs),
        ReplicaSetPlan(Scripted(period), 3, START_S, losses, REPLACE_S, until_s=end),
        engine=ENGINE,
        options=Options(kv_tokens=1e9, prefix_caching=False),
        scheduler=Vllm(budget=BUDGET, sequences=SEQUENCES),
        price=steps,
    )
    loop = Loop(
        arrival, prompts, outputs, step=steps.seconds, budget=BUDGET, sequences=SEQUENCES,
        looks=LOOKS, wanted=lambda now: wanted(now, period), initial=3, start_s=START_S,
        losses=losses, replace_s=REPLACE_S, until_s=end,
    )  # fmt: skip
    first = np.array([one.first for one in loop.requests]) - arrival
    last = np.array([one.last for one in loop.requests]) - arrival
    assert run.ttft_s == pytest.approx(first, rel=1e-6, abs=1e-6)
    assert run.e2e_s == pytest.approx(last, rel=1e-6, abs=1e-6)
    assert course.replica_s == pytest.approx(loop.paid, rel=1e-6)
    assert course.losses == 3 and course.starts > 3


@pytest.mark.parametrize("name", NAMES)
def test_the_beginning_of_a_trace_is_served_as_step_by_step(model, system, name: str):
    compare(model, system, *trace(name, 800))


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_whole_trace_is_served_as_step_by_step(model, system, name: str):
    compare(model, system, *trace(name))


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_day_made_of_a_trace_is_served_as_step_by_step(model, system, name: str):
    arrival, prompts, outputs = trace(name)
    span, chance = arrival[-1] + 1.0, np.random.default_rng(7)
    parts = []
    for copy in range(math.ceil(86_400.0 / span)):
        kept = chance.random(len(arrival)) < 0.02 + 0.03 * math.sin(copy / 4.0) ** 2
        parts.append(np.array([arrival[kept] + copy * span, prompts[kept], outputs[kept]]))
    compare(model, system, *np.concatenate(parts, axis=1), slower=12.0)

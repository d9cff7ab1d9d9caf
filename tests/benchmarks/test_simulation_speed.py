"""Time and memory of a simulation, including its step tables and random draws.

Run with ``pytest -m benchmark tests/benchmarks/test_simulation_speed.py``.  Seconds are processor
time, so other programs on the machine do not count.
"""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import replace

import pytest

from app.question.question import Question
from app.scenario.scenario import resolve
from app.simulation.run import run

pytestmark = pytest.mark.benchmark(timer=time.process_time)
QUESTION = Question(
    model="meta-llama/Llama-3.1-70B", engine="vllm", weights="fp8", tp=4, concurrency=64,
    requests=1000, osl=1024,
)  # fmt: skip


@pytest.mark.parametrize("ratio", [1.0, 0.8], ids=["equal lengths", "drawn lengths"])
def test_a_thousand_requests_of_a_closed_loop(benchmark, ratio: float):
    answer = benchmark(run, resolve(replace(QUESTION, length_ratio=ratio)))
    assert answer.simulation.ended.all()
    assert benchmark.stats["min"] < 0.2


MANY = """
import resource, time
from app.question.question import Question
from app.scenario.scenario import resolve
from app.simulation.run import run
served = resolve(Question(
    model="meta-llama/Llama-3.1-70B", engine="vllm", weights="fp8", tp=4, rate=3.0,
    requests=100_000, length_spread=0.8,
))
start = time.process_time()
assert run(served).simulation.ended.all()
print(time.process_time() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def test_a_hundred_thousand_requests_at_a_rate():
    """In a new process, so that its memory can be measured."""
    out = subprocess.run([sys.executable, "-c", MANY], capture_output=True, text=True, check=True)
    seconds, megabytes = map(float, out.stdout.split())
    print(f"{seconds:.1f} s, {megabytes:.0f} MiB")
    assert seconds < 20 and megabytes < 1024


DAY = """
import time
from app.question.query import ask
from app.scaling.fleet_run import Deployed
from app.scaling.policies import Scaling
from genz_core.serving.simulation import ReplicaSetPlan
asked = ask("scale", {
    "model": "meta-llama/Llama-3.1-8B", "system": "h100", "engine": "vllm", "rate": 1.811,
    "ttft_target_s": 0.2, "tpot_target_s": 0.008,
})
deployed = Deployed.of(asked.question, {}, by_day=True)
policy = Scaling(metric_target=4.0).made(deployed.capacity)
start = time.process_time()
run = deployed.run(ReplicaSetPlan(policy, 2, 46.0, until_s=86_400.0))
seconds = time.process_time() - start
assert run.simulation.ended.all() and run.course.starts > 10
print(seconds, len(run.simulation.requests))
"""


def test_a_day_of_a_hundred_thousand_requests_under_an_autoscaler():
    out = subprocess.run([sys.executable, "-c", DAY], capture_output=True, text=True, check=True)
    seconds, requests = map(float, out.stdout.split())
    print(f"{seconds:.1f} s, {requests:,.0f} requests")
    assert requests >= 100_000 and seconds < 10

"""How long a simulation takes, tables of the step and draws included, and in how much memory.

Run with ``pytest -m benchmark tests/benchmarks/test_simulation_speed.py``.  Seconds of processor
time, so that neighbours on the machine do not count.
"""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from app.scenario.scenario import Scenario, resolve
from app.simulation.offered_load import OfferedLoad
from app.simulation.run import Settings, run

pytestmark = pytest.mark.benchmark(timer=time.process_time)
SCENARIO = Scenario(model="meta-llama/Llama-3.1-70B", engine="vllm", weights="fp8", tp=4)


@pytest.mark.parametrize("ratio", [1.0, 0.8], ids=["equal lengths", "drawn lengths"])
def test_a_thousand_requests_of_a_closed_loop(benchmark, ratio: float):
    resolved = resolve(SCENARIO)
    load = OfferedLoad(concurrency=64, requests=1000, length_ratio=ratio)
    answer = benchmark(run, resolved, Settings(load))
    assert answer.simulation.ended.all()
    assert benchmark.stats["min"] < 0.2


MANY = """
import resource, time
from app.scenario.scenario import Scenario, resolve
from app.simulation.offered_load import OfferedLoad
from app.simulation.run import Settings, run
load = OfferedLoad(rate=3.0, requests=100_000, osl=256, length_spread=0.8)
served = resolve(Scenario("meta-llama/Llama-3.1-70B", engine="vllm", weights="fp8", tp=4))
start = time.process_time()
assert run(served, Settings(load)).simulation.ended.all()
print(time.process_time() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def test_a_hundred_thousand_requests_at_a_rate():
    """In a process of its own, so that its memory is known."""
    out = subprocess.run([sys.executable, "-c", MANY], capture_output=True, text=True, check=True)
    seconds, megabytes = map(float, out.stdout.split())
    print(f"{seconds:.1f} s, {megabytes:.0f} MiB")
    assert seconds < 20 and megabytes < 1024

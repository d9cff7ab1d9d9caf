"""How fast a fleet is assigned: ``pytest -m benchmark tests/benchmarks/test_fleet_speed.py``.

Seconds of processor time, so that neighbours on the machine do not count.
"""

from __future__ import annotations

import time

import pytest
import ridgeline

pytestmark = pytest.mark.benchmark(timer=time.process_time)
#: Kinds of machines, and how many there are: 50 in all.
MACHINES = [
    {"name": "H100", "system": "h100", "devices": 8, "count": 16, "owned": True},
    {"name": "H200", "system": "h200", "devices": 8, "count": 12, "price": 3.5},
    {"name": "MI300X", "system": "mi300x", "devices": 8, "count": 10, "price": 2.5},
    {"name": "L40S", "system": "l40s", "devices": 4, "count": 12, "owned": True},
]
_KINDS = (
    ("meta-llama/Llama-3.1-8B", 60.0, "tpot < 25ms, ttft < 500ms"),
    ("meta-llama/Llama-3.3-70B-Instruct", 8.0, "tpot < 45ms, ttft < 1s"),
    ("Qwen/Qwen3-30B-A3B", 40.0, "tpot < 25ms, ttft < 500ms"),
    ("Qwen/Qwen3-32B", 15.0, "tpot < 40ms"),
    ("Qwen/Qwen3-235B-A22B", 4.0, "tpot < 50ms"),
)


def models(load: float):
    """Twenty models of three priorities."""
    return [
        {"name": f"model {at}", "model": model, "rate": rate * load * (1.0 + 0.13 * at),
         "target": target, "priority": 1 + at % 3, "isl": 500 + 200 * (at % 4),
         "osl": 100 + 60 * (at % 5)}
        for at, (model, rate, target) in enumerate(_KINDS * 4)
    ]  # fmt: skip


@pytest.mark.parametrize("load", [0.5, 12.0], ids=["enough machines", "too few"])
def test_twenty_models_on_fifty_machines_in_a_minute(benchmark, load):
    given = {"machines": MACHINES, "models": models(load),
             "question": {"engine": "vllm", "simulate": False}}  # fmt: skip
    assert sum(one["count"] for one in MACHINES) == 50 and len(given["models"]) == 20
    before = time.process_time()
    found = benchmark.pedantic(ridgeline.fleet, args=(given,), rounds=1, warmup_rounds=0)
    assert time.process_time() - before < 60.0
    assert len(found.models) == 20 and found.to_dict()["deployments"]
    assert (min(one["share"] for one in found.models) == 1.0) == (load < 1.0)

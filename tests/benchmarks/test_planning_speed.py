"""Speed of planning deployments and of sweeping configurations.

Run with ``pytest -m benchmark tests/benchmarks/test_planning_speed.py``.  Seconds are processor
time, so other programs on the machine do not count.  `peers_sweep.py` in this folder gives two
peers the same task, if they are installed.
"""

from __future__ import annotations

import resource
import time

import pytest
import ridgeline

from app.planning import sweep_block, sweep_file
from app.planning.sweep_axes import sweep_axes

pytestmark = pytest.mark.benchmark(timer=time.process_time)
SYSTEMS = ["h100", "h200", "b200", "a100-sxm4-80gb", "l40s", "mi300x", "mi325x", "gh200-96gb",
           "b300", "h20-96gb"]  # fmt: skip


def million(times: int = 1):
    """A million configurations of one model over ten systems, or a part of them."""
    axes = sweep_axes(
        {
            "model": "meta-llama/Llama-3.1-8B", "system": SYSTEMS, "engine": "vllm",
            "tp": [1, 2, 4, 8], "batch": {"from": 1, "to": 50, "step": 1},
            "isl": {"from": 16, "to": 8000 // times, "step": 16}, "osl": 128,
        }
    )  # fmt: skip
    assert len(axes) == 1_000_000 // times
    return axes


@pytest.fixture(scope="module", autouse=True)
def _loaded():
    for block in million(100).blocks:
        sweep_block.resolve(block)
    sweep_file.table(million(100))


@pytest.mark.parametrize(
    ("bounds_only", "most_s"), [(True, 5.0), (False, 25.0)], ids=["bounds", "calibrated"]
)
def test_a_million_configurations_over_ten_systems(benchmark, bounds_only, most_s):
    axes = million()

    def price() -> int:
        rows = 0
        for block in axes.blocks:
            found = sweep_block.resolve(block)
            for start in range(0, len(block), 50_000):
                stop = min(start + 50_000, len(block))
                part = sweep_block.price(block, found, start, stop, bounds_only)
                rows += len(part["status"])
        return rows

    assert benchmark.pedantic(price, rounds=1) == 1_000_000
    seconds = benchmark.stats["min"]
    benchmark.extra_info["configurations_per_s"] = 1e6 / seconds
    assert seconds < most_s
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 < 2e9


DENSE, LATENT, EXPERTS = "Qwen/Qwen3-32B", "deepseek-ai/DeepSeek-V3", "Qwen/Qwen3-235B-A22B"
ENGINES = "vllm,sglang,trtllm"
USERS = {"concurrency": 256}


@pytest.mark.parametrize(
    ("model", "load", "engine"),
    [
        *((model, {"rate": 10}, engine)
          for model in (DENSE, LATENT, EXPERTS) for engine in ("vllm", ENGINES)),
        (DENSE, USERS, "vllm"),
        pytest.param(LATENT, USERS, "vllm", marks=pytest.mark.xfail(
            reason="limits of a batch are searched, too: about 15 s", strict=False)),
    ],
)  # fmt: skip
def test_a_plan_over_three_systems_and_64_devices_of_both_kinds(benchmark, model, load, engine):
    def plan() -> int:
        found = ridgeline.plan(
            model, systems="h200,b200,mi300x", devices="1:64", engine=engine, isl=1024, osl=256,
            target="ttft_p95 < 1500ms, tpot < 50ms", **load,
        )  # fmt: skip
        return len(found.rows)

    assert benchmark.pedantic(plan, rounds=1, warmup_rounds=0) > 0
    assert benchmark.stats["min"] < 5.0

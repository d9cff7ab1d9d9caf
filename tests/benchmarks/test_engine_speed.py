"""Number of configurations that the engine prices per second, and its memory.

Run with ``pytest -m benchmark tests/benchmarks/test_engine_speed.py``.  Seconds are processor time,
so other programs on the machine do not count.
"""

from __future__ import annotations

import itertools
import time
import tracemalloc

import numpy as np
import pytest

import genz_core
import hardware_db
import model_registry
from genz_core.serving import Traffic, serve
from genz_core.types import Parallelism, Workload
from genz_core.workload import bounds

pytestmark = pytest.mark.benchmark(timer=time.process_time)
SIZE = 100_000


@pytest.fixture(scope="module")
def many():
    rng = np.random.default_rng(0)
    return {
        "batch": rng.integers(1, 257, SIZE),
        "isl": rng.integers(1, 8193, SIZE),
        "tp": 2 ** rng.integers(0, 4, SIZE),
    }


@pytest.fixture(scope="module")
def llama():
    return model_registry.load("meta-llama/Llama-3.1-8B")


def test_bounds_of_a_hundred_thousand_configurations(benchmark, llama, many):
    """Bounds only, of prefill and the mean decode step, with four mixed degrees."""
    system, split = hardware_db.load("h100"), Parallelism(tp=many["tp"])
    load = Workload(many["batch"], many["isl"])

    def price() -> float:
        return float(sum(least.sum() for least in bounds(llama, system, load, split)))

    assert benchmark(price) > 0
    benchmark.extra_info["configurations_per_s"] = per_second = SIZE / benchmark.stats["min"]
    assert per_second > 700_000


def test_calibrated_prices_of_a_hundred_thousand_configurations(benchmark, llama, many):
    system, engine = hardware_db.load("h100"), hardware_db.load_engine("vllm")
    split = Parallelism(tp=many["tp"])

    def price() -> float:
        load = Workload(many["batch"], many["isl"])
        prefill = genz_core.prefill(llama, system, load, split, engine)
        decode = genz_core.decode_step(llama, system, load.batch, load.isl, split, engine)
        return float((prefill.total_s + decode.total_s).sum())

    assert benchmark(price) > 0
    benchmark.extra_info["configurations_per_s"] = per_second = SIZE / benchmark.stats["min"]
    assert per_second > 80_000, "of one core; configurations split evenly over cores"


def test_one_configuration_as_a_form_asks(benchmark, llama):
    """A scalar estimate with new sizes at every call: some 0.25 ms of one core."""
    system, engine = hardware_db.load("h100"), hardware_db.load_engine("vllm")
    sizes = itertools.count(1000)

    def price() -> float:
        load = Workload(4, next(sizes), 128)
        return float(genz_core.estimate(llama, system, load, Parallelism(), engine).tpot_s[0])

    assert benchmark(price) > 0


def test_memory_of_a_hundred_thousand_configurations(llama, many):
    system = hardware_db.load("h100")
    tracemalloc.start()
    genz_core.decode_step(llama, system, many["batch"], many["isl"], Parallelism(tp=many["tp"]))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    print(f"peak {peak / 2**20:.0f} MiB for {SIZE:,} configurations")
    assert peak < 2 * 2**30


def test_serving_points_a_second(benchmark, llama, many):
    system, engine = hardware_db.load("h100"), hardware_db.load_engine("vllm")
    users, isl = many["batch"][:20_000], many["isl"][:20_000]

    def price() -> float:
        found = serve(llama, system, Traffic(isl, 256, concurrency=users), engine=engine)
        return float(np.nansum(found.tpot_s))

    assert benchmark(price) > 0
    benchmark.extra_info["points_per_s"] = per_second = 20_000 / benchmark.stats["min"]
    assert per_second > 10_000

"""Number of configurations that the calibrated latency models price per second.

One configuration is prefill and decode of an 8-billion-parameter dense model: five products and
one attention in each phase.  Run with `pytest -m benchmark tests/benchmarks`.  Seconds are
processor time, so other programs on the machine do not count.
"""

import time
import tracemalloc

import numpy as np
import pytest

from genz_core.latency.attention import decode_attention_time, prefill_attention_time
from genz_core.latency.device import Device
from genz_core.latency.gemm import gemm_time
from genz_core.latency.parameters import (
    DecodeAttentionParameters,
    GemmParameters,
    PrefillAttentionParameters,
)

CONFIGURATIONS = 100_000
DEVICE = Device({"bf16": 989.4e12}, 3.35e12, 132.0, 1.83e9, 52e6)
PEAK = 989.4e12
HIDDEN, INTERMEDIATE, VOCABULARY = 4096, 14336, 128256
PRODUCTS = ((6144, HIDDEN), (HIDDEN, 4096), (2 * INTERMEDIATE, HIDDEN), (HIDDEN, INTERMEDIATE))
HEADS = {"heads": 32.0, "kv_heads": 8.0, "head_dim": 128.0}


def configurations(tensor_parallel):
    rng = np.random.default_rng(0)
    batch = rng.integers(1, 257, CONFIGURATIONS).astype(float)
    isl = rng.integers(1, 8193, CONFIGURATIONS).astype(float)
    tp = 2.0 ** rng.integers(0, 4, CONFIGURATIONS) if tensor_parallel else 1.0
    return batch, isl, tp


def product_s(m, n, k):
    return gemm_time(
        m,
        n,
        k,
        weight_bytes=2.0,
        activation_bytes=2.0,
        peak_flops_per_s=PEAK,
        device=DEVICE,
        parameters=GemmParameters(),
    ).seconds()


def model_s(batch, isl, tp):
    """Both phases of 32 layers; tp splits the wide side of every product."""
    heads = HEADS | {"heads": 32.0 / tp, "kv_heads": 8.0 / tp}
    prefill = prefill_attention_time(
        batch,
        isl,
        0.0,
        peak_flops_per_s=PEAK,
        device=DEVICE,
        parameters=PrefillAttentionParameters(),
        **heads,
    ).seconds()
    decode = decode_attention_time(
        batch,
        isl + 128.0,
        peak_flops_per_s=PEAK,
        device=DEVICE,
        parameters=DecodeAttentionParameters(),
        **heads,
    ).seconds()
    for n, k in PRODUCTS:
        prefill = prefill + product_s(batch * isl, n / tp, k)
        decode = decode + product_s(batch, n / tp, k)
    head = product_s(batch, VOCABULARY / tp, HIDDEN)
    return 32.0 * prefill + head, 32.0 * decode + head


@pytest.mark.benchmark(timer=time.process_time)
@pytest.mark.parametrize("tensor_parallel", [False, True], ids=["batch-isl", "batch-isl-tp"])
def test_latency_models_price_prefill_and_decode(benchmark, tensor_parallel):
    given = configurations(tensor_parallel)
    prefill, decode = benchmark.pedantic(model_s, args=given, rounds=3)
    assert prefill.shape == decode.shape == (CONFIGURATIONS,)
    per_second = CONFIGURATIONS / benchmark.stats.stats.min
    benchmark.extra_info["configurations_per_second"] = round(per_second)
    assert per_second > 50_000


def test_latency_models_need_little_memory_beyond_their_results():
    tracemalloc.start()
    model_s(*configurations(True))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 64 * 2**20

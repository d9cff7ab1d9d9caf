"""What a performance engineer believes of the products of every system, with a reason for each
system that he would not expect.
"""

from functools import cache

import numpy as np
import pytest

import hardware_db
from genz_core.latency.measured_operators import OperatorPoints, bound_s, price_s
from hardware_db.fit.other_devices import system_of
from hardware_db.tables import table
from tests.rules import for_every

SYSTEMS = hardware_db.names()
#: Products of a prompt of 4,096 tokens and of one token, by the sizes of a 70B model's layers.
ROWS, COLUMNS, DEPTH = np.array([4096.0, 1.0]), 28672.0, 8192.0
FORMATS = ("bf16", "fp8", "int8_weight_only", "int4_weight_only")

OF_SRAM = "weights lie in SRAM, of 30 to 4,000 times the bandwidth of DRAM: latency decides"
#: {system: why one token reads weights at less than 45 % of the bandwidth}
SLOW_READERS = {
    "cerebras-wse-3": OF_SRAM,
    "groq-3-lpu": OF_SRAM,
    "h20-96gb": "SGLang read Qwen3-8B at 1.34 of 4 TB/s for one user, Qwen3-32B in bf16 and in fp8 "
    "at 1.36 TB/s (QwenLM/Qwen3, docs/source/getting_started/speed_benchmark.md @7a2f61f)",
    "h20-141gb": "the same arithmetic as h20-96gb with more bandwidth",
    "mi308x": "the fastest product of one row in ROCm/aiter e404860 reads at 31 %",
    "mi60": "no matrix units: 64 rows of a tile take longer than the weights",
}
#: Systems that multiply 8-bit floating point no faster than bf16.
SAME_RATE = {"gaudi3", "inferentia2", "trainium1", "tpu-v6e"}


@cache
def products(slug: str) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """{format: (seconds, least seconds)} of the products of a system, [prompt, one token]."""
    system = hardware_db.load(slug)
    found = {}
    for fmt in FORMATS:
        if fmt == "fp8" and "fp8" not in system.peak_flops_per_s:
            continue
        sizes = {"m": ROWS, "n": COLUMNS, "k": DEPTH}
        points = OperatorPoints("gemm", fmt, sizes, np.ones(2))
        constants = system.latency.constants("gemm", fmt)
        found[fmt] = price_s(points, system, constants), bound_s(points, system)
    return found


@for_every(SYSTEMS)
def test_a_large_product_reaches_the_share_of_the_peak_that_products_reach(slug):
    seconds, least = products(slug)["bf16"]
    assert 0.45 < least[0] / seconds[0] < 0.95


@for_every(SYSTEMS)
def test_one_token_reads_weights_near_the_bandwidth_or_the_reason_is_known(slug):
    seconds, least = products(slug)["bf16"]
    share = least[1] / seconds[1]
    assert (share < 0.45) == (slug in SLOW_READERS)
    measured = hardware_db.load(slug).latency.fit("gemm", "bf16").tier == "measured"
    assert share < (0.97 if measured else 0.93)


@for_every(SYSTEMS)
def test_weights_that_are_unpacked_make_prompts_no_faster_and_steps_no_slower(slug):
    """The arithmetic is that of bf16; what is left is the traffic of the weights."""
    plain = products(slug)["bf16"][0]
    for fmt in ("int8_weight_only", "int4_weight_only"):
        prompt, step = products(slug)[fmt][0] / plain
        assert 0.94 < prompt < 1.35
        assert step < 1.0 or slug in SLOW_READERS


def with_fp8() -> list[str]:
    """Systems that multiply 8-bit floating point."""
    return [slug for slug in SYSTEMS if "fp8" in products(slug)]


@for_every(with_fp8)
def test_eight_bits_make_a_prompt_no_slower_where_the_hardware_multiplies_them(slug):
    peaks = hardware_db.facts(slug).system().peak_flops_per_s
    plain = peaks.get("bf16") or peaks["fp16"]
    assert (peaks["fp8"] < 1.5 * plain) == (slug in SAME_RATE)
    if slug not in SAME_RATE:
        assert products(slug)["fp8"][0][0] < 1.02 * products(slug)["bf16"][0][0]


@pytest.mark.parametrize("row", table("measurements", "large_products"), ids=lambda r: r["system"])
def test_the_largest_published_products_are_predicted(row):
    system = system_of(row["system"])
    sizes = {name: np.array([float(row[name])]) for name in "mnk"}
    flops = 2.0 * sizes["m"] * sizes["n"] * sizes["k"]
    points = OperatorPoints("gemm", row["fmt"], sizes, flops / float(row["flops_per_s"]))
    constants = hardware_db.load(row["system"]).latency.constants("gemm", row["fmt"])
    assert price_s(points, system, constants) == pytest.approx(points.measured_s, rel=0.15)
    assert row["kind"] == "measured" and row["citation"] and row["retrieved"]

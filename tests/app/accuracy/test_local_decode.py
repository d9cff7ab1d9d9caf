"""Decoding of one request under llama.cpp, against published rates that nothing was fitted on."""

import numpy as np
import pytest
import ridgeline

#: Output tokens/s of one request at a time, from request to answer, of Q4_K_M (gpt-oss: MXFP4).
#: Source: P. Khmel, "LLM throughput benchmark on 13 GPUs and 10 models", 2026-06-07,
#: https://pavlokhmel.com/llm_throughput_benchmark_on_13_gpus_and_10_models.html, without the GPUs
#: that no system file describes.  The lengths are not stated; a chat answer is assumed.
SYSTEMS = (
    "m1-8core", "m5", "v100-pcie-32gb", "a100-pcie-40gb", "a100-sxm4-80gb", "rtx-4080", "rtx-4090",
    "h100-sxm5-80gb", "h200-sxm-141gb", "b300",
)  # fmt: skip
RATES = {
    "mistralai/Ministral-3-3B-Instruct-2512": (21, 50, 151, 184, 211, 210, 271, 305, 312, 319),
    "Qwen/Qwen3.5-4B": (16, 37, 113, 145, 154, 164, 206, 234, 241, 251),
    "google/gemma-4-E4B-it": (17, 37, 96, 119, 125, 145, 177, 190, 195, 199),
    "Qwen/Qwen3.5-9B": (9, 22, 85, 113, 123, 105, 137, 190, 197, 213),
    "openai/gpt-oss-20b": (21, 48, 138, 180, 189, 210, 266, 286, 292, 327),
    "Qwen/Qwen3.6-27B": (None, 7, 31, 41, 46, None, 47, 74, 76, 82),
    "google/gemma-4-26B-A4B-it": (None, 32, 84, 108, 116, None, 149, 181, 188, 185),
    "google/gemma-4-31B-it": (None, 6, 28, 37, 43, None, 35, 68, 71, 75),
    "Qwen/Qwen3.6-35B-A3B": (None, 34, 92, 120, 128, None, 180, 194, 204, 210),
}
CHAT = {"isl": 200, "osl": 400}
#: Prompt tokens/s of Llama-3.1-8B in q4_0 on an RTX 3090 in steps of 1 and of 8 tokens.
#: Source: llama.cpp, pull request 15802 (2025-09).
ONE_TOKEN, EIGHT_TOKENS = 156.56, 583.77


@pytest.fixture(scope="module")
def ratios():
    """Predicted over published rate, {(model, system): ratio}."""
    found = {}
    for model, rates in RATES.items():
        weights = "mxfp4" if "gpt-oss" in model else "q4_k_m"
        for system, rate in zip(SYSTEMS, rates, strict=True):
            if rate:
                one = ridgeline.estimate(
                    model, system=system, weights=weights, engine="llama.cpp", batch=1, **CHAT
                )
                found[model, system] = 1.0 / (one.tpot_s * rate)
    return found


def test_published_rates_are_met_without_bias(ratios):
    values = np.array(list(ratios.values()))
    assert len(values) == 82
    assert 0.9 < np.median(values) < 1.12
    assert np.mean(np.abs(values - 1.0)) < 0.15
    assert values.min() > 0.65 and values.max() < 1.6


@pytest.mark.parametrize("system", SYSTEMS)
def test_no_device_is_far_off(ratios, system):
    ratio = np.median([value for (_, on), value in ratios.items() if on == system])
    assert 0.7 < ratio < 1.4


def test_seven_further_rows_cost_as_measured():
    steps = ridgeline.estimate(
        "meta-llama/Llama-3.1-8B", system="rtx-3090", weights="q4_0", engine="llama.cpp",
        batch=[1, 8], isl=256, osl=2,
    ).tpot_s  # fmt: skip
    measured = 8.0 / EIGHT_TOKENS - 1.0 / ONE_TOKEN
    assert steps[1] - steps[0] == pytest.approx(measured, rel=0.15)

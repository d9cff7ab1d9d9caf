"""Percentiles and mean of a plan are of one distribution, whatever was measured near the load."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import ridgeline

from app.planning.candidates import percentiles
from app.planning.percentiles import figures_of
from tests.app.planning import asking

QWEN, LLAMA, R1 = "Qwen/Qwen3-32B", "meta-llama/Llama-3.1-8B", "deepseek-ai/DeepSeek-R1"
_KEYS = ("model", "systems", "engine")
SCENARIOS = {
    "at a rate": (QWEN, "h100", "sglang", {"rate": 5, "osl": 128}),
    "users": (QWEN, "h100", "sglang", {"concurrency": 64}),
    "another engine": (QWEN, "h200", "vllm", {"rate": 5}),
    "latent attention": (R1, "b200", "trtllm", {"concurrency": 64, "kind": "aggregated"}),
    "long prompts": (R1, "h200", "sglang", {"rate": 2, "isl": 4096}),
    "experts": ("openai/gpt-oss-120b", "h200", "vllm", {"concurrency": 128}),
    "never measured there": ("google/gemma-3-27b-it", "mi300x", "vllm", {"rate": 3}),
    "prefill pool": (LLAMA, "h100", "sglang", {"rate": 9, "kind": "disaggregated"}),
    "drafts": (LLAMA, "h100", "sglang", {"rate": 8, "speculation": "ngram", "acceptance": "0.6"}),
}  # fmt: skip
MARKS = ("p50", "p90", "p95", "p99")


@pytest.mark.by_day(3)
@pytest.mark.parametrize("name", SCENARIOS)
def test_no_mean_lies_above_its_95th_percentile(name):
    *named, more = SCENARIOS[name]
    asked = dict(zip(_KEYS, named, strict=True)) | more
    found = asking.plan(**asked, devices="1:16", top=2)
    assert found.rows
    for plan in found.rows:
        assert plan["percentiles"].startswith("simulated"), plan["percentiles"]
        for figure in ("ttft", "tpot", "e2e"):
            marks = [plan[f"{figure}_{mark}_s"] for mark in MARKS]
            assert marks == sorted(marks)
            assert plan[f"{figure}_s"] <= plan[f"{figure}_p95_s"] * 1.0001, figure
            assert plan[f"{figure}_s"] < 2.0 * plan[f"{figure}_p99_s"]


def test_what_measured_runs_say_of_first_tokens_holds_for_simulated_ones_too():
    asked = dict(system="h100", engine="sglang", tp=2, isl=1024, osl=128, concurrency=16)
    closed = ridgeline.serve(QWEN, length_ratio=0.8, **asked)
    asked |= {"length_ratio": 0.8, "requests": 800}
    simulated = ridgeline.simulate(QWEN, **asked)
    told = simulated.run.options
    assert told.step_scale != 1.0 and (told.wait_s > 0.0 or told.prompt_scale < 1.0)
    assert simulated.ttft_mean_s == pytest.approx(float(closed.ttft_s), rel=0.35)
    alone = ridgeline.simulate(QWEN, step_scale=simulated.run.step_scale, **asked)
    assert (alone.run.options.prompt_scale, alone.run.options.wait_s) == (1.0, 0.0)
    assert simulated.ttft_mean_s == pytest.approx(alone.ttft_mean_s + told.wait_s, rel=0.2)


def test_a_wait_that_every_request_has_is_not_spread_like_a_queue():
    mean, median, least = np.array([0.2]), np.array([0.17]), np.array([0.08])
    plain, held = percentiles(mean, median, least), percentiles(mean + 1, median + 1, least + 1)
    assert plain[50] == pytest.approx(median)
    assert sorted(plain.values()) == [plain[at] for at in sorted(plain)]
    for at in plain:
        assert held[at] == pytest.approx(plain[at] + 1.0)


@pytest.mark.parametrize(
    "load", [{"concurrency": 64}, {"concurrency": 128, "isl": 8192}, {"rate": 5}], ids=str
)
def test_percentiles_that_choose_what_is_simulated_are_near_the_simulated_ones(load):
    asked = {"system": "h100", "engine": "vllm", "tp": 4} | load
    (closed,) = ridgeline.serve("meta-llama/Llama-3.1-70B", **asked).rows
    names = ("ttft_s", "ttft_median_s", "prefill_s")
    told = percentiles(*(np.array([closed[name]]) for name in names))
    simulated = ridgeline.simulate("meta-llama/Llama-3.1-70B", requests=1000, **asked)
    assert told[95][0] == pytest.approx(simulated.ttft_p95_s, rel=0.35)


def test_requests_of_a_filling_and_of_an_emptying_deployment_do_not_count():
    arrival_s = np.arange(0.0, 100.0)
    tpot_s = np.where(arrival_s < 30, 0.01, np.where(arrival_s > 79, 0.02, 0.03))
    answers = SimpleNamespace(
        arrival_s=arrival_s, counted=np.ones(100, dtype=bool), tpot_s=tpot_s,
        ttft_s=np.ones(100), e2e_s=1.0 + 100 * tpot_s,
    )  # fmt: skip
    figures = figures_of(SimpleNamespace(simulation=answers), (30.0, 20.0), 1.0, {})
    assert figures.figures["tpot_s"] == figures.figures["tpot_p99_s"] == pytest.approx(0.03)
    assert figures.requests == 50
    few = figures_of(SimpleNamespace(simulation=answers), (900.0, 900.0), 1.0, {})
    assert few.requests == 25  # at most half at the start, and a quarter at the end

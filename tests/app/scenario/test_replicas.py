"""Replicas of a closed loop: as many users on each as possible, whatever their number."""

import numpy as np
import pytest
import ridgeline

LOADS = (
    {"model": "meta-llama/Llama-3.1-8B", "engine": "vllm", "isl": 8000, "osl": 20},
    {"model": "Qwen/Qwen3-8B", "engine": "sglang", "isl": 6000, "osl": 15},
    {"model": "openai/gpt-oss-20b", "engine": "trtllm", "dp": 2, "isl": 500, "osl": 200},
)


@pytest.mark.parametrize("load", LOADS, ids=lambda load: load["engine"])
@pytest.mark.parametrize("replicas", [2, 3, 5])
def test_a_deployment_is_the_sum_of_its_replicas(load, replicas):
    users = np.arange(1, 4 * replicas + 1)
    one = ridgeline.serve(**load, system="h100", concurrency=np.arange(1, 6))
    all_of_them = ridgeline.serve(**load, system="h100", replicas=replicas, concurrency=users)
    each = [np.bincount([at % replicas for at in range(n)], minlength=replicas) for n in users]
    for at, of_replicas in enumerate(each):
        busy = of_replicas[of_replicas > 0] - 1
        rates = one.output_tokens_per_s[busy]
        assert all_of_them.output_tokens_per_s[at] == pytest.approx(rates.sum(), rel=1e-12)
        for name in ("ttft_s", "tpot_s", "bound_tpot_s"):
            mean = np.average(getattr(one, name)[busy], weights=rates)
            assert getattr(all_of_them, name)[at] == pytest.approx(mean, rel=1e-12), name


@pytest.mark.parametrize("load", LOADS, ids=lambda load: load["engine"])
def test_a_user_more_never_lowers_throughput_nor_shortens_a_latency(load):
    found = ridgeline.serve(**load, system="h100", replicas=3, concurrency=np.arange(1, 13))
    for name in ("output_tokens_per_s", "ttft_s", "tpot_s"):
        figures = getattr(found, name)
        assert np.all(figures[1:] > figures[:-1] * 0.995), name


def test_a_planned_deployment_is_the_one_that_is_served():
    load = {"model": "meta-llama/Llama-3.1-8B", "system": "h100", "engine": "vllm"}
    load |= {"isl": 8000, "osl": 20, "concurrency": 7}
    found = ridgeline.plan(**load, tp=1, devices=(3, 3), pools="aggregated", simulate=False)
    row = found.rows[0]
    busy = ridgeline.serve(**load, tp=1, replicas=int(row["replicas"]))
    assert row["replicas"] == 3
    assert (row["ttft_s"], row["tpot_s"]) == (busy.ttft_s, busy.tpot_s)
    assert row["output_tokens_per_s"] == pytest.approx(busy.output_tokens_per_s, rel=1e-12)

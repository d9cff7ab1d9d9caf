"""Fewer requests than lanes of a pipeline or attention ranks: nothing is priced that is empty."""

import numpy as np
import pytest

import hardware_db
import model_registry
from genz_core import Parallelism, Workload, estimate
from genz_core.serving import Traffic, serve

#: Stages bound by the host, by the last stage's head, and by memory; ranks that share experts.
DEPLOYED = [
    ("openai/gpt-oss-20b", "b200", "vllm", {"pp": 4}, 555, 15),
    ("meta-llama/Llama-3.1-8B", "rtx-4090", "trtllm", {"pp": 4}, 17, 131),
    ("Qwen/Qwen3-32B", "h20-96gb", "sglang", {"pp": 2}, 4000, 40),
    ("deepseek-ai/DeepSeek-V3", "h200", "sglang", {"dp": 8, "ep": 8}, 1000, 500),
    ("openai/gpt-oss-120b", "h200", "vllm", {"tp": 2, "dp": 4, "ep": 8}, 27, 948),
]


@pytest.fixture(params=DEPLOYED, ids=lambda named: f"{named[2]} {named[3]}", scope="module")
def deployed(request):
    model, system, engine, degrees, isl, osl = request.param
    named = (model_registry.load(model), hardware_db.load(system))
    return named, Parallelism(**degrees), hardware_db.load_engine(engine), isl, osl


def test_one_user_is_a_request_alone(deployed):
    named, split, engine, isl, osl = deployed
    alone = estimate(*named, Workload(1.0, isl, osl), split, engine)
    user = serve(*named, Traffic(isl, osl, 1.0), split, engine)
    assert user.tpot_s == pytest.approx(alone.tpot_s, rel=1e-3)
    assert user.prefill_s == pytest.approx(alone.ttft_s, rel=1e-9)


def test_rare_requests_are_each_alone(deployed):
    named, split, engine, isl, osl = deployed
    user = serve(*named, Traffic(isl, osl, 1.0), split, engine)
    rare = 0.002 / user.e2e_s[0]
    few = serve(*named, Traffic(isl, osl, rate_per_s=rare), split, engine)
    assert few.tpot_s == pytest.approx(user.tpot_s, rel=5e-3)
    assert few.ttft_s == pytest.approx(user.ttft_s, rel=5e-3)


def test_a_user_more_never_lowers_throughput_nor_shortens_a_token(deployed):
    named, split, engine, isl, osl = deployed
    users = serve(*named, Traffic(isl, osl, np.arange(1.0, 17.0)), split, engine)
    for figures in (users.output_tokens_per_s, users.tpot_s):
        assert np.all(figures[1:] >= figures[:-1] * 0.995)

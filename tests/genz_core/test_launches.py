"""Steps that replay no captured graph are launched operator by operator."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import genz_core
import hardware_db
import model_registry
from genz_core.deployment import deploy
from genz_core.engine import EngineProfile
from genz_core.models.acceptance import Acceptance
from genz_core.models.speculative import Speculation, speculative_model
from genz_core.serving import Traffic, serve
from genz_core.serving.simulation import Requests, simulate
from genz_core.serving.simulation.draws import bursty_arrivals
from genz_core.serving.simulation.step_price import RankWork
from genz_core.serving.simulation.step_tables import StepTables
from genz_core.types import Parallelism, Workload

CAPTURED = EngineProfile("captured")
LAUNCHED = replace(CAPTURED, prompt_launch_s=60e-6, graph_tokens=100, graph_prompt_tokens=100)
EIGHT = Parallelism(tp=8)


@pytest.fixture(scope="module")
def small():
    return model_registry.load("meta-llama/Llama-3.1-8B")


@pytest.fixture(scope="module")
def h100():
    return hardware_db.load("h100-sxm5-80gb")


def estimated(model, system, engine, isl, split=EIGHT):
    load = Workload(1.0, isl, 64.0)
    return genz_core.estimate(model, system, load, split, engine)


def test_a_short_prompt_takes_as_long_as_its_launches(small, h100):
    """32 layers of nine operators, three at the start and one at the end."""
    found = estimated(small, h100, LAUNCHED, np.array([200.0, 400.0]))
    least = 292 * LAUNCHED.prompt_launch_s
    assert found.ttft_s == pytest.approx(least + LAUNCHED.host_step_s, rel=0.01)


def test_a_long_prompt_hides_its_launches(small, h100):
    plain, launched = (
        estimated(small, h100, engine, np.array([60_000.0])) for engine in (CAPTURED, LAUNCHED)
    )
    assert launched.ttft_s == pytest.approx(plain.ttft_s)


def test_captured_steps_launch_nothing(small, h100):
    """Prompts of few tokens, and every step that only decodes."""
    plain, launched = (
        estimated(small, h100, engine, np.array([50.0, 100.0, 101.0]))
        for engine in (CAPTURED, LAUNCHED)
    )
    assert launched.ttft_s[:2] == pytest.approx(plain.ttft_s[:2])
    assert launched.ttft_s[2] > 2.0 * plain.ttft_s[2]
    assert launched.tpot_s == pytest.approx(plain.tpot_s)


def test_one_at_a_time_in_arrays_served_and_simulated_a_prompt_waits_alike(small, h100):
    isl = 300.0
    alone = estimated(small, h100, LAUNCHED, isl).ttft_s[0]
    beside = estimated(small, h100, LAUNCHED, np.array([isl, 90.0])).ttft_s[0]
    served = serve(small, h100, Traffic(isl, 64.0, 1.0), EIGHT, LAUNCHED)
    tables = StepTables.of(small, h100, EIGHT, LAUNCHED)
    simulated, _ = tables([RankWork(0, 0, [(int(isl), 0)])])
    assert beside == pytest.approx(alone)
    assert served.prefill_s[0] == pytest.approx(alone, rel=1e-3)
    assert simulated == pytest.approx(alone, rel=1e-2)


def test_short_prompts_are_launched_where_several_share_a_step(small, h100):
    """One prompt of 260 tokens fits into a graph of 512 beside the decodes; two do not."""
    engine, isl, osl, count = (
        replace(LAUNCHED, graph_tokens=512, graph_prompt_tokens=512),
        260,
        200,
        6000,
    )
    draws = np.random.default_rng(0)
    arrivals = bursty_arrivals(count, 70.0, 1.0, draws)
    lengths = (draws.integers(round(0.8 * most), most + 1, count) for most in (isl, osl))
    requests, rate = Requests(arrivals, *lengths), count / float(arrivals[-1])
    traffic = Traffic(float(isl), float(osl), rate_per_s=rate, length_ratio=0.8)
    served, captured = (serve(small, h100, traffic, EIGHT, by) for by in (engine, CAPTURED))
    simulated = simulate(small, h100, requests, EIGHT, engine, counted=range(500, 5500)).summary()
    assert served.tpot_s[0] == pytest.approx(simulated["tpot_mean_s"], rel=0.08)
    assert served.ttft_s[0] == pytest.approx(simulated["ttft_mean_s"], rel=0.08)
    assert served.ttft_s[0] > 1.4 * captured.ttft_s[0]


def decoded(model, system, engine, sequences, split=EIGHT):
    load = Workload(np.asarray(sequences), 16.0, 16.0)
    return genz_core.estimate(model, system, load, split, engine)


def test_a_decode_step_beyond_the_largest_graph_takes_as_long_as_its_launches(small, h100):
    """292 operators, as of a prompt."""
    plain, launched = (
        decoded(small, h100, engine, [96.0, 100.0, 101.0, 200.0]) for engine in (CAPTURED, LAUNCHED)
    )
    host = LAUNCHED.host_step_s + LAUNCHED.host_sequence_s * np.array([101.0, 200.0])
    assert launched.tpot_s[:2] == pytest.approx(plain.tpot_s[:2])
    assert launched.tpot_s[2:] == pytest.approx(292 * LAUNCHED.prompt_launch_s + host, rel=0.01)


def test_a_long_decode_step_hides_its_launches(small, h100):
    load = Workload(np.array([200.0, 200.0]), 20_000.0, 16.0)
    plain, launched = (
        genz_core.estimate(small, h100, load, EIGHT, engine) for engine in (CAPTURED, LAUNCHED)
    )
    assert launched.tpot_s == pytest.approx(plain.tpot_s)


@pytest.mark.parametrize("sequences", [90, 101, 200])
@pytest.mark.parametrize("split", [EIGHT, Parallelism(tp=4, pp=2)])
def test_one_at_a_time_in_arrays_served_and_simulated_a_decode_waits_alike(
    small, h100, sequences, split
):
    stages = split.pp
    alone = decoded(small, h100, LAUNCHED, float(sequences), split).tpot_s[0]
    arrays = decoded(small, h100, LAUNCHED, np.array([float(sequences), 90.0]), split).tpot_s[0]
    load = Traffic(16.0, 16.0, float(sequences))
    served = serve(small, h100, load, split, LAUNCHED).decode_step_s[0]
    assert arrays == pytest.approx(alone)
    assert served == pytest.approx(alone, rel=1e-3)
    if stages == 1:
        tables = StepTables.of(small, h100, split, LAUNCHED)
        simulated, _ = tables([RankWork(sequences, sequences * 24, [])])
        assert simulated == pytest.approx(alone, rel=1e-2)


def test_served_and_simulated_answers_wait_for_launches_alike(small, h100):
    """150 users: more than the largest graph holds."""
    isl, osl, users, count = 16, 200, 150, 1500
    draws = np.random.default_rng(0)
    lengths = (draws.integers(round(0.8 * most), most + 1, count) for most in (isl, osl))
    requests = Requests(np.zeros(count), *lengths)
    traffic = Traffic(float(isl), float(osl), float(users), length_ratio=0.8)
    served, captured = (serve(small, h100, traffic, EIGHT, by) for by in (LAUNCHED, CAPTURED))
    simulated = simulate(
        small, h100, requests, EIGHT, LAUNCHED, concurrency=users, counted=range(300, 1200)
    ).summary()
    assert served.tpot_s[0] == pytest.approx(simulated["tpot_mean_s"], rel=0.05)
    assert served.tpot_s[0] > 2.0 * captured.tpot_s[0]


def test_every_stage_of_a_pipeline_launches_its_own(small, h100):
    split = Parallelism(tp=4, pp=2)
    whole = estimated(small, h100, LAUNCHED, 300.0, EIGHT).ttft_s[0]
    staged = estimated(small, h100, LAUNCHED, 300.0, split).ttft_s[0]
    assert staged == pytest.approx(whole, rel=0.05)


def test_a_longer_prompt_never_takes_less(small, h100):
    isl = np.arange(50.0, 20_000.0, 150.0)
    assert np.all(np.diff(estimated(small, h100, LAUNCHED, isl).ttft_s) > -1e-9)


def test_compiled_steps_of_other_devices_launch_nothing(small):
    tpu = hardware_db.load("tpu-v6e")
    plain, launched = (
        estimated(small, tpu, engine, 300.0, Parallelism(tp=4)) for engine in (CAPTURED, LAUNCHED)
    )
    assert launched.ttft_s == pytest.approx(plain.ttft_s)


@pytest.mark.parametrize("split", [Parallelism(dp=8), Parallelism(tp=2, dp=4), Parallelism(dp=16)])
@pytest.mark.parametrize("engine", ["sglang", "vllm", "generic"])
def test_a_prompt_on_one_of_several_ranks_is_read_as_a_static_batch_of_one(split, engine):
    """Shared experts run for the rank's own tokens, routed ones for those of all ranks."""
    model, system = model_registry.load("deepseek-ai/DeepSeek-V3"), hardware_db.load("h200")
    physics = replace(hardware_db.load_engine(engine), measurements=None, neighbours=None)
    split = replace(split, ep=split.dp * split.tp)
    static = genz_core.estimate(model, system, Workload(1.0, 4000.0, 64.0), split, physics)
    served = serve(model, system, Traffic(4000.0, 64.0, 1.0), split, physics)
    assert served.prefill_s[0] == pytest.approx(static.ttft_s[0], rel=1e-3)
    assert served.ttft_s[0] >= served.prefill_s[0]
    assert served.tpot_s[0] == pytest.approx(static.tpot_s[0], rel=1e-2)


def test_releases_that_ran_compiled_engines_launch_nothing():
    before, after = (hardware_db.load_engine(f"trtllm {version}") for version in ("0.9", "1.0"))
    assert before.prompt_launch_s == 0.0 < after.prompt_launch_s


@pytest.mark.parametrize(
    ("version", "system", "sequences", "query", "tokens", "prompts"),
    [
        ("0.6", "h100-sxm5-80gb", 0, 1, 256, 0),
        ("0.9", "h100-sxm5-80gb", 8, 1, 512, 512),
        ("0.10", "h100-sxm5-80gb", 8, 1, 16, 512),
        ("0.19", "h100-sxm5-80gb", 8, 4, 64, 512),
        ("0.19", "h100-sxm5-80gb", 0, 1, 512, 512),
        ("0.27", "b200-sxm-180gb", 0, 1, 512, 512),
        ("0.28", "b200-sxm-180gb", 0, 1, 1024, 512),
        ("0.28", "b200-sxm-180gb", 400, 1, 800, 512),
        ("", "gb200-nvl72", 0, 1, 1024, 512),
        ("", "h100-sxm5-80gb", 0, 1, 512, 512),
        ("", "rtx-4090", 0, 1, 512, 512),
    ],
)  # fmt: skip
def test_a_release_of_vllm_captures_what_its_source_says(
    small, version, system, sequences, query, tokens, prompts
):
    """`_set_cudagraph_sizes` of vllm/config/vllm.py and what came before it, by hand."""
    engine = hardware_db.load_engine("vllm", version)
    engine = deploy(small, hardware_db.load(system), engine).engine
    assert engine.captured_tokens(query, sequences) == tokens
    assert engine.graph_prompt_tokens == prompts


@pytest.mark.parametrize("name", ["sglang", "trtllm", "generic"])
def test_without_a_modelled_limit_no_decode_step_waits_for_launches(small, h100, name):
    engine = deploy(small, h100, hardware_db.load_engine(name)).engine
    assert not engine.launches_decodes
    assert engine.captured_tokens() == np.inf


@pytest.mark.parametrize("sequences", [0, 8])
def test_vllm_captures_steps_of_1024_tokens_of_gpt_oss(h100, sequences):
    """`GptOssForCausalLMConfig` of vllm/model_executor/models/config.py; with drafts, too."""
    model = model_registry.load("openai/gpt-oss-20b")
    engine = hardware_db.load_engine("vllm", "0.19")
    drafts = speculative_model(model, Speculation("ngram", Acceptance.of_rate(0.5, 3)))
    for drafted in (model, drafts):
        found = deploy(drafted, h100, engine).engine
        assert found.captured_tokens(1, sequences) == found.replayed_tokens(1024, False) == 1024
        assert found.replayed_tokens(1024, reads=True) == 512

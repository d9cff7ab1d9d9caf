"""Model, system and engine are combined in one place, and combining twice changes nothing."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

import genz_core
import hardware_db
import model_registry
from genz_core import EngineProfile, Parallelism, Precision, Workload
from genz_core.deployment import as_server, deploy, recipe_key
from genz_core.eager import Unfused, eager_engine
from genz_core.engine import EagerFacts, EngineMeasurements, MeasuredRecipe, Recipe, ServerDefaults
from genz_core.models.adapters import Adapters, adapted_model
from genz_core.serving import Traffic, serve
from genz_core.serving.simulation.deployment import Site
from genz_core.types import Step

H200 = hardware_db.load("h200")
LLAMA = model_registry.load("meta-llama/Llama-3.1-8B")
SCALES = Recipe(tpot_scale=1.5, ttft_scale=2.0, points=4)


@pytest.fixture
def measured(model, system) -> EngineProfile:
    """An engine with factors for a device and a recipe."""
    engine = EngineProfile("fast", host_step_s=1e-3)
    key = recipe_key(engine, model, system)
    return replace(
        engine,
        measurements=EngineMeasurements(
            {system.slug: {"host_step_s": 2.0, "memory_efficiency": 1.0}},
            {key: MeasuredRecipe(SCALES, {"host_step_s": 3.0})},
        ),
    )


def test_device_and_recipe_multiply_the_constants_and_bring_their_scales(model, system, measured):
    engine = deploy(model, system, measured).engine
    assert engine.host_step_s == pytest.approx(6e-3)
    assert engine.memory_efficiency == measured.memory_efficiency
    assert (engine.measured_on, engine.recipe) == ("recipe", SCALES)


def test_boards_of_one_silicon_share_what_was_learned_of_it(model, system, measured):
    shared = {system.family: {"host_step_s": 1.1, "compute_efficiency": 0.8}}
    both = replace(measured, measurements=replace(measured.measurements, silicon=shared))
    sibling = deploy(model, replace(system, slug="sibling"), both).engine
    assert sibling.host_step_s == pytest.approx(1.1e-3)
    assert sibling.compute_efficiency == pytest.approx(0.8)
    assert sibling.measured_on == ""
    assert deploy(model, system, both).engine.host_step_s == pytest.approx(6.6e-3)
    other = replace(system, slug="other", family="another")
    assert deploy(model, other, both).engine.compute_efficiency == measured.compute_efficiency


def test_runs_of_older_releases_alone_say_nothing_of_todays(model, system, measured):
    slow = {system.family: {"compute_efficiency": 0.5}}
    old = replace(
        measured.measurements,
        silicon=slow,
        eras={"old": {"host_step_s": 4.0}},
        past=frozenset({system.family, system.slug}),
    )
    today = deploy(model, system, replace(measured, measurements=replace(old, recipes={}))).engine
    assert today == replace(measured, measurements=None) and today.measured_on == ""
    then = deploy(model, system, replace(measured, measurements=old, era="old")).engine
    assert then.compute_efficiency == pytest.approx(0.5 * measured.compute_efficiency)
    assert then.host_step_s == pytest.approx(8e-3)
    learned = hardware_db.load_engine("vllm").measurements
    assert "cdna3" in learned.past and "hopper" not in learned.past


def test_elsewhere_the_profile_alone_holds(model, system, measured):
    engine = deploy(model, replace(system, slug="elsewhere"), measured).engine
    assert engine == replace(measured, measurements=None)
    assert engine.measured_on == ""


def test_deploying_twice_changes_nothing(model, system, measured):
    once = deploy(model, system, measured)
    twice = deploy(once.model, once.system, once.engine)
    assert (twice.engine, twice.model) == (once.engine, once.model)


def test_every_door_of_the_engine_applies_what_was_measured(model, system, measured):
    tuned = deploy(model, system, measured).engine
    load, traffic = Workload(2, 100, 10), Traffic(100, 10, concurrency=2)
    split = Parallelism()
    for engine in (measured, tuned):
        estimate = genz_core.estimate(model, system, load, engine=engine)
        assert estimate.engine == tuned
        assert genz_core.decode_step(model, system, 2, 100, split, engine).engine == tuned
        assert genz_core.prefill(model, system, load, split, engine).engine == tuned
        assert genz_core.decode(model, system, load, split, engine).engine == tuned
    plain = replace(tuned, recipe=Recipe())
    scaled, unscaled = (serve(model, system, traffic, split, e) for e in (measured, plain))
    assert scaled.tpot_s == pytest.approx(1.5 * unscaled.tpot_s, rel=1e-3)


def test_an_eager_engine_prices_its_own_kernels_through_every_door(model, system):
    facts = EagerFacts(1e-3, 1e-3, norm_passes=4.0)
    eager = eager_engine(EngineProfile(), facts)
    deployed = deploy(model, system, eager)
    assert isinstance(deployed.executed, Unfused) and deployed.model is model
    again = deploy(deployed.executed, system, deployed.engine)
    assert again.executed == deployed.executed
    names = [op.name for op in genz_core.decode_step(model, system, 1, 9, None, eager).graph.ops]
    assert "cache_append" in names


@pytest.mark.parametrize(
    ("keeps", "chosen_by", "cache"),
    [
        ("model", "convention", "bf16"),
        ("model", "asked", "fp8"),
        ("model", "checkpoint", "fp8"),
        ("checkpoint", "convention", "fp8"),
    ],
)
def test_an_engine_keeps_its_own_cache_only_where_nobody_chose_one(
    model, system, keeps, chosen_by, cache
):
    precision = Precision({"default": "bf16", "mlp": "fp8"}, kv="fp8", kv_source=chosen_by)
    engine = EngineProfile("e", kv_cache=keeps)
    deployed = deploy(model.with_precision(precision), system, engine)
    assert deployed.model.precision.kv == cache
    assert bool(deployed.notes) == (cache == "bf16")
    estimate = genz_core.estimate(model.with_precision(precision), system, engine=engine)
    assert estimate.model.precision.kv == cache and deployed.notes == estimate.notes


GIBI = 2.0**30


@pytest.mark.parametrize(
    ("engine", "slug", "limits"),
    [
        ("vllm", "l40s", (2048, 256)),  # vllm/engine/arg_utils.py, get_batch_defaults
        ("vllm", "a100-sxm4-80gb", (2048, 256)),
        ("vllm", "h100-sxm5-80gb", (8192, 1024)),
        ("vllm", "b200-sxm-180gb", (16384, 1024)),
        ("vllm 0.28.0", "mi300x", (16384, 1024)),
        ("vllm 0.27.1", "b200-sxm-180gb", (8192, 1024)),
        ("sglang", "rtx-4090", (2048, 2048)),  # sglang/srt/server_args.py, by release
        ("sglang", "l40s", (4096, 2048)),
        ("sglang", "h100-sxm5-80gb", (8192, 2048)),
        ("sglang", "h200-sxm-141gb", (8192, 2048)),
        ("sglang", "mi300x", (16384, 2048)),
        ("sglang 0.5.1", "l40s", (8192, 2048)),
        ("sglang 0.4.6", "b200-sxm-180gb", (8192, 2048)),
        ("trtllm", "l40s", (8192, 2048)),  # equal on every device
        ("trtllm 0.12", "h100-sxm5-80gb", (8192, 256)),
        ("llama.cpp", "rtx-4090", (2048, 4)),
        ("llama.cpp b5000", "rtx-4090", (2048, 1)),
    ],
)
def test_a_server_starts_with_the_limits_of_its_release_and_its_device(engine, slug, limits):
    server = as_server(hardware_db.load_engine(engine), hardware_db.load(slug))
    assert (server.chunk_tokens, server.max_sequences) == limits
    assert as_server(server, hardware_db.load("b300-sxm-288gb")) is server


@pytest.mark.parametrize(
    ("engine", "slug", "share"),
    [
        ("vllm", "h100-sxm5-80gb", 0.92),
        ("vllm 0.20.2", "h100-sxm5-80gb", 0.9),
        ("vllm 2025-06", "rtx-4090", 0.9),
        # SGLang's own sum, in MiB, on one device; the file rounds it
        ("sglang", "rtx-4090", 1 - (512 + 1.5 * 2048 + 2 * 24 + 128) / (24 * 1024)),
        ("sglang", "h100-sxm5-80gb", 1 - (512 + 1.5 * 8192 + 2 * 256 + 128) / (80 * 1024)),
        ("sglang", "mi300x", 1 - (512 + 1.5 * 16384 + 2 * 512 + 128) / (192 * 1024)),
        ("sglang 0.5.1", "h100-sxm5-80gb", 1 - 10 / 80),
        ("llama.cpp", "rtx-4090", 1 - 1 / 24),
    ],
)
def test_a_server_takes_the_share_of_memory_of_its_release_and_its_device(engine, slug, share):
    server = as_server(hardware_db.load_engine(engine), hardware_db.load(slug))
    assert server.memory_fraction == pytest.approx(share, abs=1e-3)


def test_of_every_figure_the_first_default_that_states_it_counts():
    first = ServerDefaults(24 * GIBI, (), {"chunk_tokens": 1}, outside_bytes=2 * GIBI)
    second = ServerDefaults(math.inf, (), {"chunk_tokens": 2, "max_sequences": 3}, 4 * GIBI)
    engine = EngineProfile("e", on_start=(first, second))
    small, large = (replace(hardware_db.load("h100"), memory_bytes=n * GIBI) for n in (16, 80))
    found = as_server(engine, small)
    assert (found.chunk_tokens, found.max_sequences, found.memory_fraction) == (1, 3, 14 / 16)
    found = as_server(engine, large)
    assert (found.chunk_tokens, found.max_sequences, found.memory_fraction) == (2, 3, 76 / 80)
    assert as_server(engine, hardware_db.load("epyc-9654")) is engine


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_one_user_and_a_batch_of_one_read_a_long_prompt_in_the_same_steps(engine):
    """On an A100 vLLM's server reads 2,048 tokens in a step, SGLang's 8,192."""
    model, system = model_registry.load("Qwen/Qwen3-8B"), hardware_db.load("a100-sxm4-80gb")
    profile = hardware_db.load_engine(engine)
    batch = genz_core.estimate(model, system, Workload(1, 18_000, 24), engine=profile)
    one = serve(model, system, Traffic(18_000, 24, concurrency=1), engine=profile)
    assert batch.ttft_s == pytest.approx(one.prefill_s, rel=1e-6)
    assert batch.tpot_s == pytest.approx(one.tpot_s, rel=1e-6)


def test_a_step_of_a_batch_that_was_asked_for_stays():
    """What is deployed has the server's tokens of a step; changed, it keeps those given."""
    system = hardware_db.load("a100-sxm4-80gb")
    deployed = deploy(model_registry.load("Qwen/Qwen3-8B"), system, hardware_db.load_engine("vllm"))
    assert deployed.engine.chunk_tokens == 2048
    told = replace(deployed.engine, chunk_tokens=4096)
    assert deploy(deployed.model, system, told).engine.chunk_tokens == 4096
    assert as_server(told, system).chunk_tokens == 4096


def test_a_simulation_starts_with_the_limits_of_the_same_server():
    site = Site.of(
        model_registry.load("meta-llama/Llama-3.1-8B"), hardware_db.load("l40s"),
        hardware_db.load_engine("vllm"), Parallelism(),
    )  # fmt: skip
    assert (site.engine.chunk_tokens, site.engine.max_sequences) == (2048, 256)


# ------------------------------------------------------------------------------- what it fills up


@pytest.mark.parametrize("engine", ["sglang", "trtllm"])
def test_an_engine_with_expert_slots_fills_up_the_experts_of_uneven_ranks(engine):
    """256 experts on 48 ranks: 6 on each, 288 in all, equal to 32 redundant ones."""
    loaded = model_registry.load("deepseek-ai/DeepSeek-V3")
    model = deploy(loaded, H200, hardware_db.load_engine(engine)).model
    odd = Parallelism(dp=48, ep=48)
    assert model.invalid(odd) is None
    filled, stated = (
        next(op for op in model.graph(Step.decode(96, 1000), split).ops if op.kind == "moe")
        for split in (odd, replace(odd, redundant_experts=32))
    )
    assert filled == stated and filled.dims["experts"] == 6
    assert filled.dims["experts_total"] == 288


@pytest.mark.parametrize("engine", ["vllm", "generic"])
def test_an_engine_without_slots_refuses_uneven_ranks(engine):
    model = model_registry.load("deepseek-ai/DeepSeek-V3")
    deployed = deploy(model, H200, hardware_db.load_engine(engine))
    assert "ep 48 does not divide the 256 experts" in str(
        deployed.model.invalid(Parallelism(dp=48, ep=48))
    )


@pytest.mark.parametrize("engine", ["vllm", "generic"])
@pytest.mark.parametrize(
    ("tp", "heads", "kv_heads", "columns"),
    [
        (24, 2, 1, 598),  # 48 heads for 32; 24 copies of 8; 14,352 columns for 14,336
        (12, 3, 3, 1195),  # 36 heads; 8 and 12 do not divide: keys and values for each query head
        (16, 2, 1, 896),  # nothing is padded
    ],
)
def test_neuron_fills_up_heads(engine, tp, heads, kv_heads, columns):
    deployed = deploy(LLAMA, hardware_db.load("trn2"), hardware_db.load_engine(engine))
    split = Parallelism(tp=tp)
    assert deployed.model.invalid(split) is None
    ops = {op.name: op for op in deployed.model.graph(Step.decode(1, 100), split).ops}
    assert ops["attention"].dims["heads"] == heads
    assert ops["attention"].dims["kv_heads"] == kv_heads
    assert ops["down_proj"].dims["k"] == columns


def test_others_refuse_heads_that_tp_does_not_divide_and_nobody_has_ranks_without_one():
    split = Parallelism(tp=24)
    here = deploy(LLAMA, H200, hardware_db.load_engine("vllm")).model
    assert "tp 24 does not divide the 32 attention heads" in str(here.invalid(split))
    there = deploy(LLAMA, hardware_db.load("trn2"), hardware_db.load_engine("vllm")).model
    assert "tp 48 does not divide the 32 attention heads" in str(there.invalid(Parallelism(tp=48)))


def test_a_model_around_another_is_filled_up_inside_and_once():
    engine = hardware_db.load_engine("sglang")
    model = adapted_model(model_registry.load("deepseek-ai/DeepSeek-V3"), Adapters(1, 8))
    first = deploy(model, H200, engine)
    assert first.model.invalid(Parallelism(dp=48, ep=48)) is None
    assert deploy(first.model, H200, engine).model is first.model
    assert deploy(LLAMA, H200, engine).model is LLAMA  # no experts


# ------------------------------------------------------------------------------- as it is loaded


def test_a_checkpoint_in_float32_weighs_four_bytes_a_parameter():
    """mamba-130m: 129 M parameters, its config says float32."""
    model = model_registry.load("state-spaces/mamba-130m-hf")
    ops = model.graph(Step.decode(1, 10), Parallelism()).ops
    products = [op for op in ops if op.kind == "gemm"]
    assert {op.weights for op in products} == {"fp32"}
    whole = sum(float(op.held_weight_bytes) * op.count for op in ops)
    assert whole == pytest.approx(4 * model.parameters, rel=0.01)
    held = genz_core.estimate(model, H200, Workload(1, 10, 10)).memory.weights_bytes[0]
    assert held == pytest.approx(whole)


@pytest.mark.parametrize("name", ["vllm", "sglang", "trtllm"])
def test_an_engine_that_loads_float32_in_16_bit_says_so(name):
    model, engine = model_registry.load("state-spaces/mamba-130m-hf"), hardware_db.load_engine(name)
    deployed = deploy(model, H200, engine)
    assert f"weights: fp16, as {name} loads a checkpoint in fp32" in deployed.notes
    precision = deployed.model.precision
    assert (precision.weights["default"], precision.kv, precision.activations) == ("fp16",) * 3
    asked = model_registry.load("state-spaces/mamba-130m-hf", weights="fp32")
    assert deploy(asked, H200, engine).model.precision.weights["default"] == "fp32"


def test_another_format_of_a_checkpoint_in_float32_leaves_nothing_in_it():
    model = model_registry.load("state-spaces/mamba-130m-hf", weights="fp8")
    assert "fp32" not in {*model.precision.weights.values(), model.precision.activations}


def test_llama_cpp_keeps_what_is_beside_experts_in_mxfp4_in_eight_bits():
    """gpt-oss-20b: 19.1 B parameters of experts at 4.25 bits and 1.8 B at 8.5: 12.1 GB, equal to
    the published file (gpt-oss-20b-mxfp4.gguf); 13.8 GB if the latter have 16 bits, as in other
    engines.
    """
    model, engine = model_registry.load("openai/gpt-oss-20b"), hardware_db.load_engine("llama.cpp")
    held, other = (
        genz_core.estimate(model, H200, Workload(1, 10, 10), engine=loaded).memory.weights_bytes[0]
        for loaded in (engine, hardware_db.load_engine("vllm"))
    )
    assert held == pytest.approx(12.1e9, rel=0.005) and other == pytest.approx(13.76e9, rel=0.005)
    ops = deploy(model, H200, engine).model.graph(Step.decode(1, 10), Parallelism()).ops
    formats = {op.name: op.weights for op in ops}
    assert (formats["qkv_proj"], formats["experts"], formats["lm_head"]) == (
        "q8_0",
        "mxfp4",
        "q8_0",
    )
    assert formats["router"] == "bf16"
    wished = model_registry.load("openai/gpt-oss-20b", weights="bf16")
    assert deploy(wished, H200, engine).model.precision.weights == {"default": "bf16"}

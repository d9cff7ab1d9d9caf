"""Graphs traced from a config alone agree with the builders' to a tenth of a percent."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from genz_core.errors import RidgelineError
from genz_core.graphs import Model
from genz_core.types import Parallelism, Precision, Step
from model_registry.finding.catalog import shipped_models
from model_registry.reports.symbolic import graph_total
from model_registry.reports.traces_page import FURTHER
from model_registry.tracing import trace
from model_registry.tracing.capture import record_pass
from model_registry.tracing.meta_model import build_on_meta, default_config, language_parameters
from tests.model_registry.shared_models import built, traced
from tests.model_registry.tracing_cases import STEPS, TINY, facts, tiny
from tests.rules import for_every

pytestmark = pytest.mark.usefixtures("transformers")

#: One shipped model of each family that differs in kind, four of which run by day.
SOME = (
    "meta-llama/Llama-3.1-8B",
    "mistralai/Mixtral-8x7B-v0.1",
    "deepseek-ai/DeepSeek-V3.2",
    "deepseek-ai/DeepSeek-V4-Flash",
    "nvidia/MiniMax-M3-NVFP4",
    "Qwen/Qwen3.5-35B-A3B",
    "nvidia/Nemotron-H-56B-Base-8K",
    "meta-llama/Llama-4-Scout-17B-16E-Instruct",
    "openai/gpt-oss-20b",
    "XiaomiMiMo/MiMo-V2-Flash",
    "google/gemma-4-26B-A4B",
    "google/gemma-4-E2B",
    "google/recurrentgemma-2b",
    "meituan-longcat/LongCat-Flash-Chat",
    "meta-llama/Llama-3.2-11B-Vision-Instruct",
    "microsoft/Phi-tiny-MoE-instruct",
    "Zyphra/Zamba2-1.2B",
    "tiiuae/falcon-40b",
)
#: Types, or single names, that transformers does not run as decoders, by words of the error.
REFUSED = {
    "no class for it": {
        "arctic", "baichuan", "bailing_moe", "bailing_moe_v2", "chatglm", "deepseek",
        "deepseek_vl_v2", "grok-1", "grok-2", "hunyuan", "internlm2", "kimi_k3",
        "longcat_flash_ngram", "minicpm", "minicpm_sala", "minimax_m1", "mistral_large_3",
        "moondream3", "nemotron-nas", "qwen", "rwkv7", "step3_text",
    },
    "encoder-only model": {
        "bert", "modernbert", "roberta", "xlm-roberta", "google/embeddinggemma-300m",
    },
    "encoder-decoder": {"bart", "m2m_100", "t5", "t5gemma", "whisper"},
    "diffusion language model": {"Dream", "llada", "llada2_moe"},
    "cannot be run without weights": {"gemma3n_text"},
    "glm4v_moe_text": {"glm4v_moe_text"},
    "ernie4_5_vl_moe_text": {"ernie4_5_vl_moe_text"},
}  # fmt: skip


def agree(name: str) -> None:
    builder, tracer = built(name), traced(name)
    assert builder.parameters == tracer.parameters
    assert builder.active_parameters == pytest.approx(tracer.active_parameters, rel=1e-3)
    for step in STEPS.values():
        assert facts(builder, step) == pytest.approx(facts(tracer, step), rel=1e-3)
        graphs = [model.graph(step, Parallelism()) for model in (builder, tracer)]
        assert graphs[0].layers == graphs[1].layers


@pytest.mark.by_day(4)
@pytest.mark.parametrize("name", SOME)
def test_builder_and_trace_agree_to_a_tenth_of_a_percent(name: str) -> None:
    agree(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(shipped_models()) - set(SOME)))
def test_builder_and_trace_agree_for_every_shipped_model(name: str) -> None:
    """Or the trace refuses the model, with a reason."""
    known = {name, shipped_models()[name].model_type}
    refusals = [words for words, members in REFUSED.items() if known & members]
    if not refusals:
        agree(name)
        return
    with pytest.raises(RidgelineError, match=refusals[0]):
        traced(name)


@pytest.mark.by_day(4)
@pytest.mark.parametrize("model_type", TINY)
def test_every_parameter_of_the_class_is_held_by_an_operator(model_type: str) -> None:
    counted, _ = language_parameters(build_on_meta(tiny(model_type)).model)
    model = trace(tiny(model_type))
    graph = model.graph(Step.decode(1.0, 8.0), Parallelism())
    assert model.parameters == counted
    assert graph_total(graph, "held_weight_bytes") / 2 == pytest.approx(counted, rel=1e-4)


@pytest.mark.slow
def test_default_configs_of_further_types_trace_or_say_why_not() -> None:
    refusals, models = [], []
    for model_type in FURTHER:
        try:
            models.append(trace(default_config(model_type), use_cache=False))
        except RidgelineError as refusal:
            refusals.append(str(refusal))
    assert len(models) >= 55 and len(models) + len(refusals) == len(FURTHER)
    assert all(sentence and "\n" not in sentence for sentence in refusals)
    for model in models:
        graph = replace(model, precision=Precision()).graph(STEPS["decode"], Parallelism())
        parameters = graph_total(graph, "held_weight_bytes") / 2
        noted = any("parameters" in note for note in model.program.notes)
        assert noted or parameters == pytest.approx(model.parameters, rel=1e-3), model.name


def test_a_traced_model_is_a_model_for_the_engine() -> None:
    assert isinstance(trace(tiny("llama")), Model)


@for_every(["mixtral", "deepseek_v3", "gpt_oss"])
def test_replaying_equal_layers_records_what_running_all_of_them_does(model_type: str) -> None:
    model = build_on_meta(tiny(model_type)).model
    replayed, _ = record_pass(model, 2, 6)
    run, _ = record_pass(model, 2, 6, replay=False)
    assert [len(s.layers) for s in run if s.layers] == [1] * tiny(model_type)["num_hidden_layers"]
    count = sum(len(s.records) * max(len(s.layers), 1) for s in replayed)
    assert count == sum(len(s.records) for s in run)


def test_arrays_of_configurations_are_loops_of_scalars() -> None:
    model = trace(tiny("mixtral"))
    batch, context = np.array([1.0, 8.0, 64.0]), np.array([7.0, 900.0, 30.0])
    tp = np.array([1, 2, 4])
    many = model.graph(Step.decode(batch, context), Parallelism(tp=tp))
    for at in range(3):
        single = model.graph(Step.decode(batch[at], context[at]), Parallelism(tp=tp[at]))
        for array, scalar in zip(many.ops, single.ops, strict=True):
            for figure in ("flops", "message_bytes"):
                whole = np.broadcast_to(getattr(array, figure), 3)[at]
                assert whole == pytest.approx(float(getattr(scalar, figure))), (array.name, figure)


@pytest.mark.parametrize(
    "name",
    [
        "meta-llama/Llama-3.1-8B",
        "mistralai/Mixtral-8x7B-v0.1",
        "deepseek-ai/DeepSeek-V3.2",
        "Qwen/Qwen3.5-35B-A3B",
        "nvidia/Nemotron-H-56B-Base-8K",
        "nvidia/MiniMax-M3-NVFP4",
    ],
)
@pytest.mark.parametrize(
    "split", [Parallelism(tp=4), Parallelism(tp=2, dp=2, ep=4), Parallelism(tp=16)]
)
def test_splits_divide_a_trace_as_they_divide_a_builder(name: str, split: Parallelism) -> None:
    for step in STEPS.values():
        graphs = [model.graph(step, split) for model in (built(name), traced(name))]
        for figure in ("flops", "weight_bytes", "held_kv_bytes", "message_bytes"):
            by_builder, by_trace = (graph_total(graph, figure) for graph in graphs)
            assert by_builder == pytest.approx(by_trace, rel=2e-3), figure


@for_every(SOME)
def test_a_trace_refuses_the_degrees_that_its_builder_refuses(name: str) -> None:
    verdicts = set()
    for degrees in product((1, 2, 3, 8, 128), (1, 4), (1, 2), (1, 2, 5)):
        split = Parallelism(**dict(zip(("tp", "pp", "dp", "ep"), degrees, strict=True)))
        allowed = built(name).invalid(split) is None
        assert (traced(name).invalid(split) is None) == allowed, split
        verdicts.add(allowed)
    assert verdicts == {True, False}


def test_degrees_that_do_not_divide_are_named_with_the_nearest() -> None:
    mixtral = trace(tiny("mixtral"), name="tiny")
    assert mixtral.invalid(Parallelism(tp=3)) == (
        "tp 3 does not divide the 4 attention heads of tiny; nearest: tp 2 or 4"
    )
    assert mixtral.invalid(Parallelism(pp=3)) == "pp 3 exceeds the 2 layers of tiny"
    assert mixtral.invalid(Parallelism(tp=2, dp=1, ep=2)) is None


def test_a_quantised_checkpoint_keeps_its_map() -> None:
    quantisation = {"quant_method": "fp8", "modules_to_not_convert": ["lm_head"]}
    model = trace({**tiny("llama"), "quantization_config": quantisation})
    formats = {op.name: op.weights for op in model.graph(STEPS["decode"], Parallelism()).ops}
    assert formats["qkv_proj"] == "fp8"
    assert formats["lm_head"] == "bf16"


def test_precision_by_layer_splits_equal_layers() -> None:
    mixed = Precision({"default": "fp8"}, by_layer={(0, "mlp.down"): "bf16"})
    model = trace({**tiny("llama"), "num_hidden_layers": 4}).with_precision(mixed)
    downs = [op for op in model.graph(STEPS["decode"], Parallelism()).ops if op.name == "down_proj"]
    assert [(op.layers, op.weights) for op in downs] == [((0,), "bf16"), ((1, 2, 3), "fp8")]

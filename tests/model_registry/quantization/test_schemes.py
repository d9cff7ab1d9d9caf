"""Each quantisation scheme gives each tensor its format."""

from typing import Any

import pytest

from genz_core.errors import InvalidValue, RidgelineError, UnknownPrecision
from genz_core.types import Parallelism, Precision, Step
from model_registry.quantization.module_patterns import ModulePatterns
from model_registry.quantization.resolve import resolve_precision
from model_registry.quantization.roles import ENDS, KEPT, MODULES
from model_registry.reports.symbolic import graph_total
from tests.model_registry.shared_models import built, checkpoint_precision

LLAMA = {"model_type": "llama", "num_hidden_layers": 4, "torch_dtype": "bfloat16"}
ROLES = (*MODULES, *ENDS)
LINEAR_ROLES = tuple(role for role in ROLES if role not in KEPT)


def quantized(block: dict[str, Any], **more: Any) -> Precision:
    return resolve_precision({**LLAMA, "quantization_config": block, **more})


def formats(precision: Precision, *roles: str) -> tuple[str, ...]:
    return tuple(precision.weight(role, 0) for role in roles)


# ------------------------------------------------------------------------------- no quantisation


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [("bfloat16", "bf16"), ("float16", "fp16"), ("float32", "fp32"), (None, "bf16")],
)
def test_an_unquantised_checkpoint_is_in_its_dtype(dtype: str | None, expected: str) -> None:
    precision = resolve_precision({"torch_dtype": dtype} if dtype else {})
    assert {precision.weight(role) for role in ROLES} == {expected}
    assert (precision.kv, precision.activations) == (expected, expected)


def test_a_silent_checkpoint_says_why_it_is_in_16_bit() -> None:
    assert "names no dtype" in resolve_precision({}).source


def test_a_vision_model_keeps_its_dtype_in_the_text_part() -> None:
    assert resolve_precision({"text_config": {"dtype": "float16"}}).kv == "fp16"


# ------------------------------------------------------------------------------- dialects


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        ({"quant_method": "fp8"}, "fp8"),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8_block"),
        ({"quant_method": "fbgemm_fp8"}, "fp8"),
        ({"quant_method": "awq", "bits": 4}, "int4"),
        ({"quant_method": "awq", "w_bit": 4}, "int4"),
        ({"quant_method": "gptq", "bits": 8}, "int8"),
        ({"quant_method": "gptq", "bits": 4, "group_size": 128}, "int4"),
        ({"quant_method": "gptq", "bits": 4, "group_size": 32}, "int4_g32"),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, "int8"),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "int4"),
        ({"quant_method": "mxfp4"}, "mxfp4"),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "nvfp4"),
        ({"quant_algo": "FP8", "producer": {"name": "modelopt"}}, "fp8"),
    ],
)
def test_a_uniform_scheme_covers_linear_layers_and_spares_the_rest(
    block: dict[str, Any], expected: str
) -> None:
    precision = quantized(block)
    assert {precision.weight(role, 2) for role in LINEAR_ROLES} == {expected}
    assert formats(precision, "embedding", "lm_head", "router", "vision") == ("bf16",) * 4
    assert precision.weight("norm") == "bf16"


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ({"num_bits": 8, "type": "float", "strategy": "channel"}, "fp8"),
        ({"num_bits": 8, "type": "float", "strategy": "block"}, "fp8_block"),
        ({"num_bits": 4, "type": "float", "group_size": 16}, "nvfp4"),
        ({"num_bits": 4, "type": "float", "group_size": 32}, "mxfp4"),
        ({"num_bits": 4, "type": "int", "group_size": 128}, "int4"),
        ({"num_bits": 4, "type": "int", "group_size": 32}, "int4_g32"),
        ({"num_bits": 8, "type": "int"}, "int8"),
    ],
)
def test_compressed_tensors_says_its_format_by_bits_and_groups(
    weights: dict[str, Any], expected: str
) -> None:
    block = {
        "quant_method": "compressed-tensors",
        "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights}},
        "ignore": ["lm_head", "re:.*mlp\\.down_proj"],
    }
    assert formats(quantized(block), "attention.q", "mlp.up", "mlp.down") == (
        expected,
        expected,
        "bf16",
    )


def test_int8_activations_are_kept_apart_from_int8_weights() -> None:
    group = {"targets": ["Linear"], "weights": {"num_bits": 8, "type": "int"}}
    block = {"quant_method": "compressed-tensors", "config_groups": {"g": group}}
    assert quantized(block).activations == "bf16"
    group["input_activations"] = {"num_bits": 8, "type": "int"}
    assert quantized(block).activations == "int8"


@pytest.mark.parametrize(
    "kept",
    ["model.layers.1.self_attn", "model.layers.1.self_attn*", "model.layers.1.self_attn.q_proj"],
)
def test_a_layer_left_out_stays_16_bit_and_its_neighbours_do_not(kept: str) -> None:
    precision = quantized({"quant_method": "fp8", "modules_to_not_convert": [kept]})
    assert precision.weight("attention.q", 1) == "bf16"
    assert precision.weight("attention.q", 0) == "fp8" == precision.weight("attention.q", 2)


def test_layer_1_is_not_layer_10() -> None:
    block = {"quant_method": "fp8", "modules_to_not_convert": ["model.layers.1.*"]}
    precision = resolve_precision({**LLAMA, "num_hidden_layers": 12, "quantization_config": block})
    assert precision.weight("mlp.up", 1) == "bf16"
    assert precision.weight("mlp.up", 10) == "fp8"


@pytest.mark.parametrize(
    "kept",
    [
        ["model.layers.{1..2,5}.mlp*", "model.layers.5.self_attn.q_proj", "lm_head"],
        ["model.layers.1*", "*.experts.*"],
        [r"re:.*layers\.[37]\.self_attn.*", "model.layers.{0..9}.mlp.gate_proj"],
        ["*layers.3.*", "model.layers.{2..4}.mlp"],
    ],
)
def test_each_layer_has_the_format_that_its_own_patterns_give(kept: list[str]) -> None:
    block = {"quant_method": "fp8", "modules_to_not_convert": kept}
    config = {**LLAMA, "num_hidden_layers": 12, "quantization_config": block}
    precision, patterns = resolve_precision(config), ModulePatterns.parse(kept)
    for role in ("attention.q", "mlp.up", "mlp.down"):
        for layer in range(12):
            left_out = any(patterns.match(f"layers.{layer}.{name}") for name in MODULES[role])
            assert precision.weight(role, layer) == ("bf16" if left_out else "fp8"), (role, layer)


def test_a_run_of_layers_is_written_short() -> None:
    short = {"quant_method": "fp8", "modules_to_not_convert": ["model.layers.{0..1,3}.mlp"]}
    spelled = [f"model.layers.{n}.mlp" for n in (0, 1, 3)]
    long = {"quant_method": "fp8", "modules_to_not_convert": spelled}
    assert quantized(short) == quantized(long)


def test_the_router_pattern_gate_does_not_match_gate_proj() -> None:
    precision = quantized({"quant_method": "fp8", "modules_to_not_convert": ["gate"]})
    assert formats(precision, "mlp.up", "router") == ("fp8", "bf16")


@pytest.mark.parametrize(
    "scheme", ["FP8", {"num_bits": 8, "type": "float"}, {"num_bits": 8, "type": "int"}]
)
def test_a_checkpoint_may_name_its_cache(scheme: object) -> None:
    group = {"weights": {"num_bits": 8, "type": "float"}}
    block = {"config_groups": {"g": group}, "kv_cache_scheme": scheme}
    expected = "int8" if isinstance(scheme, dict) and scheme["type"] == "int" else "fp8"
    assert quantized(block).kv == expected


# ------------------------------------------------------------------------------- real checkpoints


def test_gpt_oss_has_mxfp4_experts_and_bf16_attention() -> None:
    precision = checkpoint_precision("openai/gpt-oss-120b")
    assert formats(precision, "experts.up", "experts.down") == ("mxfp4", "mxfp4")
    assert formats(precision, "attention.qkv", "attention.o", "router", "lm_head") == ("bf16",) * 4


def test_deepseek_v3_is_fp8_in_blocks_throughout_but_for_its_ends() -> None:
    precision = checkpoint_precision("deepseek-ai/DeepSeek-V3")
    assert formats(precision, "attention.kv_b", "experts.up", "mtp") == ("fp8_block",) * 3
    assert formats(precision, "router", "embedding", "lm_head") == ("bf16",) * 3


def test_deepseek_v4_has_fp4_experts_beside_fp8_blocks() -> None:
    precision = checkpoint_precision("deepseek-ai/DeepSeek-V4-Pro")
    assert formats(precision, "experts.up", "shared_experts.up") == ("mxfp4", "fp8_block")
    nvidia = checkpoint_precision("nvidia/DeepSeek-V4-Pro-NVFP4")
    assert formats(nvidia, "experts.up", "attention.q_a") == ("nvfp4", "fp8_block")


def test_deepseek_v31_nvfp4_leaves_the_latent_projections_at_16_bit() -> None:
    precision = checkpoint_precision("nvidia/DeepSeek-V3.1-NVFP4")
    latent = ("attention.q_a", "attention.q_b", "attention.kv_a", "attention.kv_b")
    assert formats(precision, *latent) == ("bf16",) * 4
    assert formats(precision, "attention.o", "experts.up") == ("nvfp4", "nvfp4")
    assert precision.kv == "fp8"


def test_kimi_k25_quantises_only_its_routed_experts() -> None:
    precision = checkpoint_precision("moonshotai/Kimi-K2.5")
    kept = ("attention.o", "shared_experts.up", "mlp.up", "lm_head")
    assert formats(precision, *kept) == ("bf16",) * 4
    assert precision.weight("experts.down", 30) == "int4_g32"


def test_kimi_k2_thinking_holds_the_bytes_of_its_checkpoint() -> None:
    # 594 GB on the Hugging Face hub: simonwillison.net/2025/Nov/6/kimi-k2-thinking
    model = built("moonshotai/Kimi-K2-Thinking")
    graph = model.graph(Step.decode(1.0, 1.0), Parallelism())
    assert graph_total(graph, "held_weight_bytes") == pytest.approx(594e9, rel=1e-3)


def test_minimax_m3_mixes_mxfp8_and_nvfp4_by_layer() -> None:
    precision = checkpoint_precision("nvidia/MiniMax-M3-NVFP4")
    assert precision.weight("mlp.up", 2) == "mxfp8"
    assert precision.weight("experts.up", 3) == "nvfp4"
    assert precision.weight("attention.q", 59) == "mxfp8"
    assert precision.weight("lm_head") == "bf16"


def test_gemma_4_quantises_its_experts_and_not_the_mlp_beside_them() -> None:
    precision = checkpoint_precision("nvidia/Gemma-4-26B-A4B-NVFP4")
    assert formats(precision, "experts.up", "mlp.up", "attention.q") == ("nvfp4", "bf16", "bf16")


def test_nemotron_3_nano_leaves_the_layers_before_attention_at_16_bit() -> None:
    precision = checkpoint_precision("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-NVFP4")
    assert precision.weight("ssm.in", 4) == "bf16"
    assert precision.weight("ssm.in", 0) == "nvfp4"
    assert precision.weight("attention.q", 5) == "bf16"


# ------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("block", "words"),
    [
        ({"quant_method": "aqlm"}, "quantisation method 'aqlm'"),
        ({"quant_method": "gptq", "bits": 5}, "5-bit int"),
        ({"quant_method": "modelopt", "quant_algo": "NVFP3"}, "algorithm 'NVFP3'; near: nvfp4"),
        ({"config_groups": {"g": {"weights": {"num_bits": 7, "type": "int"}}}}, "7-bit int"),
    ],
)
def test_a_scheme_nobody_described_is_refused(block: dict[str, Any], words: str) -> None:
    with pytest.raises(UnknownPrecision, match=words):
        quantized(block)


FP8 = {"quant_method": "fp8"}
#: Hostile or broken configurations, with words of the error of each.
HOSTILE: list[tuple[dict[str, Any], str]] = [
    ({"quantization_config": "fp8"}, "quantization_config is 'fp8', not a mapping"),
    ({"quantization_config": FP8, "num_hidden_layers": 10**9}, "num_hidden_layers = 1000000000"),
    (
        {"quantization_config": {**FP8, "modules_to_not_convert": ["re:(a+)+$"]}},
        r"the pattern '\(a\+\)\+\$' .* is too involved",
    ),
    (
        {"quantization_config": {**FP8, "modules_to_not_convert": ["re:("]}},
        "not a regular expression",
    ),
    (
        {"quantization_config": {**FP8, "modules_to_not_convert": "lm_head"}},
        "modules_to_not_convert is 'lm_head', not a list",
    ),
    ({"quantization_config": {"config_groups": ["group_0"]}}, "config_groups is .*not a mapping"),
    (
        {"quantization_config": {"quant_method": "modelopt", "quantized_layers": ["a"]}},
        "quantized_layers is .*not a mapping",
    ),
    ({"quantization_config": FP8, "hf_quant_config": [1]}, "hf_quant_config is .*not a mapping"),
    (
        {"quantization_config": {"config_groups": {"g": {"weights": 8}}}},
        "weights is 8, not a mapping",
    ),
    ({"torch_dtype": "int3"}, "int3"),
    ({"text_config": [1, 2]}, "text_config is .*not a mapping"),
    (
        {"quantization_config": {**FP8, "modules_to_not_convert": ["layers.{0..99999999}.mlp"]}},
        "not a list of layers",
    ),
]


@pytest.mark.parametrize(("config", "words"), HOSTILE)
def test_hostile_configurations_are_refused_in_a_sentence(
    config: dict[str, Any], words: str
) -> None:
    with pytest.raises(RidgelineError, match=words) as refusal:
        resolve_precision(config)
    assert "\n" not in str(refusal.value)


def test_a_layer_count_that_is_no_count_is_refused() -> None:
    with pytest.raises(InvalidValue, match="num_hidden_layers"):
        quantized({"quant_method": "fp8"}, num_hidden_layers=-1)

"""The reader compared with transformers' own models, built without weights on the meta device."""

import json
from typing import Any

import pytest

import model_registry

pytestmark = pytest.mark.slow

#: Parts outside of the decoder.
OTHER = ("visual", "vision", "projector", "audio")
#: Families with transformers' default configs, and with their switches inverted.
CASES: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in (
        "bloom", "cohere2", "deepseek_v3", "deepseek_v32", "deepseek_v4", "falcon", "falcon_mamba",
        "gemma", "gemma2", "gemma3", "glm", "glm4", "glm_moe_dsa", "gpt2", "gpt_neox", "gpt_oss",
        "gptj", "granite", "granitemoe", "jamba", "kimi_linear", "llama", "llama4", "mamba",
        "mamba2", "mimo_v2_flash", "minimax_m2", "minimax_m3_vl", "ministral3", "mistral",
        "mistral3", "mixtral", "nemotron_h", "olmo", "olmo2", "olmo3", "olmoe", "opt", "phi",
        "phi3", "phimoe", "qwen2", "qwen2_moe", "qwen2_vl", "qwen2_5_vl", "qwen3", "qwen3_moe",
        "qwen3_next", "qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe", "seed_oss", "smollm3",
        "starcoder2", "step3p7", "afmoe", "apertus", "arcee", "axk1", "cohere2_moe", "exaone4",
        "exaone_moe", "falcon_h1", "granitemoehybrid", "hyperclovax", "laguna", "lfm2", "minimax",
        "olmo_hybrid", "recurrent_gemma", "cwm", "gemma3n_text", "gemma4_unified", "helium",
        "iquestcoder", "jais2", "kolibri1", "mellum", "muse_glimmer", "vaultgemma", "youtu",
    )),
    ("dots1", {"n_routed_experts": 8, "n_shared_experts": 2, "num_experts_per_tok": 2}),
    ("hunyuan_v1_dense", {"head_dim": 128}),
    ("lfm2_moe", {"layer_types": ["conv", "full_attention"] * 16}),
    ("granitemoehybrid", {"layer_types": ["linear_attention", "full_attention"] * 16}),
    ("cohere2_moe", {"num_shared_experts": 2, "prefix_dense_intermediate_size": 1000,
                     "mlp_layer_types": ["dense"] * 2 + ["sparse"] * 38}),
    ("gemma4", {}),
    ("gemma4_text", {"num_kv_shared_layers": 10, "use_double_wide_mlp": True}),
    ("falcon", {"alibi": True, "parallel_attn": False, "multi_query": False, "bias": True}),
    ("stablelm", {"use_parallel_residual": True, "qk_layernorm": True}),
    ("phi", {"qk_layernorm": True}),
    ("cohere", {"use_qk_norm": True}),
    ("nemotron", {"head_dim": 128, "num_key_value_heads": 8}),
    ("gpt_neox", {"use_parallel_residual": False, "attention_bias": False}),
    ("opt", {"word_embed_proj_dim": 512, "do_layer_norm_before": False}),
    ("glm4_moe", {"use_qk_norm": True, "attention_bias": True}),
    ("zamba2", {"use_shared_attention_adapter": True, "num_mem_blocks": 2}),
]  # fmt: skip


@pytest.mark.parametrize(("model_type", "switches"), CASES)
def test_parameters_are_those_of_transformers_model(
    model_type: str, switches: dict[str, Any]
) -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers", minversion="5.0")
    config = transformers.AutoConfig.for_model(model_type, **switches)
    kind = "AutoModelForImageTextToText" if hasattr(config, "vision_config") else ""
    with torch.device("meta"):
        model = getattr(transformers, kind or "AutoModelForCausalLM").from_config(config)
    counted = sum(
        parameter.numel()
        for name, parameter in model.named_parameters()
        if not any(part in name for part in OTHER)
    )
    written = json.loads(config.to_json_string(use_diff=False))
    assert model_registry.load(written).parameters == counted

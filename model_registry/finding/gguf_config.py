"""A config.json made from the header of a GGUF file, with the format of each tensor.

Keys: ggml-org/llama.cpp, gguf-py/gguf/constants.py (`Keys`, `MODEL_ARCH_NAMES`, `TENSOR_NAMES`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, BinaryIO

from genz_core.errors import InvalidValue, UnsupportedModel
from model_registry.finding.gguf import GgufHeader, read_header

#: `model_type` of a config.json by the architecture of a GGUF file.
_TYPES: Mapping[str, str] = {
    **{"llama": "llama", "mistral3": "ministral3", "qwen2": "qwen2", "qwen2vl": "qwen2"},
    **{"qwen2moe": "qwen2_moe", "qwen3": "qwen3", "qwen3vl": "qwen3", "qwen3moe": "qwen3_moe"},
    **{"qwen3vlmoe": "qwen3_moe", "gemma": "gemma", "gemma2": "gemma2", "gemma3": "gemma3_text"},
    **{"phi3": "phi3", "deepseek2": "deepseek_v3", "glm4": "glm4", "glm4moe": "glm4_moe"},
    **{"gpt-oss": "gpt_oss", "olmo2": "olmo2", "olmoe": "olmoe", "granite": "granite"},
    **{"granitemoe": "granitemoe", "command-r": "cohere", "cohere2": "cohere2"},
    **{"starcoder2": "starcoder2", "internlm2": "internlm2", "smollm3": "smollm3"},
    **{"seed_oss": "seed_oss", "minimax-m2": "minimax_m2", "hunyuan-dense": "hunyuan_v1_dense"},
    **{"ernie4_5": "ernie4_5", "exaone4": "exaone4", "dots1": "dots1", "arcee": "arcee"},
    **{"bailingmoe2": "bailing_moe_v2", "apertus": "apertus", "nemotron": "nemotron"},
    **{"stablelm": "stablelm"},
}
#: Keys of a config.json by those of a GGUF file, without the architecture's prefix.
_KEYS: Mapping[str, str] = {
    "block_count": "num_hidden_layers",
    "embedding_length": "hidden_size",
    "feed_forward_length": "intermediate_size",
    "context_length": "max_position_embeddings",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.key_length": "head_dim",
    "attention.sliding_window": "sliding_window",
    "attention.q_lora_rank": "q_lora_rank",
    "attention.kv_lora_rank": "kv_lora_rank",
    "expert_count": "num_experts",
    "expert_used_count": "num_experts_per_tok",
    "expert_shared_count": "num_shared_experts",
    "expert_feed_forward_length": "moe_intermediate_size",
    "expert_shared_feed_forward_length": "shared_expert_intermediate_size",
    "leading_dense_block_count": "first_k_dense_replace",
}
#: Modules of a checkpoint by the tensors of a GGUF layer.
_MODULES: Mapping[str, tuple[str, ...]] = {
    "attn_q": ("self_attn.q_proj",),
    "attn_k": ("self_attn.k_proj",),
    "attn_v": ("self_attn.v_proj",),
    "attn_qkv": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "attn_output": ("self_attn.o_proj",),
    "attn_q_a": ("self_attn.q_a_proj",),
    "attn_q_b": ("self_attn.q_b_proj",),
    "attn_kv_a_mqa": ("self_attn.kv_a_proj_with_mqa",),
    "attn_kv_b": ("self_attn.kv_b_proj",),
    "attn_k_b": ("self_attn.kv_b_proj",),
    "ffn_gate": ("mlp.gate_proj",),
    "ffn_up": ("mlp.up_proj", "mlp.gate_proj"),
    "ffn_down": ("mlp.down_proj",),
    "ffn_up_exps": ("mlp.experts.0.up_proj", "mlp.experts.0.gate_proj"),
    "ffn_gate_up_exps": ("mlp.experts.0.up_proj", "mlp.experts.0.gate_proj"),
    "ffn_down_exps": ("mlp.experts.0.down_proj",),
    "ffn_up_shexp": ("mlp.shared_experts.up_proj", "mlp.shared_experts.gate_proj"),
    "ffn_down_shexp": ("mlp.shared_experts.down_proj",),
    "ffn_gate_inp": ("mlp.gate",),
}
_ENDS: Mapping[str, str] = {"token_embd.weight": "embed_tokens", "output.weight": "lm_head"}
_LAYER = re.compile(r"blk\.(\d{1,4})\.([a-z_]+)\.weight")


def gguf_config(stream: BinaryIO) -> dict[str, Any]:
    """A config.json of the model in a GGUF file, with its tensors' formats as
    `quantization_config`.

    Raises:
        InvalidValue: not a GGUF file, or a damaged one.
        UnsupportedModel: an unsupported architecture, or layers of different sizes.
    """
    header = read_header(stream)
    architecture = str(header.facts.get("general.architecture", ""))
    if architecture not in _TYPES:
        raise UnsupportedModel(
            f"GGUF files of architecture {architecture[:40]!r} are not read ({', '.join(_TYPES)} "
            "are); give the config.json of the original model and name the format in --weights"
        )
    config = _sizes(header, architecture)
    _of_family(config, header, architecture)
    name = header.facts.get("general.name") or header.facts.get("general.basename")
    label = {"_id": str(name)[:120]} if name else {}
    formats = {"quant_method": "gguf", "tensors": _formats(header)}
    return {**label, **config, "torch_dtype": "float16", "quantization_config": formats}


def _sizes(header: GgufHeader, architecture: str) -> dict[str, Any]:
    """The keys that all architectures share."""
    config: dict[str, Any] = {"model_type": _TYPES[architecture]}
    for key, name in _KEYS.items():
        value = header.facts.get(f"{architecture}.{key}")
        if isinstance(value, list):
            if len(set(value)) != 1:
                raise UnsupportedModel(
                    f"the GGUF file's {key} differs from layer to layer, which is not read; "
                    "give the config.json of the original model"
                )
            value = value[0]
        if value is not None:
            config[name] = value
    shape, _ = header.tensors.get("token_embd.weight", ((), ""))
    if len(shape) != 2 or "hidden_size" not in config:
        raise InvalidValue("the GGUF file has no token table or states no width")
    config["vocab_size"] = shape[1]
    config["tie_word_embeddings"] = "output.weight" not in header.tensors
    config["attention_bias"] = "blk.0.attn_q.bias" in header.tensors
    return config


def _of_family(config: dict[str, Any], header: GgufHeader, architecture: str) -> None:
    """The keys of one family, added to `config`."""
    facts, count = header.facts, int(config.get("num_hidden_layers", 0))
    if architecture == "llama" and config.get("num_experts"):
        config["model_type"] = "mixtral"
    if config["model_type"] == "gpt_oss":
        kinds = ["sliding_attention", "full_attention"] * (min(count, 4096) // 2 + 1)
        config["layer_types"] = kinds[:count]
    if config["model_type"] == "ministral3":
        config.pop("sliding_window", None)
    if architecture == "deepseek2":
        rotary = int(facts.get("deepseek2.rope.dimension_count", 64))
        key = facts.get("deepseek2.attention.key_length_mla")
        key = key or facts.get("deepseek2.attention.key_length", 0)
        value = facts.get("deepseek2.attention.value_length_mla")
        value = value or facts.get("deepseek2.attention.value_length", 0)
        config |= {"qk_rope_head_dim": rotary, "qk_nope_head_dim": int(key) - rotary}
        config |= {"v_head_dim": int(value), "num_key_value_heads": config["num_attention_heads"]}
        config.pop("head_dim", None)
    if not config.get("num_experts"):
        for key in ("num_experts", "num_experts_per_tok", "moe_intermediate_size"):
            config.pop(key, None)


def _formats(header: GgufHeader) -> dict[str, list[str]]:
    """{format: modules}; a single entry without a layer number where all layers agree."""
    found: dict[str, dict[int, str]] = {}
    named: dict[str, list[str]] = {}
    for name, (_, form) in header.tensors.items():
        if name in _ENDS:
            named.setdefault(form, []).append(_ENDS[name])
        layer = _LAYER.fullmatch(name)
        for module in _MODULES.get(layer[2], ()) if layer else ():
            found.setdefault(module, {})[int(layer[1]) if layer else 0] = form
    if "output.weight" not in header.tensors and "token_embd.weight" in header.tensors:
        named.setdefault(header.tensors["token_embd.weight"][1], []).append("lm_head")
    for module, by_layer in found.items():
        forms = set(by_layer.values())
        for layer_at, form in by_layer.items() if len(forms) > 1 else [(-1, forms.pop())]:
            path = module if layer_at < 0 else f"layers.{layer_at}.{module}"
            named.setdefault(form, []).append(path)
    return named

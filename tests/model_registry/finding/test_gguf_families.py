"""Keys of a family in a GGUF header, as the format's specification defines them.

Source: ggml-org/ggml, docs/gguf.md.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Mapping
from typing import Any

import pytest

from genz_core.errors import InvalidValue, UnsupportedModel
from model_registry.finding.gguf_config import gguf_config

_UINT32, _STRING, _ARRAY = 4, 8, 9
_F16 = 1


def string(text: str) -> bytes:
    return struct.pack("<Q", len(text)) + text.encode()


def value(what: Any) -> bytes:
    """A value after the number of its type."""
    if isinstance(what, str):
        return struct.pack("<I", _STRING) + string(what)
    if isinstance(what, list):
        numbers = b"".join(struct.pack("<I", one) for one in what)
        return struct.pack("<IIQ", _ARRAY, _UINT32, len(what)) + numbers
    return struct.pack("<II", _UINT32, what)


def gguf(facts: Mapping[str, Any], tensors: Mapping[str, tuple[int, ...]]) -> io.BytesIO:
    """A header with these facts and 16-bit tensors."""
    data = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(facts))
    data += b"".join(string(key) + value(what) for key, what in facts.items())
    for name, shape in tensors.items():
        extents = struct.pack(f"<I{len(shape)}Q", len(shape), *shape)
        data += string(name) + extents + struct.pack("<IQ", _F16, 0)
    return io.BytesIO(data)


def config(architecture: str, changed: Mapping[str, Any] | None = None, **own: Any) -> dict:
    sizes = {
        "block_count": 4, "embedding_length": 64, "feed_forward_length": 128,
        "attention.head_count": 8, "attention.head_count_kv": 2, "context_length": 512,
    }  # fmt: skip
    keys = {f"{architecture}.{key}": what for key, what in {**sizes, **(changed or {})}.items()}
    facts = {"general.architecture": architecture, "general.name": "tiny", **keys, **own}
    return gguf_config(gguf(facts, {"token_embd.weight": (64, 1000)}))


def test_latent_attention_splits_its_keys_into_a_plain_and_a_rotary_part():
    """192 per key, of which 64 are rotary; values of 128; as many key heads as query heads."""
    older = {"attention.key_length": 192, "attention.value_length": 128}
    newer = {"attention.key_length": 576, "attention.value_length": 512,
             "attention.key_length_mla": 192, "attention.value_length_mla": 128}  # fmt: skip
    for keys in (older, newer):
        found = config("deepseek2", {**keys, "rope.dimension_count": 64})
        assert (found["qk_nope_head_dim"], found["qk_rope_head_dim"]) == (128, 64)
        assert (found["v_head_dim"], found["num_key_value_heads"]) == (128, 8)
        assert "head_dim" not in found


def test_layers_of_gpt_oss_alternate_and_a_llama_with_experts_is_a_mixtral():
    found = config("gpt-oss", {"expert_count": 8, "expert_used_count": 2})
    assert found["layer_types"] == ["sliding_attention", "full_attention"] * 2
    mixture = config("llama", {"expert_count": 8, "expert_used_count": 2})
    assert (mixture["model_type"], mixture["num_experts_per_tok"]) == ("mixtral", 2)
    dense = config("llama")
    assert dense["model_type"] == "llama" and "num_experts" not in dense


def test_a_head_that_is_not_there_is_the_table_of_tokens():
    found = config("llama")
    assert found["tie_word_embeddings"] and found["vocab_size"] == 1000
    [modules] = found["quantization_config"]["tensors"].values()
    assert set(modules) == {"embed_tokens", "lm_head"}


def test_sizes_that_differ_from_layer_to_layer_are_refused_and_equal_ones_are_one():
    same = config("llama", {"attention.head_count_kv": [2, 2, 2, 2]})
    assert same["num_key_value_heads"] == 2
    with pytest.raises(UnsupportedModel, match="differs from layer to layer"):
        config("llama", {"attention.head_count_kv": [2, 2, 4, 4]})


def test_a_file_without_a_table_of_tokens_is_no_model():
    facts = {"general.architecture": "llama", "llama.embedding_length": 64}
    with pytest.raises(InvalidValue, match="no token table"):
        gguf_config(gguf(facts, {"output.weight": (64, 1000)}))

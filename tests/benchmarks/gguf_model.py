"""A GGUF file of random weights for llama.cpp's server, with a tokenizer of one token a word.

The weights are those of a checkpoint that `own_server.write_model` wrote, so that two servers may
run one model; each matrix is stored in the format asked for (the `gguf` package quantises it).
"""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

from genz_core.common.installation import pip_install
from genz_core.errors import InvalidValue, MeasurementError
from profilers.collect.measured_model import libraries
from profilers.collect.serving.prompts import WORDS

#: Formats of matrices by the names of the question: type of a tensor in GGUF.
FORMATS = {"f32": "F32", "fp16": "F16", "bf16": "BF16", "q8_0": "Q8_0", "q4_0": "Q4_0"}
#: Types of tokens in GGUF: an ordinary one, the unknown one, one that ends an answer.
_NORMAL, _UNKNOWN, _CONTROL = 1, 2, 3


def write(checkpoint: Path, file: Path, weights: str) -> None:
    """Write the GGUF file of a checkpoint of a Qwen3 shape.

    Raises:
        MeasurementError: torch, transformers or gguf is missing.
        InvalidValue: a format that is not written here, or another architecture.
    """
    if weights not in FORMATS:
        raise InvalidValue(f"weights = {weights!r}: give one of {', '.join(FORMATS)}")
    _, transformers = libraries()
    if importlib.util.find_spec("gguf") is None:
        raise MeasurementError(f"a GGUF file needs gguf; run: {pip_install('gguf')}")
    import gguf

    config = json.loads((checkpoint / "config.json").read_text(encoding="utf-8"))
    if config["model_type"] != "qwen3":
        raise InvalidValue(f"model_type = {config['model_type']!r}: give a checkpoint of qwen3")
    layers = int(config["num_hidden_layers"])
    writer = gguf.GGUFWriter(file, "qwen3")
    writer.add_block_count(layers)
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(config["head_dim"])
    writer.add_value_length(config["head_dim"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(float(config.get("rope_theta") or 10_000.0))
    writer.add_file_type(gguf.LlamaFileType.GUESSED)
    _add_tokenizer(writer, int(config["vocab_size"]))
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.QWEN3, layers)
    model = transformers.AutoModelForCausalLM.from_pretrained(checkpoint, dtype="float32")
    tied = bool(config.get("tie_word_embeddings"))
    for name, tensor in model.state_dict().items():
        if tied and name == "lm_head.weight":
            continue
        values = tensor.numpy()
        kind = gguf.GGMLQuantizationType[FORMATS[weights] if values.ndim > 1 else "F32"]
        data = gguf.quants.quantize(values, kind)
        writer.add_tensor(names.get_name(name, (".weight",)), data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add_tokenizer(writer: Any, size: int) -> None:
    """Tokens of whole words, found by their likelihoods (T5's unigram model)."""
    words = [*WORDS, *(f"word{number}" for number in range(size))][: size - 2]
    writer.add_tokenizer_model("t5")
    writer.add_token_list(["<end>", "<unknown>", *(f"▁{word}" for word in words)])
    writer.add_token_scores([0.0, 0.0, *(-1.0 for _ in words)])
    writer.add_token_types([_CONTROL, _UNKNOWN, *(_NORMAL for _ in words)])
    writer.add_eos_token_id(0)
    writer.add_unk_token_id(1)
    writer.add_add_bos_token(False)
    writer.add_add_eos_token(False)
    writer.add_add_space_prefix(True)

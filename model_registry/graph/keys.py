"""The only reader of Hugging Face config keys.

A `Config` is read by canonical key, knows the other spellings of each, and remembers which keys
were read.  A key that is switched on, was not read and is not known to be harmless is refused: an
unknown change of shape must not silently become a default.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from genz_core.errors import InvalidValue, UnsupportedModel

#: Keys under which a multi-modal config stores its text model.
NESTED = ("text_config", "language_config", "llm_config", "thinker_config")
#: Other spellings of a canonical key, most usual first.
_ALIASES: Mapping[str, tuple[str, ...]] = {
    "hidden_size": ("n_embd", "d_model", "model_dim", "emb_size"),
    "num_hidden_layers": ("n_layer", "n_layers", "num_layers"),
    "num_attention_heads": ("n_head", "n_heads", "num_heads"),
    "num_key_value_heads": ("n_head_kv", "num_kv_heads", "multi_query_group_num", "kv_n_heads"),
    "head_dim": ("attention_head_dim", "kv_channels"),
    "intermediate_size": ("n_inner", "ffn_dim", "ffn_hidden_size", "inner_dim"),
    "vocab_size": ("padded_vocab_size",),
    "max_position_embeddings": ("n_positions", "max_seq_len", "seq_length", "max_sequence_length"),
    "num_experts": ("num_local_experts", "n_routed_experts", "moe_num_experts"),
    "num_experts_per_tok": (
        "num_experts_per_token",
        "top_k_experts",
        "experts_per_token",
        "moe_top_k",
        "moe_k",
        "num_selected_experts",
    ),
    "num_shared_experts": ("n_shared_experts",),
    "num_nextn_predict_layers": (
        "mtp_num_hidden_layers",
        "num_mtp_modules",
        "num_mtp_layers",
        "mtp_transformer_layers",
    ),
}
#: Keys that do not change the graph's shape: numerics, tokens, training, generation, bookkeeping.
_HARMLESS = re.compile(
    r"""^_ | _token(_id|_index)?s?$ | token_ids?$ | token_index$ | placeholder | dropout | pdrop
    | initializer | _init(_|$) | ^init_ | _std$ | eps(ilon)?$ | ^rope_ | rotary | _theta$ | mrope
    | ^yarn | softcap | loss | aux | logits?_scal | jitter | dtype$ | version | clip | clamp
    | _multiplier$ | scaling | ^(repetition|length|diversity)_penalty$ | ^num_beam | beta$
    | ^(architectures|auto_map|model_type|transformers_version|name_or_path|license|source)$
    | ^(id2label|label2id|num_labels|problem_type|task_specific_params|tokenizer_class|prefix)$
    | ^(use_cache|use_bfloat16|torchscript|return_dict|output_.*|is_(encoder_)?decoder)$
    | ^(temperature|top_k|top_p|typical_p|max_length|min_length|do_sample|early_stopping)$
    | ^(no_repeat_ngram_size|encoder_no_repeat_ngram_size|num_return_sequences|bad_words_ids)$
    | ^(chunk_size_feed_forward|pruned_heads|tie_encoder_decoder|finetuning_task|remove_.*)$
    | ^(pretraining_tp|ep_size|seq_aux|attn_implementation|gradient_checkpointing|fused_.*)$
    | ^(scoring_func|topk_method|n_group|topk_group|norm_topk_prob|num_expert_group)$
    | ^(moe_renormalize|moe_router_.*|use_grouped_topk|router_scal.*|normalize_expert_weights)$
    | ^(hidden_act|hidden_activation|activation_function|activation|mlp_hidden_act)$
    | ^(sep_token.*|ignore_index|vision_config|audio_config|activation_situ.*|gate_lower_bound)$
    | ^(quantization_config|hf_quant_config|expert_dtype|swiglu_.*)$
    | ^(max_window_layers|use_mamba_kernels|use_flash.*|use_cache_quant.*|time_step_.*)$
    | ^(num_logits_to_keep|rescale_prenorm_residual|residual_in_fp32|chunk_size)$
    | ^(query_pre_attn_scalar|original_max_position_embeddings|use_mambapy|use_associative_scan)$
    | ^(image_.*|video_.*|vision_(start|end|feature|soft).*|.*_soft_tokens_per_image|mm_.*)$
    """,
    re.VERBOSE,
)
_MISSING = object()


class Config:
    """A config.json, read by canonical key.

    Args:
        raw: the parsed mapping; the text model of a multi-modal config is found inside it.
        name: for messages.
    """

    def __init__(self, raw: Mapping[str, Any], name: str = "model") -> None:
        if not isinstance(raw, Mapping):
            raise InvalidValue(f"{name}: a config is a JSON object, not a {type(raw).__name__}")
        self.name, self.raw = name, raw
        self._keys: dict[str, Any] = _text_model(raw)
        self._read: set[str] = set()

    @property
    def model_type(self) -> str:
        """The text model's own type, or the config's.  Raises `UnsupportedModel`."""
        model_type = self._keys.get("model_type")
        if not isinstance(model_type, str) or not model_type:
            raise UnsupportedModel(
                f"{self.name}: the config has no model_type, so no architecture can be chosen; "
                "paste the whole config.json"
            )
        return model_type

    def __contains__(self, key: str) -> bool:
        return self.value(key, _MISSING) is not _MISSING

    def value(self, key: str, default: Any = None) -> Any:
        """The value of a canonical key under any of its spellings; `null` counts as absent."""
        value = default
        for spelling in reversed((key, *_ALIASES.get(key, ()))):
            self._read.add(spelling)
            if self._keys.get(spelling) is not None:
                value = self._keys[spelling]
        return value

    def integer(self, key: str, default: int | None = None) -> int:
        """A whole number of at least zero, or of at least one where there is no default.

        Raises:
            InvalidValue: missing without a default, negative, or not a whole number.
        """
        value = self.value(key, default)
        if value is None:
            raise InvalidValue(f"{self.name}: the config lacks {key!r}; add it or paste all of it")
        whole = isinstance(value, int | float) and math.isfinite(value) and value == int(value)
        if isinstance(value, bool) or not whole:
            raise InvalidValue(f"{self.name}: {key} is {value!r}, not a whole number")
        if value < (1 if default is None else 0) or value > 10**9:
            raise InvalidValue(f"{self.name}: {key} is {value}, outside the range of a model")
        return int(value)

    def at_least_one(self, key: str, default: int) -> int:
        """A whole number of at least one, such as a divisor.

        Raises:
            InvalidValue: zero, negative, or not a whole number.
        """
        value = self.integer(key, default)
        if value < 1:
            raise InvalidValue(f"{self.name}: {key} is {value}, outside the range of a model")
        return value

    def flag(self, key: str, default: bool = False) -> bool:
        """A truth value.  Raises `InvalidValue` for anything else."""
        value = self.value(key, default)
        if not isinstance(value, bool | int):
            raise InvalidValue(f"{self.name}: {key} is {value!r}, neither true nor false")
        return bool(value)

    def factor(self, key: str, default: float) -> float:
        """A finite number above zero.  Raises `InvalidValue` for anything else."""
        value = self.value(key, default)
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not 0 < value < math.inf:
            raise InvalidValue(f"{self.name}: {key} is {value!r}, not a number above zero")
        return float(value)

    def text(self, key: str, default: str = "") -> str:
        """A string.  Raises `InvalidValue` for anything else."""
        value = self.value(key, default)
        if not isinstance(value, str):
            raise InvalidValue(f"{self.name}: {key} is {value!r}, not a string")
        return value

    def sequence(self, key: str, default: Iterable[Any] = ()) -> list[Any]:
        """A list, such as a pattern of layers.  Raises `InvalidValue` for anything else."""
        value = self.value(key, default)
        if isinstance(value, str | Mapping) or not isinstance(value, Iterable):
            raise InvalidValue(f"{self.name}: {key} is {value!r}, not a list")
        return list(value)

    def integers(self, key: str, default: Iterable[int] = ()) -> list[int]:
        """A list of whole numbers, such as the indices of layers that differ.

        Raises:
            InvalidValue: anything else.
        """
        numbers = self.sequence(key, default)
        if not all(isinstance(number, int) and not isinstance(number, bool) for number in numbers):
            raise InvalidValue(f"{self.name}: {key} is {numbers!r}, not a list of whole numbers")
        return numbers

    def first_integer(self, key: str, default: int = 0) -> int:
        """A whole number, or the first of a list of them (with one entry per layer, or per kind of
        token).

        Raises:
            InvalidValue: anything else.
        """
        if isinstance(self.value(key), list):
            return (self.integers(key) or [default])[0]
        return self.integer(key, default)

    def section(self, key: str) -> Config:
        """The reader of a nested mapping; an empty one where the key is missing.

        Raises:
            InvalidValue: the key holds anything else.
        """
        value = self.value(key, {})
        if not isinstance(value, Mapping):
            raise InvalidValue(f"{self.name}: {key} is {value!r}, not an object")
        return Config(value, f"{self.name}.{key}")

    def pattern(self, key: str, layers: int, default: Iterable[Any]) -> list[Any]:
        """A list with one entry per layer; entries beyond the last layer are cut off.

        Raises:
            InvalidValue: the list is shorter than the model.
        """
        entries = self.sequence(key) or list(default)
        if len(entries) < layers:
            raise InvalidValue(f"{self.name}: {key} has {len(entries)} entries for {layers} layers")
        return entries[:layers]

    def overrides(self, layer: int) -> Config:
        """The reader of one layer's entry in `per_layer_config`; empty for most layers."""
        for key, own in self.section("per_layer_config")._keys.items():
            if str(key).isdigit() and int(key) == layer and isinstance(own, Mapping):
                return Config(own, f"{self.name} layer {layer}")
        return Config({}, self.name)

    def renamed(self, spellings: Mapping[str, str]) -> Config:
        """The same config with this family's own keys under their canonical names."""
        self.ignore(*self._keys)
        own = {spellings.get(key, key): value for key, value in self._keys.items()}
        return Config(own, self.name)

    def was_read(self, key: str) -> bool:
        """Whether a reader asked for this key, by this spelling or another."""
        return key in self._read

    def ignore(self, *keys: str) -> None:
        """Mark keys as understood, because they repeat others or do not change the
        graph's shape.
        """
        for key in keys:
            self._read.update((key, *_ALIASES.get(key, ())))

    def refuse_unknown(self) -> None:
        """Raise `UnsupportedModel` for keys that are switched on and were not understood."""
        unknown = sorted(
            key
            for key, value in self._keys.items()
            if key not in self._read and not _HARMLESS.search(key) and not _off(value)
        )
        if unknown:
            near = difflib.get_close_matches(unknown[0], sorted(self._read), n=3, cutoff=0.6)
            hint = f" (near {unknown[0]!r}: {', '.join(near)})" if near else ""
            raise UnsupportedModel(
                f"{self.name}: {', '.join(map(repr, unknown))} of this {self.model_type} config "
                f"may change the model's shape and are not described{hint}; remove it if it does "
                "not"
            )


def _off(value: Any) -> bool:
    """Whether a value switches nothing on: null, false, zero, empty."""
    return value is None or (
        isinstance(value, bool | int | float | str | list | dict) and not value
    )


def _text_model(raw: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of the text model, even if nested in other models (at most three levels deep)."""
    for _ in range(3):
        nested = next((raw[key] for key in NESTED if isinstance(raw.get(key), Mapping)), None)
        if nested is None:
            break
        raw = _joined(raw, nested)
    return dict(raw)


def _joined(raw: Mapping[str, Any], nested: Mapping[str, Any]) -> dict[str, Any]:
    """The text model's keys, plus `tie_word_embeddings` of the whole model where it has one."""
    tied = raw.get("tie_word_embeddings")
    outer = {} if tied is None else {"tie_word_embeddings": tied}
    return {"model_type": raw.get("model_type"), **nested, **outer}

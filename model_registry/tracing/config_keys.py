"""Which keys of a config its class ignores, fills in with defaults, or reads."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from genz_core.errors import InvalidValue

#: Most keys that a class does not declare; real configs have a few dozen.
LARGEST_UNDECLARED = 2_000
#: Keys that are removed before a class gets the config: formats are applied afterwards.
DROPPED = ("quantization_config", "compression_config", "auto_map", "torch_dtype", "dtype")
_SHAPELESS = (
    *("architectures", "model_type", "transformers_version", "auto_map", "use_cache", "prefix"),
    *("is_decoder", "add_cross_attention", "cross_attention_hidden_size", "finetuning_task"),
    *("torchscript", "pruned_heads", "use_bfloat16", "tf_legacy_loss", "tie_encoder_decoder"),
    *("tokenizer_class", "task_specific_params", "sep_token_id", "decoder_start_token_id"),
    *("bad_words_ids", "suppress_tokens", "begin_suppress_tokens", "rope_theta", "rope_scaling"),
    *("exponential_decay_length_penalty", "forced_bos_token_id", "forced_eos_token_id"),
)


def key_report(config: Mapping[str, Any], settings: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(keys of a config that its class ignores, keys that the class fills in with a default).

    config: as plain JSON.  settings: the transformers config object made of it.

    Raises:
        InvalidValue: more keys that the class does not declare than any model has.
    """
    generic = _base_keys()
    aliases = set(getattr(type(settings), "attribute_map", {}))
    own = {key for key in _declared(type(settings)) if key not in generic}
    strange = sorted(set(config) - own - aliases - generic - set(DROPPED))
    if len(strange) > LARGEST_UNDECLARED:
        raise InvalidValue(
            f"the config has {len(strange)} keys that {type(settings).__name__} does not know "
            f"(at most {LARGEST_UNDECLARED}); remove those that are not of its model"
        )
    ignored = tuple(_ignored(strange, config, settings))
    targets = {type(settings).attribute_map.get(key, key) for key in config}
    rotary = {"rope_parameters"} if {"rope_theta", "rope_scaling"} & set(config) else set()
    defaulted = tuple(sorted(own - targets - set(config) - rotary))
    return ignored, defaulted


def _ignored(keys: list[str], config: Mapping[str, Any], settings: Any) -> list[str]:
    """Undeclared keys without effect on the model, found by bisection."""
    if not keys or not _matters(set(keys), config, settings):
        return keys
    if len(keys) == 1:
        return []
    middle = len(keys) // 2
    first, second = (_ignored(half, config, settings) for half in (keys[:middle], keys[middle:]))
    return [*first, *second]


def _matters(keys: set[str], config: Mapping[str, Any], settings: Any) -> bool:
    """Whether undeclared keys change other entries of the config object."""
    entries = {k: v for k, v in config.items() if k not in (*DROPPED, "model_type")}
    fewer = {k: v for k, v in entries.items() if k not in keys}
    try:
        whole, less = (type(settings)(**e).to_dict() for e in (entries, fewer))
    except Exception:  # noqa: BLE001
        return True
    return any(whole.get(k) != less.get(k) for k in set(whole) | set(less) if k not in keys)


def _declared(kind: type) -> set[str]:
    """Names that a config class declares."""
    import inspect

    names = set(getattr(kind, "__dataclass_fields__", {})) | set(inspect.signature(kind).parameters)
    return {name for name in names if not name.startswith("_") and name != "kwargs"}


def _base_keys() -> set[str]:
    """Keys that do not change a model's shape: of the base class, of generation, of old files."""
    from transformers import GenerationConfig, PretrainedConfig

    base = _declared(PretrainedConfig) | set(PretrainedConfig().to_dict())
    return base | set(GenerationConfig().to_dict()) | set(_SHAPELESS)


@contextlib.contextmanager
def keys_read() -> Iterator[set[str]]:
    """The keys that a model reads from its config while it is built, declared or not.

    It patches a class of transformers meanwhile; the caller must hold `capture.ONE_AT_A_TIME`.
    """
    from transformers import PretrainedConfig

    original, read = PretrainedConfig.__getattribute__, set()

    def noting(self: Any, name: str) -> Any:
        read.add(name)
        return original(self, name)

    PretrainedConfig.__getattribute__ = noting
    try:
        yield read
    finally:
        PretrainedConfig.__getattribute__ = original

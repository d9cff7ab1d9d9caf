"""A model on the meta device from a config that nobody vouches for.

Every refusal is one sentence.  Sizes are checked before anything is built, remote code is never
run, and nothing is fetched.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from genz_core.errors import InvalidValue, MissingSpec, RidgelineError, UnsupportedModel
from model_registry.tracing.capture import ONE_AT_A_TIME
from model_registry.tracing.stand_ins import STAND_IN, reserve_names

Config = Mapping[str, Any]

#: Largest value of a key whose name ends so; a model beyond it is a typing mistake or an attack.
LIMITS: Mapping[str, float] = {
    "layers": 2_000,
    "layer": 2_000,
    "blocks": 2_000,
    "experts": 20_000,
    "heads": 20_000,
    "head": 20_000,
    "stages": 2_000,
}
LARGEST_SIZE = 2**31
LARGEST_CONFIG_BYTES = 4_000_000
LARGEST_MODULES = 60_000

#: Types that transformers knows by another name.  The parameter count vouches for each: the
#: aliased class must give the count of one of the family's checkpoints.
ALIASES: Mapping[str, str] = {
    "kimi_k2": "deepseek_v3",
    "mimo": "qwen2",
    "deepseek_ref": "deepseek_v4",
}
#: Types whose text config stands alone in a checkpoint and inside another one in transformers.
WRAPPED: Mapping[str, str] = {"step3p7": "step3p7", "minimax_m3": "minimax_m3_vl"}
#: Parameters of the families behind the aliases, and who says so.
PUBLISHED: Mapping[str, tuple[tuple[float, ...], str]] = {
    "kimi_k2": ((1.0264e12,), "moonshotai/Kimi-K2-Instruct safetensors index: 1,026,408,235,864"),
    "mimo": ((7.6e9,), "XiaomiMiMo/MiMo-7B-Base: 7B, counted on its own class without MTP"),
    "deepseek_ref": ((2.84e11, 1.573e12), "the deepseek_v4 configs of the same two models"),
    "minimax_m3": ((4.26e11,), "the minimax_m3_vl config of the same model"),
}
_SHAPELESS = (
    *("architectures", "model_type", "transformers_version", "auto_map", "use_cache", "prefix"),
    *("is_decoder", "add_cross_attention", "cross_attention_hidden_size", "finetuning_task"),
    *("torchscript", "pruned_heads", "use_bfloat16", "tf_legacy_loss", "tie_encoder_decoder"),
    *("tokenizer_class", "task_specific_params", "sep_token_id", "decoder_start_token_id"),
    *("bad_words_ids", "suppress_tokens", "begin_suppress_tokens", "rope_theta", "rope_scaling"),
    *("exponential_decay_length_penalty", "forced_bos_token_id", "forced_eos_token_id"),
)
_DROPPED = ("quantization_config", "compression_config", "auto_map", "torch_dtype", "dtype")


@dataclass(frozen=True, slots=True)
class Instance:
    """A model on the meta device and what its config said.

    ignored: keys of the config that the model class does not know.  defaulted: keys that the
    config leaves out and the class fills in.
    """

    model: Any
    config: Any
    model_type: str
    ignored: tuple[str, ...]
    defaulted: tuple[str, ...]


def require_torch() -> None:
    """Raises `MissingSpec` where the optional extra is not installed."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    try:
        import torch  # noqa: F401
        import transformers
    except ImportError:
        raise MissingSpec(
            "tracing needs torch and transformers, which are not installed; "
            "install them with: pip install 'ridgeline[profile]'"
        ) from None
    if int(transformers.__version__.split(".")[0]) < 5:
        raise MissingSpec(
            f"tracing needs transformers 5 or newer, found {transformers.__version__}; "
            "upgrade it with: pip install -U transformers"
        )


def checked(config: Config) -> dict[str, Any]:
    """A deep copy of `config` that holds plain JSON of bounded size.

    Raises:
        InvalidValue: not JSON, NaN, nested too deep, or a size beyond any model.
    """
    if not isinstance(config, Mapping):
        raise InvalidValue(f"a model config is a JSON object, not {type(config).__name__}")
    try:
        text = json.dumps(config)
    except RecursionError:
        raise InvalidValue("the config refers to itself or is nested too deep") from None
    except (TypeError, ValueError) as error:
        raise InvalidValue(f"the config is not plain JSON: {error}") from None
    if len(text) > LARGEST_CONFIG_BYTES:
        raise InvalidValue(f"the config has {len(text)} characters; no model needs so many")
    plain: dict[str, Any] = json.loads(text, object_hook=_number)
    _check_sizes(plain, "")
    return plain


def _number(entry: dict[str, Any]) -> Any:
    """transformers 5 writes infinity as {"__float__": "Infinity"}."""
    text = entry.get("__float__")
    return float(text) if text in ("Infinity", "-Infinity", "NaN") else entry


def _check_sizes(value: Any, key: str) -> None:
    """Refuse numbers that no model has, at any depth."""
    if isinstance(value, dict):
        for name, entry in value.items():
            _check_sizes(entry, str(name))
    elif isinstance(value, list):
        if len(value) > LARGEST_SIZE // 2**15:
            raise InvalidValue(f"{key} lists {len(value)} entries; no model has so many")
        for entry in value:
            _check_sizes(entry, key)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        if value != value:
            raise InvalidValue(f"{key} is NaN, which no model has; correct the config")
        limit = LIMITS.get(key.rpartition("_")[2], math.inf)
        if abs(value) > min(limit, math.inf if isinstance(value, float) else 2.0**62):
            raise InvalidValue(
                f"{key} = {value:g} is beyond any model (at most {limit:g}); correct the config"
            )


def build(config: Config) -> Instance:
    """The model of `config` on the meta device, in 16 bit, with its caches enabled.

    Raises:
        UnsupportedModel: transformers has no class of that type, or needs remote code for it.
        InvalidValue: sizes that are absurd or do not fit together.
        MissingSpec: torch or transformers is not installed.
    """
    plain = checked(config)
    require_torch()
    model_type = str(plain.get("model_type", ""))
    with quiet():
        settings = _settings(plain, model_type)
        model = _instantiate(settings, model_type)
        ignored, defaulted = _key_report(plain, settings)
    _vouch(model_type, model)
    return Instance(model, settings, model_type, ignored, defaulted)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """No warnings on a terminal or in a server's log."""
    from transformers.utils import logging

    level = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.set_verbosity(level)


def _settings(plain: dict[str, Any], model_type: str) -> Any:
    """The transformers config object of a plain config."""
    from transformers import CONFIG_MAPPING, AutoConfig

    known = ALIASES.get(model_type, model_type)
    wrapped = "text_config" not in plain and WRAPPED.get(model_type, "")
    known = wrapped or known
    if not known:
        raise UnsupportedModel("the config names no model_type; add the one of its model card")
    if known not in CONFIG_MAPPING:
        remote = (
            "it needs its publisher's own code, which is never run"
            if ("auto_map" in plain)
            else "this version of transformers has no class for it"
        )
        raise UnsupportedModel(f"model_type {model_type!r} cannot be traced: {remote}")
    entries = {k: v for k, v in plain.items() if k not in (*_DROPPED, "model_type")}
    if wrapped:
        entries = {"text_config": entries}
    try:
        return AutoConfig.for_model(known, **entries)
    except Exception as error:  # noqa: BLE001
        raise InvalidValue(
            f"transformers refuses this {model_type} config: {_first_line(error)}"
        ) from None


def _instantiate(settings: Any, model_type: str) -> Any:
    """The first auto class that takes the config, without initialising a weight."""
    import torch
    import transformers
    from transformers.initialization import no_init_weights

    reserve_names()
    _plain_kernels(settings)
    refusal: Exception | None = None
    for source in (settings, getattr(settings, "text_config", None)):
        for auto in (transformers.AutoModelForCausalLM, transformers.AutoModelForImageTextToText):
            if source is None or type(source) not in auto._model_mapping:
                continue
            for attention in (STAND_IN, "eager"):
                options = {"attn_implementation": attention, "experts_implementation": STAND_IN}
                try:
                    with ONE_AT_A_TIME, torch.device("meta"), no_init_weights(), _bounded_modules():
                        model = auto.from_config(source, dtype=torch.bfloat16, **options).eval()
                        model.tie_weights()
                        return model
                except RidgelineError:
                    raise
                except Exception as error:  # noqa: BLE001
                    refusal = error
    if refusal is None:
        raise UnsupportedModel(
            f"model_type {model_type!r} is no language model that generates text; "
            "give the config of a causal language model"
        )
    raise InvalidValue(
        f"the sizes of this {model_type} config do not make a model: {_first_line(refusal)}"
    ) from None


@contextlib.contextmanager
def _bounded_modules() -> Iterator[None]:
    """Stop a model that would fill the memory with modules before it has any weight."""
    import torch

    original, made = torch.nn.Module.__init__, 0

    def counting(self: Any, *args: Any, **kwargs: Any) -> None:
        nonlocal made
        made += 1
        if made > LARGEST_MODULES:
            raise InvalidValue(
                f"the config makes more than {LARGEST_MODULES} modules; no model has so many"
            )
        original(self, *args, **kwargs)

    torch.nn.Module.__init__ = counting
    try:
        yield
    finally:
        torch.nn.Module.__init__ = original


def _plain_kernels(settings: Any) -> None:
    """Reference code paths only: no compiled kernels that the meta device cannot run."""
    for part in (settings, getattr(settings, "text_config", None)):
        for name in ("use_mamba_kernels", "use_kernels"):
            if getattr(part, name, None):
                setattr(part, name, False)


def _key_report(plain: dict[str, Any], settings: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Keys that the class ignored, and keys that it took a default for."""
    language, given = settings, plain
    if isinstance(plain.get("text_config"), dict) and hasattr(settings, "text_config"):
        language, given = settings.text_config, plain["text_config"]
    generic = _base_keys()
    aliases = set(getattr(type(language), "attribute_map", {}))
    own = {key for key in _declared(type(language)) if key not in generic}
    strange = sorted(k for k in given if k not in own | aliases | generic | set(_DROPPED))
    matter = _matters(strange, given, language)
    ignored = tuple(k for k in strange if not (matter and _matters([k], given, language)))
    targets = {type(language).attribute_map.get(key, key) for key in given}
    rotary = {"rope_parameters"} if {"rope_theta", "rope_scaling"} & set(given) else set()
    defaulted = tuple(sorted(own - targets - set(given) - rotary))
    return ignored, defaulted


def _matters(keys: list[str], given: Mapping[str, Any], settings: Any) -> bool:
    """Whether undeclared keys change anything but themselves in the config that is read."""
    entries = {k: v for k, v in given.items() if k not in (*_DROPPED, "model_type")}
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
    """Keys that say nothing of a model's shape: of the base class, of generation, of old files."""
    from transformers import GenerationConfig, PretrainedConfig

    base = _declared(PretrainedConfig) | set(PretrainedConfig().to_dict())
    return base | set(GenerationConfig().to_dict()) | set(_SHAPELESS)


def _vouch(model_type: str, model: Any) -> None:
    """An alias holds only where the parameter count is that of the family."""
    if model_type not in PUBLISHED:
        return
    counts, source = PUBLISHED[model_type]
    parameters = language_parameters(model)[0]
    if all(abs(parameters / count - 1.0) > 0.01 for count in counts):
        other = ALIASES.get(model_type) or WRAPPED[model_type]
        raise UnsupportedModel(
            f"model_type {model_type!r}, read as {other!r}, gives {parameters / 1e9:.2f}B "
            f"parameters, which are not those of {source}; it cannot be traced"
        )


#: Parts of a multimodal model that a text prompt does not run.
_TOWERS = re.compile(
    r"(^|\.)(visual|vision\w*|audio\w*|multi_modal_projector|embed_vision|embed_audio|"
    r"image_newline|mm_projector|connector|mtp\w*|speech\w*|code2wav|talker|patch_merge\w*)(\.|$)"
)


def language_parameters(model: Any) -> tuple[float, float]:
    """Parameters of the language model, tied ones once, and those of other modalities."""
    language = towers = 0
    for name, parameter in model.named_parameters():
        if _TOWERS.search(name):
            towers += parameter.numel()
        else:
            language += parameter.numel()
    return float(language), float(towers)


def _first_line(error: BaseException) -> str:
    text = str(error).strip().splitlines()
    return (text[0] if text else type(error).__name__)[:200]

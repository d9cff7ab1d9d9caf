"""A model on the meta device, from a config of any origin.

Every refusal is one sentence.  Sizes are checked before anything is built, remote code is never
run, and nothing is downloaded.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from genz_core.common.installation import pip_install, pip_install_extra
from genz_core.errors import InvalidValue, MissingSpec, RidgelineError, UnsupportedModel
from model_registry.kinds import Kind, not_a_decoder
from model_registry.tracing.capture import ONE_AT_A_TIME
from model_registry.tracing.checks import bounded_modules, checked_config
from model_registry.tracing.config_keys import DROPPED, key_report, keys_read
from model_registry.tracing.stand_ins import STAND_IN, reserve_names

#: Types that transformers has under another name. Each is checked by parameter count: the aliased
#: class must give the count of one of the family's checkpoints.
ALIASES: Mapping[str, str] = {
    "kimi_k2": "deepseek_v3",
    "mimo": "qwen2",
    "deepseek_ref": "deepseek_v4",
}
#: Types whose text config is separate in a checkpoint but nested in transformers.
WRAPPED: Mapping[str, str] = {"step3p7": "step3p7", "minimax_m3": "minimax_m3_vl"}
#: Parameters of the families behind the aliases, and the source of the count.
PUBLISHED: Mapping[str, tuple[tuple[float, ...], str]] = {
    "kimi_k2": ((1.0264e12,), "moonshotai/Kimi-K2-Instruct safetensors index: 1,026,408,235,864"),
    "mimo": ((7.6e9,), "XiaomiMiMo/MiMo-7B-Base: 7B, counted on its own class without MTP"),
    "deepseek_ref": ((2.84e11, 1.573e12), "the deepseek_v4 configs of the same two models"),
    "minimax_m3": ((4.26e11,), "the minimax_m3_vl config of the same model"),
}


@dataclass(frozen=True, slots=True)
class MetaModel:
    """A model on the meta device, its config object, and a report on the config's keys.

    ignored: keys of the config that neither its class nor the model uses.
    defaulted: keys that the config leaves out and the class fills in.
    """

    model: Any
    config: Any
    model_type: str
    ignored: tuple[str, ...]
    defaulted: tuple[str, ...]


def require_torch() -> None:
    """Raise `MissingSpec` unless torch and transformers 5 are installed."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    try:
        import torch  # noqa: F401
        import transformers
    except ImportError:
        raise MissingSpec(
            "tracing needs torch and transformers, which are not installed; "
            f"install them with: {pip_install_extra('profile')}"
        ) from None
    if int(transformers.__version__.split(".")[0]) < 5:
        raise MissingSpec(
            f"tracing needs transformers 5 or newer, found {transformers.__version__}; "
            f"upgrade it with: {pip_install('-U', 'transformers')}"
        )


def build_on_meta(config: Mapping[str, Any]) -> MetaModel:
    """The model of `config` on the meta device, in 16 bit, with its caches enabled.

    Raises:
        NotADecoder: the class is of another kind.
        UnsupportedModel: transformers has no class of that type, or needs remote code for it.
        InvalidValue: sizes that are absurd or do not fit together.
        MissingSpec: torch or transformers is not installed.
    """
    plain = checked_config(config)
    require_torch()
    model_type = str(plain.get("model_type", ""))
    with quiet():
        settings = _settings(plain, model_type)
        _refuse_other_kinds(settings, model_type)
        unknown, defaulted = _key_report(plain, settings, model_type)
        model, read = _instantiate(settings, model_type)
    _check_alias(model_type, model)
    ignored = tuple(key for key in unknown if key not in read)
    return MetaModel(model, settings, model_type, ignored, defaulted)


def default_config(model_type: str) -> dict[str, Any]:
    """The config of a type at its class's defaults, as plain JSON.

    Raises:
        KeyError: transformers has no such type.
        InvalidValue: the class has no defaults that it accepts itself.
        MissingSpec: torch or transformers is not installed.
    """
    require_torch()
    from transformers import CONFIG_MAPPING

    with quiet():
        try:
            settings = CONFIG_MAPPING[model_type]()
        except KeyError:
            raise
        except Exception as error:  # noqa: BLE001 - each class checks itself in its own way
            raise InvalidValue(
                f"transformers refuses its own defaults of {model_type}: {one_line(error)}"
            ) from None
    written: dict[str, Any] = json.loads(settings.to_json_string(use_diff=False))
    return {**written, "model_type": model_type}


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Silence the warnings of torch and transformers."""
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

    wrapped = "text_config" not in plain and WRAPPED.get(model_type, "")
    mapped = wrapped or ALIASES.get(model_type, model_type)
    if not mapped:
        raise UnsupportedModel("the config names no model_type; add the one of its model card")
    if mapped not in CONFIG_MAPPING:
        remote = (
            "it needs its publisher's own code, which is never run"
            if ("auto_map" in plain)
            else "this version of transformers has no class for it"
        )
        raise UnsupportedModel(f"model_type {model_type!r} cannot be traced: {remote}")
    entries = {k: v for k, v in plain.items() if k not in (*DROPPED, "model_type")}
    if wrapped:
        entries = {"text_config": entries}
    try:
        return AutoConfig.for_model(mapped, **entries)
    except Exception as error:  # noqa: BLE001
        raise InvalidValue(
            f"transformers refuses this {model_type} config: {one_line(error)}"
        ) from None


def _refuse_other_kinds(settings: Any, model_type: str) -> None:
    """Raise `NotADecoder` for what transformers itself classifies as an encoder or encoder-decoder.

    `model_registry.kinds` lists the types known today; this also covers future ones.
    """
    from transformers import AutoModelForMaskedLM

    inner = getattr(settings, "text_config", None)
    for part in (settings,) if inner is None else (settings, inner):
        kind: Kind | None = None
        if getattr(part, "is_encoder_decoder", False) is True:
            kind = "encoder-decoder"
        elif type(part) in AutoModelForMaskedLM._model_mapping and not getattr(
            part, "is_decoder", False
        ):
            kind = "encoder-only"
        if kind:
            raise not_a_decoder(kind, f"model_type {model_type!r}")


def _instantiate(settings: Any, model_type: str) -> tuple[Any, set[str]]:
    """(model, keys of the config that it read), from the first auto class that accepts the config.

    No weight is initialised.
    """
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
                    with (
                        ONE_AT_A_TIME,
                        keys_read() as read,
                        torch.device("meta"),
                        no_init_weights(),
                        bounded_modules(),
                    ):
                        model = auto.from_config(source, dtype=torch.bfloat16, **options).eval()
                        model.tie_weights()
                        return model, read
                except RidgelineError:
                    raise
                except Exception as error:  # noqa: BLE001
                    refusal = error
    if refusal is None:
        raise UnsupportedModel(
            f"model_type {model_type!r} is not a language model that generates text; "
            "give the config of a causal language model"
        )
    raise InvalidValue(
        f"the sizes of this {model_type} config do not form a model: {one_line(refusal)}"
    ) from None


def _plain_kernels(settings: Any) -> None:
    """Switch off compiled kernels, which cannot run on the meta device."""
    for part in (settings, getattr(settings, "text_config", None)):
        for name in ("use_mamba_kernels", "use_kernels"):
            if getattr(part, name, None):
                setattr(part, name, False)


def _key_report(
    plain: dict[str, Any], settings: Any, model_type: str
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Keys that the language model's config class does not know, and keys that it fills in."""
    from transformers import PretrainedConfig

    inner, section = getattr(settings, "text_config", None), plain.get("text_config")
    if not isinstance(inner, PretrainedConfig):
        return key_report(plain, settings)
    if isinstance(section, dict):
        return key_report(section, inner)
    return key_report(plain, inner if model_type in WRAPPED else settings)


def _check_alias(model_type: str, model: Any) -> None:
    """Raise `UnsupportedModel` where an alias does not give its family's parameter count."""
    if model_type not in PUBLISHED:
        return
    counts, source = PUBLISHED[model_type]
    parameters = language_parameters(model)[0]
    if all(abs(parameters / count - 1.0) > 0.01 for count in counts):
        alias = ALIASES.get(model_type) or WRAPPED[model_type]
        raise UnsupportedModel(
            f"model_type {model_type!r}, read as {alias!r}, gives {parameters / 1e9:.2f}B "
            f"parameters, which are not those of {source}; it cannot be traced"
        )


#: Parts of a multimodal model that a text prompt does not run.
_TOWERS = re.compile(
    r"(^|\.)(visual|vision\w*|audio\w*|multi_modal_projector|embed_vision|embed_audio|"
    r"image_newline|mm_projector|connector|mtp\w*|speech\w*|code2wav|talker|patch_merge\w*)(\.|$)"
)


def language_parameters(model: Any) -> tuple[float, float]:
    """(parameters of the language model, of other modalities), tied ones once."""
    language = towers = 0.0
    for name, elements in parameter_sizes(model).items():
        if _TOWERS.search(name):
            towers += elements
        else:
            language += elements
    return language, towers


def parameter_sizes(model: Any) -> dict[str, float]:
    """Elements of each parameter by name, tied ones once.

    Parameters that transformers' LongCat-Flash has for its pass-through experts are left out: they
    are never used, and the model's stated 560B (arXiv:2509.01322) do not include them.
    """
    sizes = {name: float(parameter.numel()) for name, parameter in model.named_parameters()}
    for path, module in model.named_modules():
        idle = getattr(module, "zero_expert_num", None) or 0
        for name, parameter in module.named_parameters(path, recurse=False) if idle else ():
            if parameter.shape[0] == getattr(module, "total_experts", 0):
                sizes[name] -= float(idle * parameter[0].numel())
    return sizes


def one_line(error: BaseException) -> str:
    """The message of a library's error on one line of at most 200 characters."""
    return (" ".join(str(error).split()) or type(error).__name__)[:200]

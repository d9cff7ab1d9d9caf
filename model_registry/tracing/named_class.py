"""Check that a trace has as many parameters as the class that its config names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from genz_core.errors import UnsupportedModel
from model_registry.tracing.checks import bounded_modules
from model_registry.tracing.meta_model import language_parameters

#: Classes of transformers that generate; `kinds` recognises other classes by their heads.
_GENERATES = re.compile(r"(ForCausalLM|ForConditionalGeneration|LMHeadModel)$")
#: Tolerated difference between two counts of one model, since one of them may tie the head.
_APART = 0.01


def check_named_class(config: Mapping[str, Any], settings: Any, model: Any) -> None:
    """Raise if a model's parameters are not those of the class that its config names.

    config: as it was given.  settings, model: what transformers made of it.  A class that is not in
    transformers, or that cannot be built with the config's sizes, is not compared.

    Raises:
        UnsupportedModel: the named class has another number of parameters in its language model.
    """
    names = config.get("architectures")
    name = names[0] if isinstance(names, list) and names else None
    if not isinstance(name, str) or name == type(model).__name__ or not _GENERATES.search(name):
        return
    named = _instantiated(name, config, settings)
    if named is None:
        return
    theirs, ours = language_parameters(named)[0], language_parameters(model)[0]
    if abs(ours / max(theirs, 1.0) - 1.0) > _APART:
        raise UnsupportedModel(
            f"the config names {name[:80]}, which has {theirs / 1e9:.3g}B parameters at these "
            f"sizes, and its model_type makes {type(model).__name__} with {ours / 1e9:.3g}B; give "
            "a config whose model_type and architectures name the same model"
        )


def _instantiated(name: str, config: Mapping[str, Any], settings: Any) -> Any | None:
    """A class of transformers at the config's sizes, without weights; None if building fails."""
    import torch
    import transformers
    from transformers.initialization import no_init_weights

    kind = getattr(transformers, name, None)
    own = getattr(kind, "config_class", None)
    if kind is None or own is None:
        return None
    try:
        made = settings if isinstance(settings, own) else own(**_sizes(config))
        with torch.device("meta"), no_init_weights(), bounded_modules():
            model = kind(made)
            model.tie_weights()
            return model
    except Exception:  # noqa: BLE001  (sizes of another class: there is nothing to compare)
        return None


def _sizes(config: Mapping[str, Any]) -> dict[str, Any]:
    left_out = ("model_type", "architectures", "quantization_config", "auto_map")
    return {key: value for key, value in config.items() if key not in left_out}

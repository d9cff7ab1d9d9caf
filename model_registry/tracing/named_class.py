"""Whether a trace has the parameters of the class that its config names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from genz_core.errors import UnsupportedModel
from model_registry.tracing.building import language_parameters
from model_registry.tracing.checks import bounded_modules

#: Classes of transformers that generate: others end in other heads, which `kinds` tells apart.
_GENERATES = re.compile(r"(ForCausalLM|ForConditionalGeneration|LMHeadModel)$")
#: Difference of two counts of one model, by heads that one of them ties.
_APART = 0.01


def check_named_class(config: Mapping[str, Any], settings: Any, model: Any) -> None:
    """Let a model pass whose parameters are those of the class that its config names.

    config: as it was given.  settings, model: what transformers made of it.  A class that is not
    transformers' own, or that the config's sizes do not make, cannot be compared and passes.

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
            "the config whose model_type and architectures are of one model"
        )


def _instantiated(name: str, config: Mapping[str, Any], settings: Any) -> Any | None:
    """A class of transformers at the config's sizes, without weights; None where none is made."""
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

"""Figures of models that generate nothing: latency and sequences per second.

Their rows are those of any model without the figures of generation: the time to first token is the
whole latency, and there is no time between tokens.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from genz_core.graphs import Model
from genz_core.models.model_kinds import generates

#: Parts of the names of columns that an encoder's rows leave out.
_GENERATED = ("tpot", "e2e", "interactivity", "osl", "capacity")


def of_kind(
    model: Model, columns: Mapping[str, Any], sequences_per_s: Any = None
) -> dict[str, Any]:
    """Columns of figures, adapted to the kind of model.

    sequences_per_s: replaces the output tokens per second; with one token per request they are
    equal.
    """
    if generates(model):
        return dict(columns)
    kept = {key: value for key, value in columns.items() if not any(g in key for g in _GENERATED)}
    named = {_name(key): value for key, value in kept.items()}
    if "not_validated" in named:
        found = named["not_validated"]
        said = np.asarray(found() if callable(found) else found)
        each = {names: _read(names) for names in np.unique(said).tolist()}
        named["not_validated"] = np.array([each[names] for names in said.ravel().tolist()])
        if not said.ndim:
            named["not_validated"] = each[said.item()]
    if sequences_per_s is not None:
        named["sequences_per_s"] = sequences_per_s
        named["sequences_per_s_per_device"] = sequences_per_s / named.get("devices", 1)
    return named


def _read(missing: str) -> str:
    """Names of figures without validation, for a model that generates nothing."""
    return " ".join(_name(one) for one in missing.split() if "tpot" not in one and "e2e" not in one)


def _name(key: str) -> str:
    """ "bound_ttft_s" -> "bound_latency_s", "output_tokens_per_s" -> "sequences_per_s"."""
    return key.replace("ttft", "latency").replace("output_tokens_per_s", "sequences_per_s")

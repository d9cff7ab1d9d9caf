"""Figures of models that read and put nothing out: a latency and sequences a second.

Their rows are those of any model without what only generation has: the time to the first token is
the whole latency, and there is no time between tokens.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.scenario.levers import PHASES
from genz_core.model_kinds import generates
from genz_core.types import Model

#: What an encoder's rows leave out, by a part of their name.
_GENERATED = ("tpot", "e2e", "interactivity", "osl", "capacity")


def phases_of(model: Model) -> tuple[str, ...]:
    """The phases that a model has: an encoder has its one pass, told as a prefill."""
    return PHASES if generates(model) else PHASES[:1]


def of_kind(model: Model, row: Mapping[str, Any], sequences_per_s: Any = None) -> dict[str, Any]:
    """A row of figures, or a table of columns, as a model of that kind has them.

    sequences_per_s: in place of the row's output tokens a second, which are as many where each
    request puts one out.
    """
    if generates(model):
        return dict(row)
    kept = {key: value for key, value in row.items() if not any(g in key for g in _GENERATED)}
    named = {_name(key): value for key, value in kept.items()}
    if "not_validated" in named:
        missing = [name for name in str(named["not_validated"]).split() if "tpot" not in name]
        named["not_validated"] = " ".join(_name(name) for name in missing if "e2e" not in name)
    if sequences_per_s is not None:
        devices = named.get("devices", 1) or 1
        named["sequences_per_s"] = sequences_per_s
        named["sequences_per_s_per_device"] = sequences_per_s / devices
    return named


def _name(key: str) -> str:
    """ "bound_ttft_s" -> "bound_latency_s", "output_tokens_per_s" -> "sequences_per_s"."""
    return key.replace("ttft", "latency").replace("output_tokens_per_s", "sequences_per_s")

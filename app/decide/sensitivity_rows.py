"""Sensitivities as a document: the output of `ridgeline sensitivity --json`, and its sentences."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from app.decide import sensitivity as model
from app.decide.needed_hardware import requirement
from app.decide.sensitivity import FIGURES, RESOURCES, Ridge
from app.planning.search import targets_of
from app.question.query import Query
from app.scenario import served_rows
from app.scenario.description import load_words
from app.scenario.gate import refuse_impossible
from app.wording import quantities

Named = Mapping[str, Any]


def document(query: Query) -> dict[str, Any]:
    """Figures, their sensitivity to each resource, the ridges, and what targets need; SI units.

    asked: `ask("sensitivity", ...)`; for a static batch, or under a load.

    Raises:
        RidgelineError: as `app.decide.sensitivity`.
    """
    targets = targets_of(query)
    resolved = served_rows.deployed(query)
    refuse_impossible(resolved)
    base, found = model.sensitivities(resolved)
    named: dict[str, Any] = {
        "model": resolved.model.name,
        "system": resolved.system.slug,
        "engine": resolved.engine.name,
        "load": load_words(query.question),
        "change": query.question.change / 100.0,
        "figures": base,
        "resources": {
            one.resource: {"less": one.less, "more": one.more, "elasticity": one.elasticity}
            for one in found
        },
        "ridges": {ridge.phase: _ridge(ridge) for ridge in model.ridges(resolved)},
    }
    if targets:
        need = requirement(resolved, targets)
        named["targets"] = [str(target) for target in targets]
        named["needed"] = {
            "factors": dict(need.factors),
            "least_per_device": dict(need.least),
            "has_per_device": dict(need.has),
        }
    return named


def _ridge(ridge: Ridge) -> dict[str, Any]:
    return {
        "size": "batch" if ridge.phase == "decode" else "prompt_tokens",
        "largest": float(ridge.at[-1]),
        "crossings": dict(ridge.crossings),
    }


def table(named: Named) -> list[dict[str, Any]]:
    """One row per resource: the change of each figure with more of it, and the elasticity."""
    base = named["figures"]
    rows = []
    for resource, answers in named["resources"].items():
        row: dict[str, Any] = {"resource": RESOURCES[resource]}
        for name, column in FIGURES.items():
            row[f"{column.head}, more"] = quantities.change(base[name], answers["more"][name])
            row[f"{column.head}, elasticity"] = round(answers["elasticity"][name], 3)
        rows.append(row)
    return rows


def sentences(named: Named) -> list[str]:
    """Why the figures are those of no running deployment, if they are, the ridges, and what the
    targets need, one line each.
    """
    lines = list(_unsound(named["figures"]))
    for phase, ridge in named["ridges"].items():
        for name, place in ridge["crossings"].items():
            size = "sequences" if ridge["size"] == "batch" else "prompt tokens"
            words = "the whole step" if name == "all" else name
            where = (
                f"memory traffic than arithmetic up to {ridge['largest']:,.0f} {size}"
                if place is None
                else f"arithmetic than memory traffic from {place:,.0f} {size} on"
            )
            lines.append(f"{phase}, {words}: its bound holds more {where}")
    for resource, factor in named.get("needed", {}).get("factors", {}).items():
        alone = resource in RESOURCES
        amount = "more than 64" if factor is None else f"{factor:.3g}"
        what = f"the {RESOURCES[resource].casefold()} alone" if alone else "all of them together"
        lines.append(f"{', '.join(named['targets'])} needs {amount} times {what}")
    return lines


def _unsound(base: Named) -> Iterator[str]:
    if not base["fits"]:
        yield "warning: the deployment needs more memory than it has; figures are as if it ran"
    elif math.isinf(base["ttft_s"]):
        yield "warning: the deployment cannot sustain the load: its queue grows without bound"

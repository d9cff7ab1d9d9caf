"""Shipped models that may be what a report shows, by the shapes of its products and its name."""

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

import model_registry
from app.measuring.model_facts import ModelShape, degree_by_products, unseen_products
from genz_core.errors import RidgelineError
from model_registry.finding.catalog import ShippedModel, shipped_models
from profilers.phases.what_ran import WhatRan

#: Keys of a config.json that each fact is compared with.
_KEYS = {"hidden": "hidden_size", "layers": "num_hidden_layers", "vocabulary": "vocab_size"}
#: Number of models listed; graphs are built only until it is reached.
_MOST = 8


def likely_models(ran: WhatRan, labels: Sequence[str]) -> list[str]:
    """Names of shipped models that agree with everything known about what ran, likeliest first.

    Shapes of products identify a model, as does a file name that contains the model's; the number
    of layers alone does not.

    labels: names of the reports' files.
    """
    named = {m.id for m in shipped_models().values() if _is_named(m, labels)}
    near = [
        model for model in shipped_models().values()
        if (ran.hidden or model.id in named) and _agrees(model.config(), ran)
    ]  # fmt: skip
    near.sort(key=lambda model: (model.id not in named, model.quantized, len(model.id), model.id))
    fitting = islice(
        ((unseen, m.id) for m in near if (unseen := _unseen(m.id, ran)) is not None), _MOST
    )
    return [name for _, name in sorted(fitting, key=lambda pair: (pair[1] not in named, pair[0]))]


def _is_named(model: ShippedModel, labels: Sequence[str]) -> bool:
    """Whether a file name contains the model's name, ignoring punctuation and case."""
    short = _letters(model.id.rpartition("/")[2])
    return any(short in _letters(label) for label in labels)


def _letters(text: str) -> str:
    return "".join(letter for letter in text.casefold() if letter.isalnum())


def _agrees(config: Mapping[str, Any], ran: WhatRan) -> bool:
    """Whether the sizes of a config agree with those that ran, where both are known."""
    sizes = {**config, **(config.get("text_config") or {})}
    for name, key in _KEYS.items():
        fact = getattr(ran, name)
        stated = sizes.get(key)
        exact = name != "layers" or ran.layers_exact
        if fact and exact and stated and stated != fact.value:
            return False
    return True


def _unseen(name: str, ran: WhatRan) -> int | None:
    """Number of a model's products that did not run; None if a product ran that the model lacks.

    Products may be split over the ranks that ran, or whole.
    """
    try:
        model = model_registry.load(name)
    except RidgelineError:
        return None
    shape = ModelShape.of(model)
    if ran.layers and not shape.may_run(ran.layers.value, ran.layers_exact):
        return None
    if ran.hidden and ran.hidden.value not in shape.widths:
        return None
    if not ran.products:
        return 0
    ranks = ran.ranks.value if ran.ranks else 1
    degree = degree_by_products(model, ranks, ran.products, every=True)
    return unseen_products(model, degree, ran.products) if degree else None

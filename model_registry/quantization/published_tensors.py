"""The tensors that a published quantisation of a model actually quantises.

When asked for nvfp4, an engine does not run every linear layer in it: it runs a published
checkpoint, which keeps some projections in 16 bits.  If such a checkpoint ships with the registry,
its formats are a better answer than nvfp4 for all linear layers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from genz_core.precision import canonical
from genz_core.types import Precision
from model_registry.quantization.overrides import quantised_formats
from model_registry.quantization.resolve import resolve_precision


def published_precision(
    checkpoints: Mapping[str, Mapping[str, Any]], weights: str
) -> Precision | None:
    """The formats of the first of `checkpoints` that has `weights`; None where none has.

    checkpoints: configs of published quantisations of one model, by id.  weights: a format
    ("nvfp4", "fp8").  The cache is as in that checkpoint.

    Raises:
        UnknownPrecision: a format that is not described.
    """
    weights_format = canonical(weights)
    for name, config in checkpoints.items():
        precision = resolve_precision(config)
        if weights_format in quantised_formats(precision):
            return replace(precision, source=f"the quantisation of {name}")
    return None

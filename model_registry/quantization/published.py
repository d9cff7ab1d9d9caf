"""Which tensors a published quantisation of a model really quantises.

Asked for nvfp4, an engine does not run every linear layer in it: it runs the checkpoint that
somebody published, and that keeps some projections at 16 bit.  Where such a checkpoint ships
with the registry, its map is the better answer than all linear layers alike.
"""

from __future__ import annotations

from dataclasses import replace

from genz_core.precision import canonical
from genz_core.types import Precision
from model_registry.finding.catalog import records
from model_registry.quantization.overrides import schemes
from model_registry.quantization.resolve import resolve_precision


def published(model_id: str, weights: str) -> Precision | None:
    """The map of a published checkpoint of `model_id` in `weights`; None where none ships.

    model_id: a shipped model.  weights: a format ("nvfp4", "fp8").  The cache is as that
    checkpoint has it.

    Raises:
        UnknownPrecision: a format that nobody has described.
    """
    wanted = canonical(weights)
    for record in records().values():
        if model_id not in record.bases:
            continue
        precision = resolve_precision(record.config())
        if wanted in schemes(precision):
            return replace(precision, source=f"the quantisation of {record.id}")
    return None

"""The module database: per-module formulas, derived by tracing, kept as JSON that people review.

A leaf (Linear, SiLU, RMSNorm ...) has formulas in its own sizes; a module of a model has them in
batch, new tokens and context at that model's sizes, with its children and their counts.
"""

from model_registry.modules.derivation import derive, derive_model, module_classes
from model_registry.modules.lookup import class_entry, missing, model_entries
from model_registry.modules.store import known, model_key, read, save

__all__ = [
    "class_entry",
    "derive",
    "derive_model",
    "known",
    "missing",
    "model_entries",
    "model_key",
    "module_classes",
    "read",
    "save",
]

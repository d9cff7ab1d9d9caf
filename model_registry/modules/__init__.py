"""The module database: formulas of module classes, derived by tracing, stored as reviewed JSON.

A leaf (Linear, SiLU, RMSNorm ...) has formulas in its own sizes.  A module of a model has formulas
in batch, new tokens and context at that model's sizes, and lists its children with their counts.
"""

from model_registry.modules.derivation import derive_class, derive_model, module_classes
from model_registry.modules.lookup import class_entry, missing_classes, model_entries
from model_registry.modules.store import (
    entry_names,
    model_key,
    read_entry,
    save_entry,
    validate_entry,
)

__all__ = [
    "class_entry",
    "derive_class",
    "derive_model",
    "entry_names",
    "missing_classes",
    "model_entries",
    "model_key",
    "module_classes",
    "read_entry",
    "save_entry",
    "validate_entry",
]

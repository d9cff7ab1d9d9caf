"""Ridgeline in Python: one call for each answer of the command line and the dashboard.

>>> import ridgeline
>>> answer = ridgeline.estimate("meta-llama/Llama-3.1-8B", system="h100", isl=4096, osl=512)
>>> answer.status
'ok'
>>> answer.bound_tpot_s < answer.tpot_s
True

Models, systems and engines are named as on the command line, or given as objects that `model`,
`system` and `engine` return.  Keywords are those of the points file.  Numbers give numbers; lists
and arrays give arrays, with one element per configuration.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ridgeline._names import find_in_checkout

__all__ = [
    "ask",
    "availability",
    "chakra",
    "compare",
    "economics",
    "engine",
    "estimate",
    "export",
    "fleet",
    "guard",
    "model",
    "models",
    "module",
    "modules",
    "ops",
    "plan",
    "read_report",
    "routing",
    "scale",
    "schema",
    "sensitivity",
    "serve",
    "simulate",
    "study",
    "sweep",
    "system",
    "systems",
    "tune",
    "watch",
]


_LIBRARY = (
    "engine", "main", "model", "models", "module", "modules", "schema", "system",
    "systems", "version",
)  # fmt: skip

find_in_checkout()  # before any of our packages is imported by its name


def __getattr__(name: str) -> Any:
    """Return a function when it is first used; what it needs is not loaded earlier."""
    if name == "__version__":
        return __getattr__("version")()
    if name not in __all__ and name not in _LIBRARY:
        raise AttributeError(f"module 'ridgeline' has no attribute {name!r}")
    where = "_library" if name in _LIBRARY else "_verbs"
    found = getattr(import_module(f"ridgeline.{where}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return [*globals(), *__all__, "__version__", "main"]

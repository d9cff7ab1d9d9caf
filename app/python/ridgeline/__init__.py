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

#: The functions, by the module that has them.
_MODULES = {
    "_predict": (
        "ask", "chakra", "estimate", "export", "ops", "routing", "serve", "simulate",
    ),
    "_decide": (
        "availability", "economics", "fleet", "plan", "scale", "sensitivity", "study", "sweep",
    ),
    "_measurements": ("compare", "guard", "read_report", "tune", "watch"),
    "_library": (
        "engine", "main", "model", "models", "module", "modules", "schema", "system", "systems",
        "version",
    ),
}  # fmt: skip
_WHERE = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [name for name in _WHERE if name not in ("main", "version")]

find_in_checkout()  # before any of our packages is imported by its name


def __getattr__(name: str) -> Any:
    """Return a function when it is first used; what it needs is not loaded earlier."""
    if name == "__version__":
        return __getattr__("version")()
    if name not in _WHERE:
        raise AttributeError(f"module 'ridgeline' has no attribute {name!r}")
    found = getattr(import_module(f"ridgeline.{_WHERE[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return [*globals(), *__all__, "__version__", "main"]

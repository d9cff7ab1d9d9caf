"""Ridgeline in Python: what the command line and the dashboard show, from one call.

>>> import ridgeline
>>> answer = ridgeline.estimate("meta-llama/Llama-3.1-8B", system="h100", isl=4096, osl=512)
>>> answer.status
'ok'
>>> answer.bound_tpot_s < answer.tpot_s
True

Models, systems and engines are named as on the command line, or given as objects that `model`,
`system` and `engine` return.  Keywords are those of the points file.  Numbers in, numbers out;
lists and arrays in, arrays out, one configuration an element.
"""

from __future__ import annotations

from typing import Any

from ridgeline import _foreign as _foreign  # first: it refuses packages that are not ours
from ridgeline._library import engine, model, models, system, systems
from ridgeline._verbs import (
    compare,
    economics,
    estimate,
    guard,
    plan,
    read_report,
    sensitivity,
    serve,
    simulate,
    sweep,
    tune,
    watch,
)

__all__ = [
    "compare",
    "economics",
    "engine",
    "estimate",
    "guard",
    "model",
    "models",
    "plan",
    "read_report",
    "sensitivity",
    "serve",
    "simulate",
    "sweep",
    "system",
    "systems",
    "tune",
    "watch",
]


def main() -> None:
    """The command `ridgeline`."""
    from app.cli import main as command_line

    command_line()


def __getattr__(name: str) -> Any:
    if name != "__version__":
        raise AttributeError(f"module 'ridgeline' has no attribute {name!r}")
    from app import version

    return version()

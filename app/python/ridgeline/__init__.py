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

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ridgeline._library import engine, model, models, system, systems
from ridgeline._measured import compare, read_report
from ridgeline._planning import plan
from ridgeline._serving import serve, simulate
from ridgeline._static import estimate, sweep

_ROOMS = ("app", "genz_core", "hardware_db", "model_registry", "profilers")


def _foreign() -> str:
    """The sentence about another package that stands in for one of ours, "" where there is none."""
    here = Path(__file__).resolve().parent
    roots = {here.parent, here.parents[2]}  # installed beside the rooms, or inside of app/python
    for name in _ROOMS:
        spec = find_spec(name)
        origin = Path(spec.origin).resolve() if spec and spec.origin else None
        if origin is None or origin.parent.parent not in roots:
            place = origin or "a folder without an __init__.py"
            return (
                f"ridgeline: the package {name!r} that Python finds first is not Ridgeline's "
                f"({place}); leave that folder, or take it off PYTHONPATH"
            )
    return ""


if _sentence := _foreign():
    if Path(sys.argv[0]).stem == "ridgeline":  # the command: a sentence, no traceback
        sys.stderr.write(f"{_sentence}\n")
        raise SystemExit(2)
    raise ImportError(_sentence)

__all__ = [
    "compare",
    "engine",
    "estimate",
    "model",
    "models",
    "plan",
    "read_report",
    "serve",
    "simulate",
    "sweep",
    "system",
    "systems",
]


def main() -> None:
    """The command `ridgeline`."""
    from app.cli import main as command_line

    command_line()


def __getattr__(name: str) -> Any:
    if name != "__version__":
        raise AttributeError(f"module 'ridgeline' has no attribute {name!r}")
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("ridgeline")
    except PackageNotFoundError:  # a checkout on the path, not installed
        return "0+unknown"

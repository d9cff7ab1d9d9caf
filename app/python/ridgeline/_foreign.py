"""Refuse, before anything else is imported, another package that stands in for one of ours."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

_PACKAGES = ("app", "genz_core", "hardware_db", "model_registry", "profilers")


def _sentence() -> str:
    """The sentence about another package that is found first, "" where there is none."""
    here = Path(__file__).resolve().parent
    roots = {here.parent, here.parents[2]}  # installed beside the packages, or inside app/python
    for name in _PACKAGES:
        spec = find_spec(name)
        origin = Path(spec.origin).resolve() if spec and spec.origin else None
        if origin is None or origin.parent.parent not in roots:
            place = origin or "a folder without an __init__.py"
            return (
                f"ridgeline: the package {name!r} that Python finds first is not Ridgeline's "
                f"({place}); leave that folder, or take it off PYTHONPATH"
            )
    return ""


if found := _sentence():
    if Path(sys.argv[0]).stem == "ridgeline":  # the command: a sentence, no traceback
        sys.stderr.write(f"{found}\n")
        raise SystemExit(2)
    raise ImportError(found)

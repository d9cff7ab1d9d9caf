"""Write `__init__.pyi`, by which editors complete and check calls: `python -m ridgeline._stub`."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import ridgeline

TARGET = Path(__file__).with_name("__init__.pyi")
_HEAD = '''# Made from the declarations of app/question by `python -m ridgeline._stub`: do not edit.
"""Ridgeline in Python: what the command line and the dashboard show, from one call."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from app.benchmarks.comparison import Comparison as ComparedResults
from app.benchmarks.guard import Guarded
from app.decide.study import Study
from app.fleets.result import Fleet
from app.line.line_answer import Answered
from app.planning.result import Planned
from app.planning.sweep_result import SweptTable
from app.scaling.availability import Available
from app.scaling.scale import Scaled
from app.scenario.results import Estimate, Served
from app.simulation.result import Simulated
from app.tuning.loop import Tuned
from app.watching.windows import Watched
from genz_core.engine import EngineProfile
from genz_core.serving.simulation import Requests
from genz_core.graphs import Model
from genz_core.systems import System
from model_registry.reports.counted_step import CountedStep
from profilers import Comparison, Report

__version__: str
'''


def text() -> str:
    """The stub."""
    parts = [_HEAD, f"__all__ = {json.dumps(sorted(ridgeline.__all__), indent=4)}\n"]
    parts[1] = parts[1].replace('"\n]', '",\n]')
    parts += [_function(name) for name in sorted(ridgeline.__all__)]
    return "\n".join([*parts, "def main() -> None: ...\n"])


def _function(name: str) -> str:
    """A function with one argument per line, and its description."""
    called = getattr(ridgeline, name)
    signature, lines, named = inspect.signature(called), list[str](), False
    for one in signature.parameters.values():
        if one.kind is inspect.Parameter.KEYWORD_ONLY and not named:
            lines.append("*")
            named = True
        lines.append(f"{one.name}: {one.annotation}{_default(one.default)}")
    arguments = "".join(f"    {line},\n" for line in lines)
    said = (called.__doc__ or "").strip().splitlines()[0]
    returned = f"-> {signature.return_annotation}"
    return f'def {name}(\n{arguments}) {returned}:\n    r"""{said}"""\n'


def _default(value: Any) -> str:
    if value is inspect.Parameter.empty:
        return ""
    if value and isinstance(value, tuple):  # a list, as it may be typed
        value = ",".join(value)
    written = json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)
    return f" = {written}"


if __name__ == "__main__":
    TARGET.write_text(text(), encoding="utf-8")

"""The traces of real traffic that ship with the tests (fixtures/traces/PROVENANCE.md)."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from app.simulation import trace_file
from genz_core.serving.simulation import Requests

_FOLDER = Path(__file__).parent / "fixtures" / "traces"
_FILES = {file.name.partition(".")[0]: file for file in sorted(_FOLDER.glob("*.gz"))}
NAMES = tuple(_FILES)
#: Those that say which blocks prompts share.
SHARING = tuple(name for name in NAMES if name.startswith("mooncake"))


@cache
def requests(name: str, count: int = 0) -> Requests:
    """The requests of a trace, or the first `count` of them."""
    return trace_file.read(_FILES[name], count).requests

"""Usual loads by name; a line contains the name, a form has a button for each."""

from collections.abc import Mapping
from typing import Any

#: Parameters of each load; the rest of a line overrides them.
PRESETS: Mapping[str, Mapping[str, Any]] = {
    "chat": {"concurrency": 16, "isl": 1000, "osl": 1000},
    "agents": {"concurrency": 16, "isl": 32_000, "osl": 500, "prefix_hits": 0.9},
    "summaries": {"concurrency": 16, "isl": 16_000, "osl": 300},
    "one user": {"concurrency": 1},
}

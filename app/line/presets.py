"""Usual loads by name, and the systems that are compared if a line names none.

A line contains the name of a load, a form has a button for each.
"""

from collections.abc import Mapping
from typing import Any

#: Parameters of each load; the rest of a line overrides them.
PRESETS: Mapping[str, Mapping[str, Any]] = {
    "chat": {"concurrency": 16, "isl": 1000, "osl": 1000},
    "agents": {"concurrency": 16, "isl": 32_000, "osl": 500, "prefix_hits": 0.9},
    "summaries": {"concurrency": 16, "isl": 16_000, "osl": 300},
    "one user": {"concurrency": 1},
}
#: Systems that "cheapest gpu" compares: accelerators of data centres whose rent is published
#: (`hardware_db/rental/prices.csv`), a price class each.
SHORTLIST = (
    "l40s", "a100-sxm4-80gb", "h100-sxm5-80gb", "h200-sxm-141gb", "b200-sxm-180gb", "mi300x",
)  # fmt: skip
#: Most devices of each of them.
MOST_OF_SHORTLIST = 32
SHORTLIST_NOTE = (
    f"no system is named, so up to {MOST_OF_SHORTLIST} of {', '.join(SHORTLIST[:-1])} or "
    f"{SHORTLIST[-1]} are compared at their published rent: name others to compare those"
)

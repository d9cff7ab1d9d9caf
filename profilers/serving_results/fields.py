"""Values of fields in external documents: numbers, counts, texts, lists, or None."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from profilers.serving_results.measurement import Stated

Document = Mapping[str, Any]
#: Upper limit of plausible values; a file with larger ones is damaged.
LARGEST = 1e30
_LONGEST_TEXT = 300
_MOST_DIGITS = 15


def number(value: Any) -> float | None:
    """A finite number, which may be written as a text; None for anything else."""
    found = number_or_infinity(value)
    return found if found is not None and abs(found) < LARGEST else None


def number_or_infinity(value: Any) -> float | None:
    """A number that may be infinite or written as a text; None for NaN and anything else."""
    found = figure(value)
    return None if found is None or math.isnan(found) else found


def figure(value: Any) -> float | None:
    """A measured figure as it is written, NaN and infinity included, also as a text; None for
    anything else.  `impossible.without_impossible` leaves out what cannot be, and says so.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value.replace(",", "") if isinstance(value, str) else value)
    except (ValueError, OverflowError):
        return None


def positive(value: Any) -> float | None:
    """A finite number above 0, else None."""
    found = number(value)
    return found if found is not None and found > 0 else None


def count(value: Any) -> int | None:
    """A whole number of at least 0, otherwise None."""
    found = number(value)
    if found is None or not 0 <= found < 10**_MOST_DIGITS or found != int(found):
        return None
    return int(found)


def text(value: Any) -> str | None:
    """A non-empty text on one line, cut to 300 characters; otherwise None."""
    if not isinstance(value, str):
        return None
    line = " ".join(value.split())
    return "".join(c if c.isprintable() else "?" for c in line)[:_LONGEST_TEXT] or None


def mapping(value: Any) -> Document:
    """The value if it is a mapping, otherwise an empty mapping."""
    return value if isinstance(value, Mapping) else {}


def sequence(value: Any) -> list[Any]:
    """The value if it is a list, otherwise an empty list."""
    return list(value) if isinstance(value, list | array) else []


def at(document: Any, *keys: str) -> Any:
    """The value under nested keys; None where one is missing."""
    for key in keys:
        if not isinstance(document, Mapping):
            return None
        document = document.get(key)
    return document


def first(document: Any, names: Iterable[str]) -> Any:
    """The value of the first name that a document has and that is not None."""
    if isinstance(document, Mapping):
        for name in names:
            if document.get(name) is not None:
                return document[name]
    return None


def degrees(document: Any, names: Mapping[str, Iterable[str]]) -> dict[str, int]:
    """Parallel degrees that a document states, by degree.  names: field names of each degree."""
    found = {degree: count(first(document, fields)) for degree, fields in names.items()}
    return {degree: size for degree, size in found.items() if size}


def cells(line: str) -> list[str]:
    """The cells of a row of a Markdown table."""
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def numbers(value: Any) -> NDArray[np.float64] | None:
    """A list of numbers, NaN for other entries; None where the value is not a list or holds no
    number.
    """
    if isinstance(value, array):
        return np.asarray(value, dtype=np.float64)
    if not isinstance(value, list) or not value:
        return None
    found = [entry if type(entry) in (int, float) else number(entry) for entry in value]
    try:
        return np.array([math.nan if entry is None else entry for entry in found], np.float64)
    except OverflowError:
        return None


def deep(value: Any, names: Iterable[str], depth: int = 8) -> Any:
    """The first plain value under one of several names, at any depth of a document."""
    wanted = frozenset(names)
    if not isinstance(value, Mapping) or depth < 0:
        return None
    for name, entry in value.items():
        if name in wanted and isinstance(entry, int | float | str) and entry != "":
            return entry
    found = (deep(inner, wanted, depth - 1) for inner in value.values())
    return next((entry for entry in found if entry is not None), None)


def scaled(value: float | None, unit: float) -> float | None:
    """A number times its unit, None where there is none."""
    return None if value is None else value * unit


def ratio(above: float | None, below: float | None) -> float | None:
    """A quotient, None where one side is unknown or the lower one 0."""
    return above / below if above is not None and below else None


#: Limits of a server by parameter, with the names that engines give them.
_LIMITS: Mapping[str, tuple[str, ...]] = {
    "max_num_seqs": ("max_num_seqs", "max_running_requests", "max_batch_size"),
    "max_num_batched_tokens": (
        "max_num_batched_tokens", "chunked_prefill_size", "max_num_tokens",
    ),
    "kv_tokens": ("max_total_num_tokens",),
}  # fmt: skip
_SHARES = ("gpu_memory_utilization", "mem_fraction_static", "kv_cache_percentage")


def limits(server: Mapping[str, Any]) -> dict[str, Stated]:
    """The limits that a server reports about itself in a result, by parameter."""
    found: dict[str, Stated] = {}
    for name, keys in _LIMITS.items():
        key = next((key for key in keys if count(server.get(key))), None)
        if key is not None:
            found[name] = Stated(count(server.get(key)), f"the file states {key} of its server")
    for key in _SHARES:
        share = number(server.get(key))
        if share is not None and 0.0 < share <= 1.0:
            found["memory_fraction"] = Stated(share, f"the file states {key} of its server")
            break
    return found

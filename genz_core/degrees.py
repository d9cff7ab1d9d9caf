"""Parallel degrees in the short form of papers and scripts: ``TP{4}_EP{2}_PP{1}``."""

from __future__ import annotations

import re

from genz_core.errors import InvalidParallelism
from genz_core.types import DEGREES

_ENTRY = re.compile(r"([a-z]+)\{?(\d+)\}?", re.IGNORECASE)


def parse_degrees(text: str) -> dict[str, int]:
    """Degrees by name ("tp", "pp" ...) from "TP{4}_EP{2}_PP{1}" or tp4-pp2; {} from "".

    Raises:
        InvalidParallelism: an unknown letter pair, a degree stated twice, or a degree of zero.
    """
    degrees: dict[str, int] = {}
    for part in filter(None, re.split(r"[_\-\s,x]+", text.strip())):
        match = _ENTRY.fullmatch(part)
        name = match.group(1).lower() if match else ""
        if match is None or name not in DEGREES or name in degrees or int(match.group(2)) < 1:
            raise InvalidParallelism(
                f"{text!r}: cannot read {part!r}; write each of tp, pp, dp, ep, cp at most once "
                "with a degree of at least 1, as in TP{4}_EP{2}_PP{1}"
            )
        degrees[name] = int(match.group(2))
    return degrees

"""Parallel degrees in the short form of papers and scripts: ``TP{4}_EP{2}_PP{1}``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from genz_core.errors import InvalidParallelism
from genz_core.types import DEGREES, Num, Parallelism

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


#: Order in which devices are numbered unless another is requested, innermost first.
ORDER = ("tp", "ep", "cp", "dp", "pp")


def placed(names: Sequence[str]) -> tuple[str, ...]:
    """All degrees in the order of `names`, innermost first; () where that is the usual order.

    Degrees that are not named follow in their usual order.

    Raises:
        InvalidParallelism: a name that is not a degree, or a repeated one.
    """
    for name in names:
        if name not in ORDER or list(names).count(name) > 1:
            raise InvalidParallelism(
                f"{' '.join(names)!r}: cannot place {name!r}; name each of {', '.join(ORDER)} at "
                "most once, inner first"
            )
    usual = [name for name in ORDER if name in names]
    if list(names) == usual:
        return ()
    return (*names, *(name for name in ORDER if name not in names))


def stride_of(name: str, parallelism: Parallelism) -> Num:
    """Distance in devices between two neighbours of a degree's group: the product of the degrees
    inside it.

    Experts share the devices of tp and dp; where tp or dp lies inside ep, the parts of an expert
    lie inside as well.
    """
    order = parallelism.order or ORDER
    inside = [other for other in order[: order.index(name)] if other != "ep"]
    if name == "ep":
        planes = [other for other in inside if other not in ("tp", "dp")]
        parts = parallelism.expert_tp if len(planes) < len(inside) else 1.0
        return _product(planes, parallelism) * parts
    return _product(inside, parallelism)


def _product(names: Sequence[str], parallelism: Parallelism) -> Num:
    stride: Num = 1.0
    for name in names:
        stride = stride * getattr(parallelism, name)
    return stride


def other_count(degrees: Mapping[str, int]) -> str:
    """A sentence where GenZ would use another number of devices for the same degrees; "" otherwise.

    GenZ multiplies ep with the other degrees; here the experts share the devices of tp and dp.
    """
    tp, pp, dp, ep, cp = (degrees.get(name, 1) for name in DEGREES)
    here, there = tp * pp * dp * cp, tp * pp * ep * dp * cp
    if here == there:
        return ""
    return (
        f"tp {tp} x ep {ep} x pp {pp}: GenZ uses {there} devices for this, Ridgeline {here}, "
        f"because ep splits the experts over the tp x dp devices; dp {dp * ep} gives {there} "
        "devices"
    )

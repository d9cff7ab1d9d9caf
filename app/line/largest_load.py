"""The largest number of users within the targets of a line such as "how many users can 8 h100
serve": the line with that number in place of the question.

The loads of a replica are those of `app.decide.frontiers`; equal replicas fill the devices.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from app.line.line import Line
from app.question.query import Query, Sources, ask
from app.question.question import LOADS
from genz_core.errors import InvalidValue
from genz_core.types import Array, Mask


def with_largest_load(line: Line, sources: Sources = dict) -> Line:
    """The line with the largest number of users that its devices serve within its targets; a line
    that does not ask for it is unchanged.

    Raises:
        InvalidValue: the line also states a load, names several systems, or has no target; or even
            one user misses the targets.
        RidgelineError: as `app.decide.frontiers.curves`.
    """
    if not line.asks_users:
        return line
    _refuse(line)
    users = _most_users(ask("plan", {**line.given, "concurrency": 1}, sources))
    if not users:
        raise InvalidValue("even one user misses the targets on these devices: ease the targets")
    note = (
        f"{users:,} users are the most that the devices serve within the targets without a queue, "
        "in closed form and without a prefill pool: at this load the targets are just met"
    )
    given = {**line.given, "concurrency": users, "pools": ("aggregated",)}
    return replace(line, given=given, notes=(note, *line.notes), asks_users=False)


def _refuse(line: Line) -> None:
    """Refuse a line whose largest load is not defined."""
    if stated := set(LOADS) & set(line.given):
        raise InvalidValue(
            f"the line asks for the largest number of users and states {' and '.join(stated)}: "
            "leave one of them out"
        )
    if "disaggregated" in line.given.get("pools", ()):
        raise InvalidValue(
            "the largest number of users is found without a prefill pool: leave out disaggregated"
        )
    if "system" in line.several:
        raise InvalidValue("the largest number of users is found for one system: name one")
    if "target" not in line.given:
        raise InvalidValue(
            "the largest number of users depends on the latency that they accept: state a target, "
            'such as "tpot < 50ms"'
        )


def _most_users(query: Query) -> int:
    """The most users of equal replicas on all devices, in closed form, each of them running; 0 if
    even one user misses a target.

    Raises:
        RidgelineError: as `app.decide.frontiers.curves`; nothing fits the devices.
    """
    from app.decide.frontiers import curves, most_users
    from app.planning.search import targets_of
    from app.planning.space import devices

    targets, most = targets_of(query), devices(query.question)[1]
    if later := [str(one) for one in targets if one.figure.percentile]:
        raise InvalidValue(
            f"the largest number of users is found for targets on means, not {', '.join(later)}: "
            "state the mean, such as tpot < 50ms"
        )

    def met(columns: Mapping[str, Array]) -> Mask:
        each = [np.asarray(one.met(columns[one.figure.column])) for one in targets]
        return np.asarray(np.logical_and.reduce(each))

    found, left = curves(query)
    if not found:
        raise InvalidValue("; ".join(f"{one.what}: {one.why}" for one in left))
    users = 0
    for curve in found:
        if best := most_users(curve, met):
            replicas = most // (best["tp"] * best["pp"] * best["dp"])
            users = max(users, int((best["users"] * replicas).max()))
    return users

"""Collectives over tiers of links: the group on each tier, and the bytes a device sends on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from genz_core.types import Array, Link, Num

#: Bytes that cross a device's link per byte of message, in a group of g.
_TRAFFIC: Mapping[str, Callable[[Array], Array]] = {
    "all_reduce": lambda g: 2.0 * (g - 1.0) / g,
    "all_gather": lambda g: (g - 1.0) / g,
    "reduce_scatter": lambda g: (g - 1.0) / g,
    "all_to_all": lambda g: (g - 1.0) / g,
    "send_recv": lambda g: g - 1.0,
}
OPERATIONS = tuple(_TRAFFIC)


def traffic(operation: str, group: Num, in_network: bool = False) -> Array:
    """Bytes that each device must send over its link, as a multiple of the message.

    Those of a ring, which no algorithm beats but a switch that reduces: an all-reduce then sends
    its message once.  A chain of g stages passes it on g - 1 times.

    Args:
        operation: one of `OPERATIONS`.  group: devices, a number or array [configs].
        in_network: whether the switches reduce.
    """
    factor = np.asarray(_TRAFFIC[operation](np.asarray(group, np.float64)))
    return np.minimum(factor, 1.0) if in_network and operation == "all_reduce" else factor


@dataclass(frozen=True, slots=True)
class Tier:
    """The part of a collective on one tier of links, [configs].

    group: devices that take part on this tier.  message_bytes: message of each device on it.
    times: repetitions (a chain of stages runs through every inner group in turn).
    """

    link: Link
    group: Array
    message_bytes: Array
    times: Array


def tiers(
    operation: str, message_bytes: Num, group: Num, stride: Num, links: Sequence[Link]
) -> tuple[Tier, ...]:
    """The tiers of a collective over `links`, nearest first.

    A group of g devices, `stride` apart, fits g0 = domain / stride members into the inner tier;
    the outer tier joins g / g0 of them.  A reduction or a gather works inside first (or last), so
    the outer tier carries 1/g0 of the message per device; every token of an all-to-all may go
    to any device.

    Args:
        message_bytes, group, stride: numbers or arrays [configs] that broadcast.
    """
    message, group, stride = (
        np.asarray(value, np.float64) for value in (message_bytes, group, stride)
    )
    parts, inner = [], np.ones(())
    for position, link in enumerate(links):
        endless = position == len(links) - 1 or link.domain == 0
        room = np.inf if endless else np.maximum(link.domain // stride, 1.0)
        members = np.maximum(np.minimum(group, room) / inner, 1.0)
        whole = operation in ("all_to_all", "send_recv")
        part = message if whole else message / inner
        inner = inner * members
        times = group / inner if operation == "send_recv" else np.ones(())
        parts.append(Tier(link, members, part, times))
    return tuple(parts)

"""Collectives over tiers of links: the group on each tier, and the bytes that a device
sends on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from genz_core.graphs import Op
from genz_core.latency.collective_traffic import OPERATIONS, load, traffic
from genz_core.operators import ROUTED, places_reached
from genz_core.symbolic.symbols import number
from genz_core.systems import Link
from genz_core.types import Array, Num

__all__ = ["OPERATIONS", "Exchange", "Tier", "exchange_of", "tiers", "traffic"]


@dataclass(frozen=True, slots=True)
class Exchange:
    """The part of an all-to-all of routed tokens that is sent once per place instead of once per
    device.

    A place is a node or another group of devices.  merged_bytes: the part of the message that is
    sent so.
    choices, groups, chosen: of a token, see `genz_core.operators.places_reached`.
    """

    merged_bytes: Array
    choices: Array
    groups: Array
    chosen: Array

    def copies(self, places: Array) -> Array:
        """Copies of a token that are sent for this many places."""
        return places_reached(self.choices, places, self.groups, self.chosen)


def exchange_of(op: Op) -> tuple[Num, Num, Num, Num] | None:
    """The fields of the `Exchange` of an all-to-all; None for any other collective."""
    if op.kind != "all_to_all":
        return None
    usual = {"choices": 1.0}
    merged, choices, groups, chosen = (op.dims.get(n, usual.get(n, 0.0)) for n in ROUTED)
    return merged, choices, groups, chosen


@dataclass(frozen=True, slots=True)
class Tier:
    """The part of a collective on one tier of links, [configs].

    inner: devices of the domain below.  group: devices that take part on this tier.
    stride: devices between two of them.
    message_bytes: message of each device on it.
    times: number of repetitions (a chain of stages passes every inner group in turn).
    """

    link: Link
    inner: int
    group: Array
    stride: Array
    message_bytes: Array
    times: Array

    def load(self, operation: str, *, in_network: bool = False) -> Array:
        """Load on the tier's links [messages], [configs]; see `collective_traffic`."""
        return load(
            operation, self.group, self.stride, self.link, inner=self.inner, in_network=in_network
        )


def tiers(
    operation: str,
    message_bytes: Num,
    group: Num,
    stride: Num,
    links: Sequence[Link],
    exchange: Exchange | None = None,
) -> tuple[Tier, ...]:
    """The tiers of a collective over `links`, nearest first.

    A group of g devices, `stride` apart, fits g0 = domain / stride members into the inner tier;
    the outer tier joins g / g0 of them.  A reduction or a gather works inside first (or last), so
    the outer tier carries 1/g0 of the message per device.  Every token of an all-to-all may go to
    any device: tokens for other places also cross the inner tier where the outer tier consists of
    rails, or where one copy per place is sent and distributed there.

    Args:
        message_bytes, group, stride: numbers or arrays [configs] that broadcast.
        exchange: of an all-to-all; by default every device gets its own message.
    """
    message, group, stride = (number(value) for value in (message_bytes, group, stride))
    parts, inner = [], np.ones(())
    for position, link in enumerate(links):
        endless = position == len(links) - 1 or link.domain == 0
        room = np.inf if endless else np.maximum(link.domain // stride, 1.0)
        members = np.maximum(np.minimum(group, room) / inner, 1.0)
        within, apart = inner * members, stride * inner
        if operation == "all_to_all":
            rails = not endless and links[position + 1].topology.form == "rails"
            part = _exchanged(message, group, inner, 1.0 if rails else within / group, exchange)
        else:
            part = message if operation == "send_recv" else message / inner
        inner = within
        times = group / inner if operation == "send_recv" else np.ones(())
        below = max(links[position - 1].domain, 1) if position else 1
        parts.append(Tier(link, below, members, apart, part, times))
    return tuple(parts)


def _exchanged(
    message: Array, group: Array, inner: Array, local: Num, exchange: Exchange | None
) -> Array:
    """Message of an all-to-all on a tier that joins places of `inner` devices.

    local: share of the traffic between devices that crosses this tier.
    """
    if exchange is None:
        return message * local
    direct = message - exchange.merged_bytes
    places = exchange.copies(group / inner) / exchange.copies(group)
    return direct * local + exchange.merged_bytes * places

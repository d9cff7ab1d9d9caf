"""Collectives, and the messages between pipeline stages."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from genz_core.common.registry import operator_kind
from genz_core.graphs import Op
from genz_core.symbolic.symbols import number
from genz_core.types import Array, Num


def collective(
    name: str, kind: str, message_bytes: Num, group: Num, *, stride: Num = 1.0, **where: Any
) -> Op:
    """A collective of `kind` over `group` devices, `stride` devices apart; zero for one device.

    message_bytes: all_reduce: the tensor of every device.  all_gather and reduce_scatter: the
    whole tensor, of which each device holds a part.  all_to_all: the tensor of one device before
    the exchange.  send_recv: the message over the link.
    """
    message = np.where(number(group) > 1, message_bytes, 0.0)
    return Op(
        name,
        kind,
        message_bytes=message,
        group=group,
        stride=stride,
        dims={"message_bytes": message, "group": group, "stride": stride},
        **where,
    )


@operator_kind("all_reduce", "collective")
def all_reduce(name: str, message_bytes: Num, group: Num, **where: Any) -> Op:
    """Sum over the group, left on every device; ring traffic 2(g-1)/g of the tensor."""
    return collective(name, "all_reduce", message_bytes, group, **where)


@operator_kind("all_gather", "collective")
def all_gather(name: str, message_bytes: Num, group: Num, **where: Any) -> Op:
    """Concatenation of the parts on every device; traffic (g-1)/g of the whole tensor."""
    return collective(name, "all_gather", message_bytes, group, **where)


@operator_kind("reduce_scatter", "collective")
def reduce_scatter(name: str, message_bytes: Num, group: Num, **where: Any) -> Op:
    """Sum over the group of which each device keeps a part; traffic (g-1)/g of the tensor."""
    return collective(name, "reduce_scatter", message_bytes, group, **where)


#: Dimensions of an all-to-all of routed tokens, see `Routing`.
ROUTED = ("merged_bytes", "choices", "groups", "chosen")


@dataclass(frozen=True, slots=True)
class Routing:
    """How the tokens of an all-to-all choose the devices that they are sent to.

    merged_bytes: the part of the message that is sent once to a place of several devices (a node)
    and distributed there.  choices, groups, chosen: of a token, see `places_reached`.
    """

    merged_bytes: Num = 0.0
    choices: Num = 1.0
    groups: Num = 0.0
    chosen: Num = 0.0


UNROUTED = Routing()


def places_reached(choices: Num, places: Num, groups: Num = 0.0, chosen: Num = 0.0) -> Array:
    """Expected number of places, among `places`, that a token reaches, [configs].

    P (1 - (1 - 1/P)^k) for k random choices among P places.  Where the places belong to `groups`
    groups and a token is sent to `chosen` of them, P is the number of places in that many groups.

    Source: node-limited routing, DeepSeek-V3 technical report (arXiv:2412.19437), sec. 2.1.2.
    """
    k, total, of, limit = np.broadcast_arrays(
        *(number(value) for value in (choices, places, groups, chosen))
    )
    limited = (of > 1) & (limit > 0)
    open_to = np.where(limited, limit * np.maximum(total / np.where(limited, of, 1.0), 1.0), total)
    among = np.maximum(np.minimum(open_to, total), 1.0)
    reached: Array = among * (1.0 - (1.0 - 1.0 / among) ** k)
    return reached


@operator_kind("all_to_all", "collective")
def all_to_all(
    name: str, message_bytes: Num, group: Num, routing: Routing = UNROUTED, **where: Any
) -> Op:
    """Every device sends 1/g of its tensor to each other device; (g-1)/g of it crosses links."""
    op = collective(name, "all_to_all", message_bytes, group, **where)
    merged = np.where(number(group) > 1, routing.merged_bytes, 0.0)
    routed = (merged, routing.choices, routing.groups, routing.chosen)
    return replace(op, dims={**op.dims, **dict(zip(ROUTED, routed, strict=True))})


@operator_kind("send_recv", "collective")
def send_recv(name: str, message_bytes: Num, group: Num, **where: Any) -> Op:
    """A message of `message_bytes` passed along a pipeline of `group` stages, group - 1 hops."""
    return collective(name, "send_recv", message_bytes, group, **where)

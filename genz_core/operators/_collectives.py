"""Collectives, and the messages between pipeline stages."""

from __future__ import annotations

from typing import Any

import numpy as np

from genz_core.registry import operator_kind
from genz_core.types import Num, Op


def collective(
    name: str, kind: str, message_bytes: Num, group: Num, *, stride: Num = 1.0, **where: Any
) -> Op:
    """A collective of `kind` over `group` devices, `stride` devices apart; free for one device.

    message_bytes: all_reduce: the tensor of every device.  all_gather and reduce_scatter: the
    whole tensor, of which each device holds a part.  all_to_all: the tensor of one device before
    the exchange.  send_recv: the message over the link.
    """
    message = np.where(np.asarray(group) > 1, message_bytes, 0.0)
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


@operator_kind("all_to_all", "collective")
def all_to_all(name: str, message_bytes: Num, group: Num, **where: Any) -> Op:
    """Every device sends 1/g of its tensor to each other; (g-1)/g of it crosses links."""
    return collective(name, "all_to_all", message_bytes, group, **where)


@operator_kind("send_recv", "collective")
def send_recv(name: str, message_bytes: Num, group: Num, **where: Any) -> Op:
    """A message of `message_bytes` passed along a pipeline of `group` stages, group - 1 hops."""
    return collective(name, "send_recv", message_bytes, group, **where)

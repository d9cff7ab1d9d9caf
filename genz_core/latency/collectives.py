"""Collectives: a latency per step, and the faster of two protocols, for packets and for bulk.

Algorithms have constants of their own: "nccl" (rings, trees and, where switches reduce, their
help) and "custom" (one- and two-shot all-reduce over mapped memory).  A group that spans tiers of
the interconnect works tier by tier, fastest first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from genz_core.latency.parameters import CollectiveParameters
from genz_core.types import Array, Link, Num

#: Bytes that cross a device's link per message byte, and latency steps, in a group of g.
_TRAFFIC: Mapping[str, Callable[[Array], Array]] = {
    "all_reduce": lambda g: 2.0 * (g - 1.0) / g,
    "all_gather": lambda g: (g - 1.0) / g,
    "reduce_scatter": lambda g: (g - 1.0) / g,
    "all_to_all": lambda g: (g - 1.0) / g,
    "send_recv": lambda g: np.where(g > 1, 1.0, 0.0),
}
OPERATIONS = tuple(_TRAFFIC)


def traffic(operation: str, group: Num) -> Array:
    """Bytes that cross one device's link per byte of message, in a group."""
    return np.asarray(_TRAFFIC[operation](np.asarray(group, np.float64)))


def collective_s(
    operation: str,
    message_bytes: Num,
    group: Num,
    *,
    stride: Num = 1,
    links: Sequence[Link],
    parameters: CollectiveParameters,
    upper: CollectiveParameters | None = None,
    floor_s: float | None = None,
    tree: bool = False,
) -> Array:
    """Time of one collective over `group` devices that are `stride` apart [s].

    Within one tier of bandwidth b, with w = traffic(g) message / (efficiency(g) b)::

        packets = sent / (packet_efficiency b)
        T       = base + step (steps(g) - steps(2)) + min(packets, bulk + w + sqrt(ramp w))

    steps is 2(g-1) for an all-reduce, g-1 for the others.  Small messages go as packets in one
    shot (an all-reduce sends its g-1 peers everything), large ones by the algorithm that moves
    least.  Over two tiers an all-reduce is a
    reduce-scatter inside, an all-reduce of the parts outside and an all-gather inside; a gather
    or scatter exchanges first outside, then inside.

    Args:
        message_bytes: the whole tensor (all_to_all: what one device holds); zero is free.
        links: tiers, nearest first, as in `System.links`; domain 0 reaches everything.
        parameters: of the operation and algorithm on the first tier; `upper`: on the others
            (default: the same with each tier's own latency).
        floor_s: replaces `base_s`.
        tree: an all-reduce up and down a binary tree, 2 log2(g) steps; rings otherwise.

    Source: bus-bandwidth factors of NVIDIA nccl-tests, doc/PERFORMANCE.md; Thakur et al. 2005,
    doi:10.1177/1094342005051521; the two protocols: NCCL's LL and Simple.
    """
    message, group, stride = np.broadcast_arrays(
        np.asarray(message_bytes, np.float64),
        np.asarray(group, np.float64),
        np.asarray(stride, np.float64),
    )
    total = np.zeros(message.shape)
    remaining, below, part = group.copy(), stride.copy(), message.copy()
    for index, link in enumerate(links):
        last = index == len(links) - 1 or link.domain == 0
        inside = remaining if last else np.clip(np.floor(link.domain / below), 1.0, remaining)
        constants = parameters if index == 0 else (upper or parameters)
        base = floor_s if index == 0 and floor_s is not None else constants.base_s
        crossing = link.latency_s if index else 0.0
        total = total + _tier_s(
            operation, part, inside, link.bytes_per_s, constants, base + crossing, tree
        )
        remaining, below, part = (
            remaining / inside,
            below * inside,
            _upward(operation, part, inside),
        )
        if last:
            break
    return np.where((group > 1) & (message > 0), total, 0.0)


def _upward(operation: str, part: Array, inside: Array) -> Array:
    """What one device still has to exchange with other domains after a tier is done."""
    return part / inside if operation in ("all_reduce", "all_gather", "reduce_scatter") else part


def _tier_s(
    operation: str,
    message: Array,
    group: Array,
    bytes_per_s: float,
    constants: CollectiveParameters,
    base_s: float,
    tree: bool,
) -> Array:
    safe = np.maximum(group, 1.0)
    octave = np.log2(np.maximum(safe, 2.0))
    hops = octave - 1.0 if tree else safe - 2.0
    steps = (2.0 if operation == "all_reduce" else 1.0) * hops
    fitted = [constants.efficiency_2, constants.efficiency_4, constants.efficiency_8]
    # Between the fitted group sizes in the logarithm of the group, flat beyond them.
    efficiency = np.exp(np.interp(octave, (1.0, 2.0, 3.0), np.log(fitted)))
    wire = traffic(operation, safe) * message / (efficiency * bytes_per_s)
    bulk = constants.bulk_s + wire + np.sqrt(constants.ramp_s * wire)
    sent = (safe - 1.0) * message if operation == "all_reduce" else wire * efficiency * bytes_per_s
    packets = sent / (constants.packet_efficiency * bytes_per_s)
    time = base_s + constants.step_s * np.maximum(steps, 0.0) + _faster(packets, bulk)
    return np.where(group > 1, time, 0.0)


def _faster(a: Array, b: Array) -> Array:
    """The smaller of two times, rounded where they are alike: the switch is never quite right."""
    least, most = np.minimum(a, b), np.maximum(a, b)
    ratio = least / np.maximum(most, 1e-30)
    return np.asarray(least * (1.0 + ratio**_SHARPNESS) ** (-1.0 / _SHARPNESS))


_SHARPNESS = 4.0

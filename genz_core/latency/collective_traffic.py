"""Load of a collective on the links of one tier, depending on how the devices are wired.

A load is a number of messages: a collective takes at least load * message / bandwidth, where the
bandwidth is that of all links of a device.  A switch gives a device all of its bandwidth for any
group; a mesh only the links to the group's other members; a torus those within the group's slice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from math import prod

import numpy as np

from genz_core.devices.topology_kinds import Topology
from genz_core.systems import Link
from genz_core.types import Array, Num

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

    A ring is optimal unless the switches reduce, in which case an all-reduce sends its message
    once.  A chain of g stages passes the message on g - 1 times.

    Args:
        operation: one of `OPERATIONS`.  group: devices, a number or array [configs].
        in_network: whether the switches reduce.
    """
    factor = np.asarray(_TRAFFIC[operation](np.asarray(group, np.float64)))
    return np.minimum(factor, 1.0) if in_network and operation == "all_reduce" else factor


def load(
    operation: str,
    group: Num,
    stride: Num,
    link: Link,
    *,
    inner: int = 1,
    in_network: bool = False,
) -> Array:
    """Load of a collective on one tier [messages], [configs]; zero for a group of one.

    - switch, rails, pcie: `traffic`; where pods share narrower uplinks, the traffic that must leave
    a pod over them.  In a dragonfly, traffic that is not uniform takes a detour over a third group,
    which halves the uplinks.
    - mesh of D devices: a group of g uses g - 1 of a device's D - 1 links, a message between two
    devices uses one.
    - ring, torus: see `_slice_loads`.

    Args:
        operation: one of `OPERATIONS`.  group: devices on this tier.  stride: devices between
            neighbours of the group; numbers or arrays [configs] that broadcast.
        link: the tier.  inner: devices of the domain below it, which share one position on it.
        in_network: the switches reduce.

    Source: scaling book, ch. "TPUs" and "Sharding"; bisection bounds: Dally and Towles,
    Principles and Practices of Interconnection Networks, ch. 3; dragonfly: Kim et al. 2008,
    doi:10.1109/ISCA.2008.19.
    """
    members, apart = (np.asarray(value, np.float64) for value in (group, stride))
    factor, wiring = traffic(operation, members, in_network), link.topology
    if wiring.form == "mesh":
        used = 1.0 if operation == "send_recv" else np.maximum(members - 1.0, 1.0)
        factor = factor * np.maximum((link.domain / inner - 1.0) / used, 1.0)
    elif wiring.form in ("ring", "torus"):
        shape = link.topology.shape or (max(link.domain, 1),)
        factor = _on_a_torus(operation, members, apart, shape, wiring.closes_at)
    if wiring.pod:
        factor = np.maximum(factor, _uplink_load(operation, members, apart, wiring))
    return np.where(members > 1, factor, 0.0)


def _uplink_load(operation: str, group: Array, stride: Array, wiring: Topology) -> Array:
    """Load on the uplinks of pods [messages]: each device has an equal share of them.

    m members of a group lie in a pod.  They exchange all data that is for other pods, but only one
    copy of what they gather or sum enters or leaves the pod.
    """
    inside = np.clip(wiring.pod // np.maximum(stride, 1.0), 1.0, np.maximum(group, 1.0))
    narrow = wiring.oversubscription
    detour = 2.0 if wiring.form == "dragonfly" else 1.0
    outside = (group - inside) / np.maximum(group, 1.0)
    if operation == "all_to_all":
        return np.asarray(narrow * outside)
    if operation == "send_recv":
        crossings = np.ceil(group / inside) - 1.0
        load: Array = group - 1.0 + crossings * np.maximum(detour * narrow / inside - 1.0, 0.0)
        return load
    times = 2.0 if operation == "all_reduce" else 1.0
    return np.asarray(times * detour * narrow * outside / inside)


# ------------------------------------------------------------------------------- rings and tori


def _on_a_torus(
    operation: str, group: Array, stride: Array, shape: tuple[int, ...], closes_at: int
) -> Array:
    """`_slice_loads` of each group, evaluated once for each distinct group, [configs]."""
    wide, apart = np.broadcast_arrays(group, stride)
    pairs = np.ceil(wide).reshape(-1) + 1j * np.maximum(apart.reshape(-1), 1.0)
    kinds, where = np.unique(pairs, return_inverse=True)
    values = [
        _slice_loads(int(pair.real), int(pair.imag), shape, closes_at)[operation] for pair in kinds
    ]
    return np.asarray(values)[where.reshape(-1)].reshape(wide.shape)


_Lines = tuple[tuple[int, float, bool], ...]


@lru_cache(maxsize=4096)
def _slice_loads(
    group: int, stride: int, shape: tuple[int, ...], closes_at: int
) -> Mapping[str, float]:
    """Loads of the collectives of a group on a torus [messages], by operation.

    A group takes the slice that serves it best, regardless of the slices of other groups.  Members
    `stride` apart are spread over it, so that `stride` groups share each of its lines.  With k
    dimensions a line has 1/2k of a device's bandwidth; it closes to a ring where the slice spans
    the dimension.

    - a device at the slice's edge gathers over the links that it has;
    - all links together carry the total traffic of an all-reduce, 2 (g - 1) messages;
    - half of an exchange crosses the middle of the longest dimension;
    - a message goes to the nearest neighbour over one line.
    """
    if group < 2:
        return dict.fromkeys(OPERATIONS, 0.0)
    lines = min(_placements(group, stride, shape, closes_at), key=_cost)
    edge, share = _edge(lines), (group - 1.0) / group
    links = sum(
        2.0 * rate * (count if closed else count - 1) / count for count, rate, closed in lines
    )
    return {
        "all_reduce": max(2.0 * share / links, 1.0 / edge),
        "all_gather": share / edge,
        "reduce_scatter": share / edge,
        "all_to_all": max(_cut(lines), share / edge),
        "send_recv": (group - 1.0) * min(1.0 / rate for _, rate, _ in lines),
    }


def _edge(lines: _Lines) -> float:
    """Share of its bandwidth that a device at the edge of a slice can use."""
    return sum(rate * (2.0 if closed else 1.0) for _, rate, closed in lines)


def _cut(lines: _Lines) -> float:
    """Load of an all-to-all on the links across the middle of the longest dimension [messages]."""
    return max((n**2 // 4) / (n * rate * (2.0 if closed else 1.0)) for n, rate, closed in lines)


def _cost(lines: _Lines) -> tuple[float, float]:
    """Sort key of slices: the widest cut first, then the most links at the edge."""
    return _cut(lines), 1.0 / _edge(lines)


def _placements(group: int, stride: int, shape: tuple[int, ...], closes_at: int) -> list[_Lines]:
    """Lines of each slice that a group fits: (members, share of the bandwidth, closed) of each.

    A group that fits no slice is placed as the next larger one, and in the end as if it were alone.
    """
    for members in (*range(group, 2 * group), group):
        apart = stride if members * stride <= prod(shape) else 1
        found = [
            _lines(block, whole, shape, closes_at)
            for whole in _factors(members * apart, shape)
            for block in _factors(apart, whole)
            if all(large % small == 0 for small, large in zip(block, whole, strict=True))
        ]
        if found:
            return found
    return [((group, 0.5 / len(shape), False),)]


def _lines(
    block: tuple[int, ...], whole: tuple[int, ...], shape: tuple[int, ...], closes_at: int
) -> _Lines:
    """Lines of a slice `whole` whose members are a `block` apart."""
    return tuple(
        (
            large // small,
            1.0 / (2.0 * len(shape) * small),
            large == size or bool(closes_at and large % closes_at == 0),
        )
        for small, large, size in zip(block, whole, shape, strict=True)
        if large > small
    )


def _factors(size: int, shape: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Extents within `shape` whose product is `size`."""
    first, *rest = shape
    if not rest:
        if size <= first:
            yield (size,)
        return
    for extent in range(1, min(first, size) + 1):
        if size % extent == 0:
            for others in _factors(size // extent, tuple(rest)):
                yield (extent, *others)

"""Collectives: time of their steps, plus the faster of two protocols, for small packets or for
bulk.

Each algorithm has its constants: "nccl" (rings, trees and, where available, reduction in the
switch) and "custom" (one- and two-shot all-reduce over mapped memory).  A group that spans tiers of
the interconnect works tier by tier, fastest first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast

import numpy as np

from genz_core.common.registry import collective_kinds
from genz_core.graphs import Op
from genz_core.latency.conditions import Conditions
from genz_core.latency.kernel_time import KernelTime, Stages
from genz_core.latency.models import prices
from genz_core.latency.parameters import CollectiveParameters
from genz_core.latency.topology import Exchange, Tier, exchange_of, tiers
from genz_core.symbolic.symbols import number
from genz_core.systems import Link
from genz_core.types import Array, Num

#: Devices of the largest group that the constants of steps were fitted on; all of those were rings.
_RING = 8.0


def collective_time(
    operation: str,
    message_bytes: Num,
    group: Num,
    *,
    stride: Num = 1,
    links: Sequence[Link],
    parameters: CollectiveParameters,
    upper: CollectiveParameters | None = None,
    exchange: Sequence[Num] | None = None,
    floor_s: float | None = None,
    tree: bool = False,
) -> KernelTime:
    """Time of one collective over `group` devices that are `stride` apart [s].

    Within one tier of bandwidth b, with w = load(g) message / (efficiency(g) b)::

        packets = sent load(g) / traffic(g) / (packet_efficiency b)
        T       = base + step (steps(g) - steps(2)) + min(packets, bulk + w + sqrt(ramp w))

    load is the traffic on the busiest link under the wiring
    (`genz_core.latency.collective_traffic`); behind a switch it is the traffic itself. steps is
    2(g-1) for an all-reduce, g-1 for the others; behind one switch a group beyond 8 devices adds
    those of a tree, one (two) for each doubling, since no library rings over a rack. Small
    messages go as packets in one shot (an all-reduce sends its g-1 peers everything), large ones
    by the algorithm that moves least. Over two tiers an all-reduce is a reduce-scatter inside, an
    all-reduce of the parts outside and an all-gather inside; a gather or scatter exchanges first
    outside, then inside; an all-to-all forwards inside while more data arrives, so that the slower
    tier counts. A chain of stages (send_recv) makes its group - 1 hops one after another, each a T
    of two.

    Args:
        operation: kind of the collective.
        message_bytes: the whole tensor (all_to_all: of one device); zero is free.
        group, stride: devices, and distance between neighbours; like the message, numbers or arrays
            [shapes] that broadcast.
        links: tiers, nearest first, as in `System.links`; domain 0 reaches everything.
        parameters: of the operation and algorithm on the first tier; `upper`: on the others
            (default: the same with each tier's own latency).
        exchange: for an all-to-all of routed tokens, the fields of `topology.Exchange`.
        floor_s: replaces `base_s`.
        tree: an all-reduce up and down a binary tree, 2 log2(g) steps; rings otherwise.

    Source: bus-bandwidth factors of NVIDIA nccl-tests, doc/PERFORMANCE.md; Thakur et al. 2005,
    doi:10.1177/1094342005051521; the two protocols: NCCL's LL and Simple; trees and reduction in
    the switch in place of rings: NCCL's NCCL_ALGO (Ring, Tree, NVLS).
    """
    stages = partial(
        _stages, operation, links=links, parameters=parameters, upper=upper, floor_s=floor_s,
        tree=tree,
    )  # fmt: skip
    work = np.where(number(group) > 1, message_bytes, 0.0)
    return KernelTime(stages, (message_bytes, group, stride, *(exchange or ())), work=work)


def _stages(
    operation: str,
    message: Array,
    group: Array,
    stride: Array,
    *routed: Array,
    links: Sequence[Link],
    parameters: CollectiveParameters,
    upper: CollectiveParameters | None,
    floor_s: float | None,
    tree: bool,
) -> Stages:
    """Start and steps on all tiers, then the transfer, [shapes]."""
    chain = operation == "send_recv"
    together = np.maximum if operation == "all_to_all" else np.add
    exchange = Exchange(*routed) if routed else None
    latency, transfer = np.zeros(group.shape), np.zeros(group.shape)
    for index, tier in enumerate(tiers(operation, message, group, stride, links, exchange)):
        if index and not np.any(tier.group > 1.0):
            continue
        constants = parameters if index == 0 else (upper or parameters)
        base = floor_s if index == 0 and floor_s is not None else constants.base_s
        crossing = tier.link.latency_s if index else 0.0
        hops = (tier.group - 1.0) * tier.times if chain else 1.0
        if chain:
            tier = replace(tier, group=np.where(tier.group > 1, 2.0, 1.0))
        steps, moved = _tier_s(operation, tier, constants, base + crossing, tree, index > 0)
        latency, transfer = latency + hops * steps, together(transfer, hops * moved)
    return Stages({"latency": latency}, latency, after={"transfer": transfer})


def _tier_s(
    operation: str,
    tier: Tier,
    constants: CollectiveParameters,
    base_s: float,
    tree: bool,
    outer: bool,
) -> tuple[Array, Array]:
    """Equation of `collective_time` for one tier: its start and steps, and its transfer [s].

    Zero where a group has one device on the tier.  Constants are fitted on the first tier; on
    others (`outer`) they reach the share of the rate that the system states, if it states one.
    """
    group, message, bytes_per_s = tier.group, tier.message_bytes, tier.link.bytes_per_s
    octave = np.log2(np.maximum(group, 2.0))
    hops = octave - 1.0 if tree else group - 2.0
    if not outer and tier.link.topology.form == "switch" and operation != "all_to_all":
        hops = np.minimum(hops, _RING - 2.0 + np.maximum(octave - np.log2(_RING), 0.0))
    steps = (2.0 if operation == "all_reduce" else 1.0) * hops
    fitted = [constants.efficiency_2, constants.efficiency_4, constants.efficiency_8]
    # Interpolated in the logarithm of the group size between fitted sizes, constant beyond them.
    efficiency = np.exp(np.interp(octave, (1.0, 2.0, 3.0), np.log(fitted)))
    if outer and tier.link.reached is not None:
        efficiency = np.full(octave.shape, tier.link.reached)
    several, load_s = group > 1, tier.load(operation) * message / bytes_per_s
    wire = load_s / efficiency
    bulk = constants.bulk_s + wire + np.sqrt(constants.ramp_s * wire)
    # A one-shot all-reduce sends g - 1 whole messages instead of 2 (g - 1) / g.
    shot = group / 2.0 if operation == "all_reduce" else 1.0
    packets = shot * load_s / constants.packet_efficiency
    latency = base_s + constants.step_s * np.maximum(steps, 0.0)
    return np.where(several, latency, 0.0), np.where(several, _faster(packets, bulk), 0.0)


def _faster(a: Array, b: Array) -> Array:
    """The smaller of two times, smoothed where they are close, because no protocol switches exactly
    there.

    (a^-4 + b^-4)^(-1/4), computed with square roots: powers take ten times as long.
    """
    least, most = np.minimum(a, b), np.maximum(a, b)
    ratio = least / np.maximum(most, 1e-30)
    return number(least / np.sqrt(np.sqrt(1.0 + np.square(np.square(ratio)))))


# ------------------------------------------------------------------------------- from an operator


def _key(conditions: Conditions, op: Op) -> tuple[str, str]:
    """Class, and algorithm with operation, of the constants on the first tier."""
    algorithm = conditions.engine.all_reduce if op.kind == "all_reduce" else "nccl"
    if algorithm == "switched":
        links = conditions.system.links
        behind_a_switch = bool(links) and links[0].topology.form == "switch"
        algorithm = "custom" if behind_a_switch else "nccl"
    return "collective", f"{algorithm}.{op.kind}"


def _upper(conditions: Conditions, op: Op) -> CollectiveParameters:
    """Constants on the tiers beyond the first, where only rings run."""
    constants = conditions.profile.constants("collective", f"nccl.{op.kind}")
    return cast(CollectiveParameters, constants)


@prices(*sorted(collective_kinds()), formula=collective_time, key=_key)
def _arguments(conditions: Conditions, op: Op) -> dict[str, Any]:
    """Arguments of `collective_time`."""
    return {
        "operation": op.kind,
        "message_bytes": op.message_bytes,
        "group": op.group,
        "stride": op.stride,
        "links": conditions.system.links,
        "exchange": exchange_of(op),
        "upper": None if conditions.alone else _upper(conditions, op),
        "tree": conditions.engine.all_reduce == "tree" and op.kind == "all_reduce",
    }

"""How unevenly routed experts load the ranks, and how far redundant copies of busy experts balance
it.

The placement method is that of DeepSeek's expert-parallel load balancer (EPLB): the expert with the
most rows per copy is copied first, then copies go to the rank with the fewest rows and a free slot.
"""

from __future__ import annotations

import heapq

import numpy as np

from genz_core.errors import InvalidValue
from genz_core.types import Array


def checked_counts(counts: Array) -> Array:
    """Routed rows as [steps, layers, experts]; two axes are taken as one step, a single axis also
    as one layer.

    Raises:
        InvalidValue: more axes, negative or missing counts, or a layer without any rows.
    """
    found = np.asarray(counts, dtype=float)
    if found.ndim not in (1, 2, 3) or not found.size:
        raise InvalidValue(
            f"routing counts have {found.ndim} axes: give [experts], [layers, experts] or "
            "[steps, layers, experts]"
        )
    found = found.reshape((1,) * (3 - found.ndim) + found.shape)
    if not np.all(np.isfinite(found)) or np.any(found < 0):
        raise InvalidValue(
            "routing counts contain a negative or missing number: give token counts per expert"
        )
    if np.any(found.sum(axis=(0, 2)) == 0):
        empty = int(np.flatnonzero(found.sum(axis=(0, 2)) == 0)[0])
        raise InvalidValue(f"layer {empty} of the routing counts has no tokens: leave it out")
    return found


def busiest_rank(counts: Array, ranks: int, redundant: int = 0) -> float:
    """Rows of the busiest rank over the mean of all ranks: the `expert_imbalance` of a run.

    Ranks wait for the busiest one in every layer and step, so maxima are summed before the
    division. Without copies, experts are assigned to ranks in order, as engines load them; with
    copies, they are placed by the rows of the whole run.

    Args:
        counts: routed rows, [steps, layers, experts] or fewer axes, see `checked_counts`.
        ranks: that share the experts.  redundant: copies beside the experts, in every layer.

    Raises:
        InvalidValue: invalid counts, or ranks that do not divide experts plus copies.
    """
    rows = checked_counts(counts)
    experts = rows.shape[2]
    slots = experts + redundant
    if ranks < 1 or redundant < 0 or slots % ranks:
        near = -slots % max(ranks, 1)
        raise InvalidValue(
            f"{ranks} ranks do not divide {experts} experts and {redundant} copies: use "
            f"{redundant + near} copies"
        )
    busiest = 0.0
    for layer in range(rows.shape[1]):
        share = _shares(rows[:, layer].sum(axis=0), ranks, redundant)
        busiest += float((rows[:, layer] @ share).max(axis=1).sum())
    return busiest * ranks / float(rows.sum())


def _shares(total: Array, ranks: int, redundant: int) -> Array:
    """[experts, ranks]: the share of each expert's rows that a rank computes."""
    experts = len(total)
    share = np.zeros((experts, ranks))
    if not redundant:
        share[np.arange(experts), np.arange(experts) // (experts // ranks)] = 1.0
        return share
    copies = np.ones(experts)
    queue = [(-rows, expert) for expert, rows in enumerate(total)]
    heapq.heapify(queue)
    for _ in range(redundant):
        _, expert = heapq.heappop(queue)
        copies[expert] += 1
        heapq.heappush(queue, (-total[expert] / copies[expert], expert))
    slots = [(total[e] / copies[e], e) for e in range(experts) for _ in range(int(copies[e]))]
    loads, room = np.zeros(ranks), np.full(ranks, len(slots) // ranks)
    for rows, expert in sorted(slots, key=lambda slot: (-slot[0], slot[1])):
        rank = int(np.argmin(np.where(room > 0, loads, np.inf)))
        loads[rank] += rows
        room[rank] -= 1
        share[expert, rank] += 1.0 / copies[expert]
    return share

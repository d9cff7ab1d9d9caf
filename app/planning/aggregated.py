"""Replicas that read prompts and decode: all degrees and replicas of a family in one call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from app.planning.candidates import (
    CHOICES,
    COLUMNS,
    Candidates,
    economy_columns,
    latency_columns,
)
from app.planning.demand import Demand
from app.planning.families import Family
from app.planning.space import Space, batch_limits, replicated, shapes
from app.scenario.served_rows import serve_resolved
from genz_core.deployment import deploy
from genz_core.serving import Novelty, ServingEstimate
from genz_core.serving.room import sequences_that_fit
from genz_core.types import Array, Mask, Parallelism, Workload


def price(family: Family, space: Space, demand: Demand) -> Candidates:
    """Candidates of an aggregated family under a demand.

    A shape that does not hold the weights and one sequence, which no number of replicas changes,
    is there once.

    Raises:
        RidgelineError: the system states no figure that an operator needs.
    """
    resolved = family.resolved
    degrees = shapes(resolved.model, resolved.system, space, resolved.engine.name)
    limits = batch_limits(space, demand, spills=bool(family.spill))
    table = replicated(degrees, space, demand, limits)
    if not table.shape[1]:
        return empty(family)
    firsts = np.unique(table[:4], axis=1, return_index=True)[1]
    small = firsts[~_hold(family, table[:4, firsts], demand)]
    held = ~_among(table[:4], table[:4, small])
    return of_table(family, np.concatenate([table[:, held], table[:, small]], axis=1), demand)


def _hold(family: Family, degrees: Array, demand: Demand) -> Mask:
    """Whether replicas hold the weights and one request, [shapes]; degrees: as `space.shapes`."""
    resolved = family.resolved
    named: dict[str, Any] = dict(zip(("tp", "pp", "dp", "ep"), degrees, strict=True))
    deployed = deploy(resolved.model, resolved.system, resolved.engine)
    load = Workload(1.0, demand.mean_isl, demand.mean_osl)
    fit = sequences_that_fit(
        deployed.model, deployed.system, load, Parallelism(**named), deployed.engine,
        demand.sharing, family.spill,
    )[1]  # fmt: skip
    return np.asarray(fit >= 1.0)


def _among(columns: Array, some: Array) -> Mask:
    """Whether each column is one of some others, [columns]."""
    return np.asarray((columns[:, :, None] == some[:, None, :]).all(axis=0).any(axis=1))


def of_table(family: Family, table: Array, demand: Demand) -> Candidates:
    """Candidates of rows as `space.replicated` makes them, [7, candidates].

    Replicas with the same number of users are priced once.
    """
    tp, pp, dp, ep, each, replicas, limit = table
    load = np.ceil(demand.concurrency / replicas) if demand.closed else demand.rate / replicas
    rows = np.stack([tp, pp, dp, ep, load, limit])
    one, of = np.unique(rows, axis=1, return_inverse=True)
    degrees: dict[str, Any] = dict(zip(("tp", "pp", "dp", "ep"), one[:4], strict=True))
    isl, sharing = demand.prompt
    served = serve_resolved(
        family.resolved,
        isl=isl,
        osl=demand.osl,
        parallelism=Parallelism(**degrees),
        length_ratio=demand.length_ratio,
        concurrency=one[4] if demand.closed else None,
        rate_per_s=None if demand.closed else one[4],
        max_num_seqs=one[5],
        sharing=sharing,
        spill=family.spill,
    )
    return _columns(family, table, demand, _Served.of(served, of.ravel()), each * replicas)


@dataclass(frozen=True, slots=True)
class _Served:
    """Figures of replicas, [candidates]; see `ServingEstimate`."""

    ttft_s: Array
    ttft_median_s: Array
    tpot_s: Array
    prefill_s: Array
    output_tokens_per_s: Array
    osl: Array
    running: Array
    capacity: Array
    utilisation: Array
    memory_bytes: Array
    bound_prefill_s: Array
    bound_decode_step_s: Array
    offloaded: Array
    novelty: Novelty
    status: Any
    usable_bytes: float
    messages: Mapping[int, str]

    @classmethod
    def of(cls, served: ServingEstimate, rows: Any) -> _Served:
        """The figures of `rows` of an estimate."""
        size = served.status.shape
        arrays = {
            name: np.broadcast_to(getattr(served, name), size)[rows]
            for name in cls.__slots__
            if name not in ("usable_bytes", "messages", "novelty")
        }
        far = Novelty(*(getattr(served.novelty, name)[rows] for name in Novelty.__slots__))
        said = {at: served.messages[int(row)] for at, row in enumerate(rows)
                if int(row) in served.messages}  # fmt: skip
        return cls(**arrays, novelty=far, usable_bytes=served.memory.usable_bytes, messages=said)


def _columns(
    family: Family, table: Array, demand: Demand, served: _Served, devices: Array
) -> Candidates:
    tp, pp, dp, ep, _, replicas, limit = table
    size = table.shape[1]
    users = np.ceil(demand.concurrency / replicas)
    share = demand.concurrency / (users * replicas) if demand.closed else 1.0
    each = served.osl * demand.shape.samples
    rate = served.output_tokens_per_s / each * replicas * share
    columns: dict[str, Array] = {name: np.full(size, np.nan) for name in COLUMNS}
    columns |= {name: np.zeros(size) for name in CHOICES}
    columns |= {"replicas": replicas, "tp": tp, "pp": pp, "dp": dp, "ep": ep}
    columns |= latency_columns(
        served.ttft_s, served.ttft_median_s, served.prefill_s, served.tpot_s, demand
    )
    columns |= economy_columns([(family.system, devices)], rate, demand)
    columns |= {
        "max_num_seqs": np.where(limit > 0, limit, family.resolved.engine.max_sequences),
        "utilisation": served.utilisation,
        "running": served.running * replicas,
        "capacity": served.capacity * replicas,
        "memory_bytes": served.memory_bytes,
        "usable_bytes": np.full(size, served.usable_bytes),
        "offloaded_bytes": served.offloaded,
        "bound_ttft_s": served.bound_prefill_s,
        "bound_tpot_s": served.bound_decode_step_s,
        "ttft_novelty": served.novelty.ttft,
        "tpot_novelty": served.novelty.tpot,
        "users": served.novelty.users,
    }
    columns = {name: np.broadcast_to(column, (size,)) for name, column in columns.items()}
    numbers = np.zeros(size, dtype=np.intp)
    return Candidates((family,), numbers, columns, served.status, served.messages)


def empty(family: Family) -> Candidates:
    """No candidate: no degrees split the model over so few devices."""
    columns = {name: np.zeros(0) for name in COLUMNS}
    return Candidates((family,), np.zeros(0, dtype=np.intp), columns, np.zeros(0, dtype="U24"), {})

"""Replicas that read prompts and decode: all degrees and replicas of a family in one call."""

from __future__ import annotations

from typing import Any

import numpy as np

from app.planning.candidates import CHOICES, COLUMNS, Candidates, economy_columns, latency_columns
from app.planning.demand import Demand
from app.planning.families import Family
from app.planning.space import Space, replicated, shapes
from app.scenario.served_rows import serve_resolved
from genz_core.serving import ServingEstimate
from genz_core.types import Array, Parallelism


def price(family: Family, space: Space, demand: Demand) -> Candidates:
    """Candidates of an aggregated family under a demand.

    Raises:
        RidgelineError: the system states no figure that an operator needs.
    """
    resolved = family.resolved
    table = replicated(shapes(resolved.model, resolved.system, space), space, demand)
    if not table.shape[1]:
        return empty(family)
    return of_table(family, table, demand)


def of_table(family: Family, table: Array, demand: Demand) -> Candidates:
    """Candidates of rows as `space.replicated` makes them, [7, candidates]."""
    tp, pp, dp, ep, each, replicas, limit = table
    degrees: dict[str, Any] = {"tp": tp, "pp": pp, "dp": dp, "ep": ep}
    users = np.ceil(demand.concurrency / replicas)
    served = serve_resolved(
        family.resolved,
        isl=demand.isl,
        osl=demand.osl,
        parallelism=Parallelism(**degrees),
        length_ratio=demand.length_ratio,
        concurrency=users if demand.closed else None,
        rate_per_s=None if demand.closed else demand.rate / replicas,
        max_num_seqs=limit,
    )
    return _columns(family, table, demand, served, each * replicas)


def _columns(
    family: Family, table: Array, demand: Demand, served: ServingEstimate, devices: Array
) -> Candidates:
    tp, pp, dp, ep, _, replicas, limit = table
    size = table.shape[1]
    users = np.ceil(demand.concurrency / replicas)
    share = demand.concurrency / (users * replicas) if demand.closed else 1.0
    rate = served.output_tokens_per_s / served.osl * replicas * share
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
        "usable_bytes": np.full(size, served.memory.usable_bytes),
        "bound_ttft_s": served.bound_prefill_s,
        "bound_tpot_s": served.bound_decode_step_s,
    }
    columns = {name: np.broadcast_to(column, (size,)) for name, column in columns.items()}
    numbers = np.zeros(size, dtype=np.intp)
    return Candidates((family,), numbers, columns, served.status, served.messages)


def empty(family: Family) -> Candidates:
    """No candidate: no degrees split the model over so few devices."""
    columns = {name: np.zeros(0) for name in COLUMNS}
    return Candidates((family,), np.zeros(0, dtype=np.intp), columns, np.zeros(0, dtype="U24"), {})

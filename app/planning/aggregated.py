"""Replicas that do both prefill and decode: all degrees and replica counts of a family in one
call.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from app.planning import demand
from app.planning.candidates import (
    CHOICES,
    COLUMNS,
    Candidates,
    economy_columns,
    latency_columns,
)
from app.planning.families import Family
from app.planning.space import DEGREES, batch_limits, replicated, shapes, split
from app.question.query import Query
from app.scenario.served_rows import served
from genz_core.capacity.offload import What
from genz_core.deployment import deploy
from genz_core.models.model_kinds import prompt_tokens
from genz_core.serving import Novelty, ServingEstimate
from genz_core.serving.kv_capacity import sequences_that_fit
from genz_core.serving.replicas import UsersOfReplicas
from genz_core.types import Array, Mask, Workload


def price(family: Family, query: Query) -> Candidates:
    """Candidates of an aggregated family under the load of a question.

    A shape whose devices do not hold the weights and one sequence appears once, because the number
    of replicas does not change that.

    Raises:
        RidgelineError: the system states no figure that an operator needs.
    """
    resolved = family.resolved
    degrees = shapes(resolved.model, resolved.system, query, resolved.engine.name, family.copies)
    limits = batch_limits(query, spills=bool(family.spill))
    table = replicated(degrees, query, limits)
    if not table.shape[1]:
        return empty(family)
    firsts = np.unique(table[:4], axis=1, return_index=True)[1]
    small = firsts[~holds(family, table[:4, firsts])]
    held = ~_among(table[:4], table[:4, small])
    return of_table(family, np.concatenate([table[:, held], table[:, small]], axis=1))


def holds(family: Family, degrees: Array) -> Mask:
    """Whether a replica of each shape holds the weights and one request, [shapes]; degrees: as
    `space.shapes`.
    """
    resolved, lengths = family.resolved, demand.lengths(family.question)
    deployed = deploy(resolved.model, resolved.system, resolved.engine)
    load = Workload(1.0, prompt_tokens(resolved.model, lengths.prompt), lengths.output)
    fit = sequences_that_fit(
        deployed.model, deployed.system, load, split(family.question, *degrees), deployed.engine,
        lengths.sharing, cast(What, family.spill) or None,
    )[1]  # fmt: skip
    return np.asarray(fit >= 1.0)


def _among(columns: Array, some: Array) -> Mask:
    """Whether each column also occurs in `some`, [columns]."""
    return np.asarray((columns[:, :, None] == some[:, None, :]).all(axis=0).any(axis=1))


def of_table(family: Family, table: Array, amount: Array | None = None) -> Candidates:
    """Candidates from rows in the form of `space.replicated`, [7, candidates].

    amount: load of each, [candidates]; by default that of the question.  Replicas with the same
    number of users are priced once.
    """
    tp, pp, dp, ep, each, replicas, limit = table
    question = family.question
    whole = np.full(table.shape[1], demand.amount(question)) if amount is None else amount
    users = UsersOfReplicas.of(whole, replicas)
    loads = [users.more, users.fewer] if demand.is_closed(question) else [whole / replicas]
    rows = np.concatenate([np.stack([tp, pp, dp, ep, load, limit]) for load in loads], axis=1)
    one, of = np.unique(rows, axis=1, return_inverse=True)
    arrays = dict(zip((*DEGREES, question.kind, "max_num_seqs"), one, strict=True))
    found = served(family.resolved, arrays)
    priced = [_Served.of(found, places) for places in np.split(of.ravel(), len(loads))]
    together = users.together(*priced) if len(loads) > 1 else priced[0].times(replicas)
    return _columns(family, table, together, each * replicas)


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
    prompt_share: Array
    memory_bytes: Array
    bound_prefill_s: Array
    bound_tpot_s: Array
    offloaded: Array
    novelty: Novelty
    status: Any
    usable_bytes: float
    messages: Mapping[int, str]

    @classmethod
    def of(cls, served: ServingEstimate, rows: Any) -> _Served:
        """The figures of the selected rows of an estimate."""
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

    def times(self, replicas: Array) -> _Served:
        """Totals of replicas with this load each, [candidates]."""
        return replace(
            self,
            output_tokens_per_s=self.output_tokens_per_s * replicas,
            running=self.running * replicas,
        )


def _columns(family: Family, table: Array, served: _Served, devices: Array) -> Candidates:
    """served: totals of all replicas."""
    tp, pp, dp, ep, _, replicas, limit = table
    size, question = table.shape[1], family.question
    rate = served.output_tokens_per_s / (served.osl * question.samples)
    columns: dict[str, Array] = {name: np.full(size, np.nan) for name in COLUMNS}
    columns |= {name: np.zeros(size) for name in CHOICES}
    columns |= {"replicas": replicas, "tp": tp, "pp": pp, "dp": dp, "ep": ep}
    columns |= latency_columns(
        served.ttft_s, served.ttft_median_s, served.prefill_s, served.tpot_s, question
    )
    columns |= economy_columns([(family.system, devices)], rate, question)
    columns |= {
        "max_num_seqs": np.where(limit > 0, limit, family.resolved.engine.max_sequences),
        "utilisation": served.utilisation,
        "prompt_share": served.prompt_share,
        "running": served.running,
        "capacity": served.capacity * replicas,
        "memory_bytes": served.memory_bytes,
        "usable_bytes": np.full(size, served.usable_bytes),
        "offloaded_bytes": served.offloaded,
        "bound_ttft_s": served.bound_prefill_s,
        "bound_tpot_s": served.bound_tpot_s,
        "ttft_novelty": served.novelty.ttft,
        "tpot_novelty": served.novelty.tpot,
        "users": served.novelty.users,
        "isl": np.full(size, float(question.isl)),
        "osl": np.full(size, float(question.osl)),
    }
    columns = {name: np.broadcast_to(column, (size,)) for name, column in columns.items()}
    numbers = np.zeros(size, dtype=np.intp)
    return Candidates((family,), numbers, columns, served.status, served.messages)


def empty(family: Family) -> Candidates:
    """An empty set of candidates, for a family that has no degrees on so few devices."""
    columns = {name: np.zeros(0) for name in COLUMNS}
    return Candidates((family,), np.zeros(0, dtype=np.intp), columns, np.zeros(0, dtype="U24"), {})

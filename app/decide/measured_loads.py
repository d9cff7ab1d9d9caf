"""Shipped measured loads: which ones apply to a family of deployments, and how far they reach."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.measuring.best_runs import own_format, shipped_name, slug_of
from app.planning.families import Family
from app.planning.space import DEGREES
from app.question.question import Question
from app.question.validity import drafts, has_pool
from app.scenario import sharing
from app.scenario.scenario import Resolved
from genz_core.deployment import bulk_format
from genz_core.types import Array
from hardware_db.tables import table

#: How well measurements cover a point, the best first.
BASES = ("measured", "interpolated", "extrapolated", "not measured")
_ALIKE = 0.02  # relative difference up to which concurrencies count as equal
#: Factor between mean lengths up to which a measured run is shown beside a prediction: judgement.
_NEAR = 1.15


@dataclass(frozen=True, slots=True)
class MeasuredLoad:
    """A measured closed loop of users: degrees, lengths, open requests, mean latencies [s]."""

    degrees: tuple[int, ...]
    isl: int
    osl: int
    length_ratio: float
    concurrency: float
    ttft_s: float
    tpot_s: float
    source: str

    @property
    def row(self) -> dict[str, float]:
        """Its degrees by name, for one replica."""
        return {**dict(zip(DEGREES, self.degrees, strict=True)), "replicas": 1}

    @property
    def asked(self) -> dict[str, Any]:
        """What the benchmark asked for beside users, as parameters: all users start at once."""
        sizes = {"isl": self.isl, "osl": self.osl, "length_ratio": self.length_ratio}
        return {**sizes, "burst_start": True}

    @property
    def mean_lengths(self) -> tuple[float, float]:
        """Mean tokens in and out of a request."""
        mean = (1.0 + self.length_ratio) / 2.0
        return self.isl * mean, self.osl * mean

    @property
    def output_tokens_per_s(self) -> float:
        """Throughput derived from the latencies: users over a request's time, times tokens."""
        osl = max(round(self.mean_lengths[1]), 1.0)
        return self.concurrency * osl / (self.ttft_s + (osl - 1.0) * self.tpot_s)


def measured_loads(family: Family) -> tuple[MeasuredLoad, ...]:
    """The measured loads of a family: its model, system, engine and weight format."""
    if family.prefill is not None or family.speculation is not None:
        return ()
    return _of(family.resolved)


def comparable_loads(resolved: Resolved) -> tuple[MeasuredLoad, ...]:
    """The measured loads of a deployment at its degrees and about its lengths, any users."""
    q = resolved.scenario
    if has_pool(q) or drafts(q) or q.replicas != 1 or sharing.unmeasured(q):
        return ()
    degrees = tuple(int(getattr(q, name)) for name in DEGREES)
    return tuple(
        one
        for one in _of(resolved)
        if one.degrees == degrees
        and all(
            1 / _NEAR <= mean / asked <= _NEAR
            for mean, asked in zip(one.mean_lengths, (q.isl, q.osl), strict=True)
        )
    )


def _of(resolved: Resolved) -> tuple[MeasuredLoad, ...]:
    """The measured loads of a model, system, engine and weight format."""
    key = (shipped_name(resolved.model.name), resolved.system.slug, resolved.engine.name)
    stored = bulk_format(resolved.model)
    return tuple(one for weights, one in by_family().get(key, ()) if weights == stored)


@lru_cache(maxsize=1)
def by_family() -> Mapping[tuple[str, str, str], list[tuple[str, MeasuredLoad]]]:
    """Every measured serving row without drafts, with the format of its weights, by model, system
    and engine.
    """
    found: dict[tuple[str, str, str], list[tuple[str, MeasuredLoad]]] = {}
    for row in table("measurements", "serving"):
        if row["mtp_tokens"]:
            continue
        key = (shipped_name(row["model"]), slug_of(row["system"]), row["engine"])
        weights = row["weights"] or own_format(row["model"])
        found.setdefault(key, []).append((weights, _of_row(row)))
    return found


def _of_row(row: Mapping[str, str]) -> MeasuredLoad:
    stated: dict[str, Any] = {n: int(row[n]) for n in (*DEGREES, "moe_tp") if row.get(n)}
    question = Question(**stated)
    return MeasuredLoad(
        tuple(int(getattr(question, name)) for name in DEGREES),
        int(row["isl"]),
        int(row["osl"]),
        float(row["length_ratio"] or 1.0),
        float(row["concurrency"]),
        float(row["measured_ttft_s"]),
        float(row["measured_tpot_s"]),
        " ".join(filter(None, (row["engine"], row["engine_version"], row["measured_on"]))),
    )


def nearest(
    loads: Sequence[MeasuredLoad], degrees: Array, users: float, lengths: tuple[int, int]
) -> MeasuredLoad | None:
    """The measured load nearest to a replica's load; see `distance`.  None without any."""
    return min(loads, key=lambda one: distance(one, degrees, users, lengths), default=None)


def distance(load: MeasuredLoad, degrees: Array, users: float, lengths: tuple[int, int]) -> float:
    """Distance between a measured load and another: the product of the factors between their
    degrees, users and lengths; 1 if they are equal.

    Args:
        degrees: tp, pp, dp, ep of the other, [4].  users: of it.  lengths: its isl and osl.
    """
    mine = np.array([*load.degrees, load.concurrency, load.isl, load.osl], dtype=float)
    other = np.array([*degrees, users, *lengths], dtype=float)
    return float(np.exp(np.abs(np.log(mine / other)).sum()))


def apart(load: MeasuredLoad, degrees: Array, users: float, lengths: tuple[int, int]) -> str:
    """Differences between a measured load and another, in words; see `distance`."""
    said = []
    same = tuple(int(degree) for degree in degrees) == load.degrees
    if not same:
        said.append("other degrees")
    pairs = ("users", load.concurrency, users), ("in", load.isl, lengths[0]), (
        "out", load.osl, lengths[1])  # fmt: skip
    for name, mine, other in pairs:
        if abs(mine / other - 1.0) > _ALIKE:
            said.append(f"{mine / other:.3g} × the {name if name == 'users' else 'tokens ' + name}")
    return ", ".join(said) or "the same"


def bases(
    loads: Sequence[MeasuredLoad], degrees: Array, users: Array, lengths: tuple[int, int]
) -> NDArray[np.intp]:
    """How well measurements cover each point, as an index in `BASES`, [points].

    measured: the same degrees, lengths and users.  interpolated: the same degrees and lengths, with
    users between measured ones.  extrapolated: beyond them.  not measured: no loads at all.

    Args:
        degrees: tp, pp, dp, ep of each point, [4, points].  users: of a replica.
        lengths: isl and osl.
    """
    result = np.full(degrees.shape[1], 2 if loads else 3, dtype=np.intp)
    for own in {one.degrees for one in loads}:
        mine = [one for one in loads if one.degrees == own]
        at = np.flatnonzero((degrees == np.array(own, dtype=float)[:, None]).all(axis=0))
        if not at.size:
            continue
        within = _between(users[at], [m.concurrency for m in mine])
        for index, length in enumerate(lengths):
            within &= _between(
                np.full(at.size, float(length)), [float((m.isl, m.osl)[index]) for m in mine]
            )
        result[at[within]] = 1
        exact = [m.concurrency for m in mine if (m.isl, m.osl) == lengths]
        if exact:
            nearest = np.min(np.abs(users[at][:, None] / np.array(exact) - 1.0), axis=1)
            result[at[nearest <= _ALIKE]] = 0
    return result


def _between(values: Array, measured: Sequence[float]) -> NDArray[np.bool_]:
    return (values >= min(measured) * (1 - _ALIKE)) & (values <= max(measured) * (1 + _ALIKE))

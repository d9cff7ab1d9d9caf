"""Cache tiers of a question: their sizes, bandwidths and rents, and what they find in closed form.

Bandwidths are those of the system unless stated; latencies and rents are in
`hardware_db/technology/cache_tiers.csv`, each with its source.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from app.question.question import Question
from app.question.validity import tiers_of
from app.scenario import sharing
from app.scenario.scenario import Resolved
from genz_core.capacity.memory import memory
from genz_core.errors import MissingSpec
from genz_core.serving import ServingEstimate, Traffic
from genz_core.serving.cache_tiers import (
    CacheTier,
    TierShare,
    characteristic_time,
    found_share,
    total_bytes,
)
from genz_core.systems import System
from genz_core.types import Array, Num, Workload
from hardware_db.tables import table

_GIB = 2.0**30
#: Points of the distribution of a pause, and iterations between hits and their effect on the load.
_POINTS, _ROUNDS = 64, 8
#: Difference of two shares that ends the iterations.
_SAME = 1e-6
Price = Callable[[Traffic], ServingEstimate]


def tiers(question: Question, system: System) -> tuple[CacheTier, ...]:
    """The cache tiers of a question below a system's memory, the fastest first.

    Raises:
        MissingSpec: neither the system nor the question states a bandwidth for one.
    """
    return tuple(
        CacheTier(
            name,
            getattr(question, f"{name}_cache_gib") * _GIB,
            getattr(question, f"{name}_cache_gb_per_s") * 1e9 or _stated(name, system),
            _latency_s(name, system),
            shared=name == "remote",
        )
        for name in tiers_of(question)
    )


def _stated(name: str, system: System) -> float:
    """Bandwidth of a tier from the system's data [bytes/s]; all tiers except remote memory are read
    through the host link.
    """
    host, disk = system.host_bytes_per_s, system.disk_bytes_per_s
    links = {"host": host, "disk": min(host, disk) if host and disk else None}
    links["remote"] = system.links[-1].bytes_per_s if system.links else None
    rate = links[name]
    if not rate:
        raise MissingSpec(
            f"{system.name} has no known bandwidth for a {name} cache: give {name}_cache_gb_per_s"
        )
    return rate


def _latency_s(name: str, system: System) -> float:
    if name == "remote":
        return system.links[-1].latency_s if system.links else 0.0
    return _figures()[name, "read_latency_us"] * 1e-6


def _figures() -> Mapping[tuple[str, str], float]:
    rows = table("technology", "cache_tiers")
    return {(row["tier"], row["figure"]): float(row["value"]) for row in rows}


def rents(question: Question) -> dict[str, float]:
    """Rent of each tier over all replicas [$/h], by name."""
    found = {}
    for name in tiers_of(question):
        stated = getattr(question, f"{name}_cache_price")
        found[name] = _figures()[name, "usd_per_gib_hour"] if stated is None else stated
    sizes = {name: getattr(question, f"{name}_cache_gib") * _GIB for name in found}
    plain = [CacheTier(name, size, 1.0, 0.0, name == "remote") for name, size in sizes.items()]
    workers = question.prefill_workers or question.replicas
    held = total_bytes(plain, workers)
    return {name: held[name] / _GIB * rent for name, rent in found.items()}


# ------------------------------------------------------------------------------- in closed form


def with_tiers(
    resolved: Resolved, load: Traffic, lengths: tuple[Num, Num, Num | None], price: Price
) -> ServingEstimate:
    """Serve a load of sessions whose earlier turns are cached, as far as the device and the tiers
    below it keep them.

    A least-recently-used cache keeps unused blocks for one characteristic time (Che's
    approximation); after a longer pause nothing is found.  A turn that waits for a place pauses its
    session, too.  Hits shorten requests, which changes what is kept: both are solved iteratively.

    lengths: isl, osl and length_ratio of the load as given, numbers or arrays [loads].
    price: function that serves a load.

    Raises:
        MissingSpec: see `tiers`.
    """
    question = resolved.scenario
    below = tiers(question, resolved.system)
    found, kept = price(load), None
    idle = question.think_s > 0.0 or bool(_place_s(found).any())
    evicted = idle and not load.sharing.from_host  # that host is of any size
    if question.turns == 1 or not (below or evicted):
        return found
    lost = sharing.nominal(question, *lengths).before
    whole = np.asarray(load.sharing.cached_tokens, dtype=float)
    uses = _uses(resolved, found, *lengths[:2])
    for _ in range(_ROUNDS):
        places = enumerate(_place_s(found).tolist())
        each = np.array([_found(resolved, below, uses[at], found, at, wait) for at, wait in places])
        if kept is None:
            kept = each
        else:
            settled = np.all(np.abs(each - kept) <= _SAME, axis=1, keepdims=True)
            if settled.all():
                break
            kept = np.where(settled, kept, (kept + each) / 2.0)
        cached = whole - (1.0 - kept.sum(axis=1)) * lost
        shares = np.where(cached > 0, lost / np.maximum(cached, 1e-9), 0.0)[:, None] * kept[:, 1:]
        columns = zip(below, shares.T, strict=True)
        shared = replace(
            load.sharing,
            cached_tokens=cached,
            below=tuple(TierShare(tier, share) for tier, share in columns),
        )
        found = price(replace(load, sharing=shared))
    return replace(found, traffic=replace(found.traffic, sharing=shared))  # of nominal lengths


def _place_s(found: ServingEstimate) -> Array:
    """Time for which a turn of a closed loop waits for a place, by Little's law, [loads] [s]."""
    if found.traffic.concurrency is None:
        return np.zeros(found.status.shape)
    per_s = np.maximum(found.requests_per_s, 1e-300)
    waiting = np.maximum(found.open_requests - found.running, 0.0)
    return np.where(found.requests_per_s > 0, waiting / per_s, 0.0)


@dataclass(frozen=True, slots=True)
class _Uses:
    """The reuse pattern of sessions, independent of cache sizes.

    pauses_s: between the turns, infinite after the last one, [kinds].  tokens: of each kind, per
    turn.  longest, mean: tokens of a session at its end, and on average at the end of a turn.
    token_bytes, free_bytes: cache of a token on the fullest device, and bytes available to a rank's
    caches; devices: that hold a part of each token.
    """

    pauses_s: Array
    tokens: Array
    longest: float
    mean: float
    token_bytes: float
    free_bytes: float
    devices: float


def _uses(resolved: Resolved, found: ServingEstimate, isl: Num, osl: Num) -> list[_Uses]:
    """The reuse pattern of each load.  isl, osl: as given, numbers or arrays [loads]."""
    shape, split = found.status.shape, found.parallelism
    lengths = zip(*(np.broadcast_to(each, shape).tolist() for each in (isl, osl)), strict=True)
    patterns = [_pattern(resolved.scenario, *each) for each in lengths]
    capacity = _capacity(resolved, found, np.array([longest for _, _, longest, _ in patterns]))
    split_over = np.asarray(split.tp, float) * np.asarray(split.pp, float)
    columns = (*capacity, np.broadcast_to(split_over, shape))
    numbers = zip(*(column.tolist() for column in columns), strict=True)
    return [_Uses(*pattern, *each) for pattern, each in zip(patterns, numbers, strict=True)]


@lru_cache(maxsize=1024)
def _pattern(q: Question, isl: float, osl: float) -> tuple[Array, Array, float, float]:
    """Pauses, tokens, longest and mean of `_Uses`."""
    before = sharing.histories(q, isl, osl)
    ends = np.append(before[1:], before[-1] + sharing.added(q, isl) + osl)
    pauses, weights = _pauses(q)
    kinds = np.append(np.repeat(pauses[None], len(ends) - 1, axis=0).ravel(), np.inf)
    tokens = np.append(np.outer(ends[:-1], weights).ravel(), ends[-1]) / q.turns
    return kinds, tokens, float(ends[-1]), float(np.mean(ends))


def _found(
    resolved: Resolved,
    below: tuple[CacheTier, ...],
    uses: _Uses,
    found: ServingEstimate,
    at: int,
    place_s: float,
) -> Array:
    """Share of the earlier conversation found on the device and in each tier, [1 + tiers].

    at: index of the load.  place_s: for which a turn of it waits for a place.
    """
    q = resolved.scenario
    ranks = float(np.ravel(found.ranks)[at if np.size(found.ranks) > 1 else 0])
    requests_s = float(found.output_tokens_per_s[at] / found.osl[at])
    again = np.isfinite(uses.pauses_s)
    if not (requests_s > 0 and again.any()):
        return np.zeros(1 + len(below))
    token_bytes, devices = uses.token_bytes, uses.devices
    per_request = max(float(found.e2e_s[at]) - place_s, 0.0)
    running = float(found.running[at]) / ranks * (q.shared_tokens + uses.mean)
    capacities = [uses.free_bytes / token_bytes - running - q.shared_tokens]
    served_by = [ranks]
    for tier in below:
        owners = 1.0 if tier.shared else ranks / q.replicas
        held = tier.size_bytes / owners / (token_bytes * devices) - q.shared_tokens
        served_by.append(1.0 if tier.shared else ranks)
        capacities.append(held - requests_s / served_by[-1] * per_request * uses.mean)
    per_s = requests_s * uses.tokens
    idle_s = uses.pauses_s + place_s
    times = [
        characteristic_time(idle_s, per_s / by, capacity)
        for by, capacity in zip(served_by, capacities, strict=True)
    ]
    kept = [found_share(idle_s[again], per_s[again], time) for time in times]
    return np.diff(np.maximum.accumulate(kept), prepend=0.0)


def _pauses(question: Question) -> tuple[Array, Array]:
    """Pauses between turns with their counts, as equally likely points."""
    if not question.think_spread:
        return np.array([question.think_s]), np.ones(1)
    from scipy.stats import norm

    sigma = np.sqrt(np.log1p(question.think_spread**2))
    points = norm.ppf((np.arange(_POINTS) + 0.5) / _POINTS)
    pauses = question.think_s * np.exp(sigma * points - sigma**2 / 2.0)
    return pauses, np.full(_POINTS, 1.0 / _POINTS)


def _capacity(resolved: Resolved, found: ServingEstimate, tokens: Array) -> tuple[Array, Array]:
    """Cache bytes of a token on the fullest device, and bytes available to a rank's caches,
    [loads].

    tokens: of a sequence, [loads].
    """
    split, shape = found.parallelism, found.status.shape
    ranks = np.broadcast_to(np.asarray(split.dp, dtype=float), shape)
    one, many = (
        memory(resolved.model, resolved.system, Workload(ranks, t, 0.0), split, resolved.engine)
        for t in (np.ones(shape), tokens)
    )
    token = np.maximum((many.kv_bytes - one.kv_bytes) / np.maximum(tokens - 1.0, 1.0), 1e-9)
    free = one.free_bytes * resolved.engine.free_share
    return np.broadcast_to(token, shape), np.broadcast_to(free, shape)

"""Percentiles of a candidate, simulated request by request under the engine's own scheduler.

One figure, one mean: where measurements validate the kind, the mean is that of the closed form, and
a simulation whose own mean is lower is lifted to it, all percentiles alike; where nothing does,
mean and percentiles are both simulated.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from app.planning.candidates import Candidates
from app.planning.demand import Demand
from app.planning.families import Family
from app.planning.targets import PERCENTILES
from app.scenario.drafting import Drafting
from app.scenario.scenario import Resolved
from app.simulation.disaggregation import PrefillPool
from app.simulation.offered_load import OfferedLoad
from app.simulation.run import Run, Settings, run
from genz_core.errors import InvalidValue
from genz_core.progress import Cancelled
from genz_core.serving.options import Options

_LEAST, _MOST = 400, 1600  # requests of a simulation
_WARM = 1.5  # lifetimes of a request before arrivals count
_LIVES = 4  # requests of each user of a closed loop
_SPREAD = 0.8  # lengths of a closed loop, drawn apart so that its users do not stay in step
_LATENCIES = ("ttft", "tpot", "e2e")


@dataclass(frozen=True, slots=True)
class Simulated:
    """Percentiles of a candidate's simulation.

    figures: {"ttft_p95_s": seconds, ...}, lifted to the closed form's means where these hold.
    means: {"ttft_s": seconds, ...}, as simulated.  Both of requests that came when the
    deployment was busy.
    requests: that counted.  share: of the replicas that were simulated, with their part of the
    load.
    """

    figures: Mapping[str, float]
    means: Mapping[str, float]
    requests: int
    share: float


def simulate(candidates: Candidates, at: int, demand: Demand) -> Simulated:
    """Simulate a candidate under its demand, or some of its replicas under their part of it.

    Raises:
        RidgelineError: the deployment cannot be simulated.
    """
    family, row = candidates.of(at), candidates.row(at)
    _refuse(family, demand)
    lifetime = row["e2e_s"]
    requests = _requests(demand, lifetime)
    replicas = int(row["replicas"])
    kept = replicas
    if requests > _MOST and not demand.trace and family.prefill is None:
        kept = max(replicas * _MOST // requests, 1)
    share = kept / replicas
    settings = Settings(
        _offered(demand, share, max(math.ceil(requests * share), min(_LEAST, requests))),
        Options(max_num_seqs=_limit(family, row)),
        replicas=kept,
        drafting=family.drafting or Drafting(),
        prefill=_pool(family, row),
        router="prefix" if demand.shape.turns > 1 else "least_loaded",
    )
    outcome = run(_resolved(family, row), settings)
    held = ("ttft", "tpot") if closed_form_holds(family) else ()
    means = {name: row[f"{name}_s"] for name in held}
    return _figures(outcome, lifetime * _WARM, share, means)


def _refuse(family: Family, demand: Demand) -> None:
    """Refuse what the simulation does not know.

    Raises:
        InvalidValue: several answers to a prompt, a cache or weights on the host.
    """
    unknown = {
        "several answers to a prompt": demand.shape.branches > 1,
        "a prefix cache on the host": demand.shape.prefix_tier == "host",
        "weights or caches on the host": bool(family.spill),
    }
    for what, asked in unknown.items():
        if asked:
            raise InvalidValue(f"{what}: not simulated")


def closed_form_holds(family: Family) -> bool:
    """Whether the means of the closed form stand for a family, rather than simulated ones."""
    return family.kind == "aggregated"


def _figures(outcome: Run, warm_s: float, share: float, held: Mapping[str, float]) -> Simulated:
    """The figures of requests that came after `warm_s`.  held: means of "ttft" and "tpot" [s] that
    no simulated one lies below."""
    answers = outcome.simulation
    start, end = np.min(answers.arrival_s), np.max(answers.arrival_s)
    late = answers.arrival_s - start >= min(warm_s, (end - start) / 2.0)
    if not late.any():
        raise Cancelled("no request came when the deployment was busy")
    figures: dict[str, float] = {}
    means: dict[str, float] = {}
    latencies = {name: getattr(answers, f"{name}_s")[late] for name in _LATENCIES}
    gaps = latencies["e2e"] - latencies["ttft"]
    for name in _LATENCIES:
        known = latencies[name][np.isfinite(latencies[name])]
        means[f"{name}_s"] = float(known.mean()) if known.size else np.nan
    first, later = (_lift(means[f"{name}_s"], held.get(name, 0.0)) for name in ("ttft", "tpot"))
    lifted = {
        "ttft": latencies["ttft"] * first,
        "tpot": latencies["tpot"] * later,
        "e2e": latencies["ttft"] * first + gaps * later,
    }
    for name, values in lifted.items():
        values = values[np.isfinite(values)]
        marks = np.percentile(values, PERCENTILES) if values.size else [np.nan] * len(PERCENTILES)
        pairs = zip(PERCENTILES, marks, strict=True)
        figures |= {f"{name}_p{at}_s": float(mark) for at, mark in pairs}
    return Simulated(figures, means, int(late.sum()), share)


def _lift(simulated_s: float, held_s: float) -> float:
    """The factor that lifts a simulated mean to one that holds; 1 where it is no lower."""
    if not simulated_s > 0.0 or not np.isfinite(held_s):
        return 1.0
    return max(held_s / simulated_s, 1.0)


def _requests(demand: Demand, lifetime_s: float) -> int:
    """Requests of the whole deployment: of several lifetimes, so that it is busy for most."""
    if demand.trace:
        return len(demand.trace.requests)
    if demand.closed:
        most = max(_MOST, demand.concurrency * 3)
        return int(np.clip(demand.concurrency * _LIVES, _LEAST, most))
    return int(np.clip(demand.rate * (2.0 * _WARM * lifetime_s + 10.0), _LEAST, 1e6))


def _offered(demand: Demand, share: float, requests: int) -> OfferedLoad:
    """The demand's part as offered load; users of a closed loop with lengths drawn apart."""
    if demand.trace:
        return OfferedLoad(trace=demand.trace)
    ratio, isl, osl = demand.length_ratio, demand.isl, demand.osl
    shape = demand.shape
    found = round(shape.prefix_hits * isl)
    alike: dict[str, Any] = {"shared_tokens": shape.shared_tokens + found, "turns": shape.turns}
    isl = max(isl - found, 1)
    if demand.closed:
        if ratio == 1.0:
            ratio = _SPREAD
            isl, osl = (max(round(n * 2.0 / (1.0 + ratio)), 1) for n in (isl, osl))
        users = max(round(demand.concurrency * share), 1)
        return OfferedLoad(
            concurrency=users, requests=requests, isl=isl, osl=osl, length_ratio=ratio, **alike
        )
    rate = demand.rate * share / shape.turns  # of sessions
    return OfferedLoad(rate=rate, requests=requests, isl=isl, osl=osl, length_ratio=ratio, **alike)


def _limit(family: Family, row: Mapping[str, float]) -> int:
    limit = int(row["max_num_seqs"])
    return 0 if limit == family.resolved.engine.max_sequences else limit


def _resolved(family: Family, row: Mapping[str, float]) -> Resolved:
    degrees: dict[str, Any] = {name: int(row[name]) for name in ("tp", "pp", "dp", "ep")}
    resolved = family.plain or family.resolved
    return replace(resolved, scenario=replace(resolved.scenario, **degrees))


def _pool(family: Family, row: Mapping[str, float]) -> PrefillPool:
    if family.prefill is None:
        return PrefillPool()
    degrees: dict[str, Any] = {
        f"prefill_{name}": int(row[f"prefill_{name}"]) for name in ("tp", "pp", "dp", "ep")
    }
    return PrefillPool(
        prefill_system=family.prefill.system,
        prefill_workers=int(row["prefill_workers"]),
        prefill_weights=family.prefill_weights,
        **degrees,
    )

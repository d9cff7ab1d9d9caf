"""Figures of a candidate, simulated request by request under the engine's own scheduler.

Where measurements validate the kind of deployment, the mean is at least that of the closed form: if
the simulated mean is lower, the mean and all percentiles are scaled up by the same factor; a higher
simulated mean is kept.  Where there is no validation, mean and percentiles are those simulated.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from app.answers.latencies import PERCENTILES
from app.planning import demand, sampling_error
from app.planning.candidates import CHOICES, Candidates
from app.planning.families import Family
from app.planning.space import DEGREES, systems
from app.question.query import Query
from app.question.question import Question
from app.scenario import sharing
from app.scenario.known_systems import find_system
from app.simulation.run import Run, run
from genz_core.common.progress import Cancelled
from genz_core.errors import InvalidValue
from genz_core.types import Array

_LEAST, _MOST = 400, 1600  # requests of a simulation
_WARM = 1.5  # request lifetimes before arrivals at a rate count
_COUNTED = 1.5  # request lifetimes of arrivals that count, beside ten seconds
_DRAIN = 1.0  # request lifetimes before the last arrival, from which on the deployment empties
_LIVES = 2  # counted requests per user of a closed loop, once it is steady
#: factor on the requests where the first simulation does not show whether the load is sustained
_LONGER = 4
#: multiples of the closed form's request duration, beyond which it does not show what is sustained
_FAR = 1.5
#: Largest shares of all arrivals at the start and at the end that do not count.
_MOST_CUT = (0.5, 0.25)
_LATENCIES = ("ttft", "tpot", "e2e")


@dataclass(frozen=True, slots=True)
class Simulated:
    """The result of a candidate's simulation.

    figures: {"ttft_s": mean seconds, "ttft_p95_s": seconds, ...}, scaled up to the closed form's
    means where these apply.  means: {"ttft_s": seconds, ...}, as simulated.  Both are of requests
    that arrived when the deployment was busy.
    requests: number that counted.  share: share of the replicas that were simulated, with their
    part of the load.  sustained: whether the number of open requests at a rate stays constant.
    errors: relative errors of the figures (`sampling`), empty for a trace, which is simulated as it
    was.  times: multiple of the requests that a steady load needs.
    """

    figures: Mapping[str, float]
    means: Mapping[str, float]
    requests: int
    share: float
    sustained: bool = True
    errors: Mapping[str, float] = field(default_factory=dict)
    times: int = 1


def simulate(
    candidates: Candidates, at: int, query: Query, draw: int = 0, times: int = 1
) -> Simulated:
    """Simulate a candidate under its load, or some of its replicas under their part of it.

    A rate that may not be sustained is simulated long enough to detect that: queues then grow with
    time, and so does latency.  The same candidate is simulated once a draw.

    query: the one under which the candidates were priced.  draw: number of the random draw of
    arrivals and lengths.  times: least multiple of the requests that a steady load needs.

    Raises:
        RidgelineError: the deployment cannot be simulated.
    """
    choices = (float(candidates.columns[name][at]) for name in CHOICES)
    known = (-1.0 if math.isnan(one) else one for one in choices)
    key = (draw, times, int(candidates.family[at]), *known)
    if key not in candidates.simulated:
        candidates.simulated[key] = _simulated_until_clear(candidates, at, query, draw, times)
    found: Simulated = candidates.simulated[key]
    return found


def _simulated_until_clear(
    candidates: Candidates, at: int, query: Query, draw: int, times: int
) -> Simulated:
    """A simulation that is long enough to show whether the load is sustained."""
    first, outcome = _simulated(candidates, at, query, draw, times)
    q = candidates.of(at).question
    if demand.is_closed(q) or demand.trace_of(query) is not None:
        return first
    e2e_s = float(candidates.columns["e2e_s"][at])
    if not outcome.grows and first.means["e2e_s"] <= _FAR * e2e_s:
        return first
    if times < _LONGER:
        first, outcome = _simulated(candidates, at, query, draw, _LONGER)
    return replace(first, sustained=not outcome.grows)


def _simulated(
    candidates: Candidates, at: int, query: Query, draw: int, times: int
) -> tuple[Simulated, Run]:
    """A simulation of `times` the requests that a steady load needs."""
    family, row = candidates.of(at), candidates.row(at)
    _refuse(family)
    trace = demand.trace_of(query)
    lifetime_s = _lifetime_s(family.question, row["e2e_s"])
    requests = len(trace.requests) if trace else _requests(family.question, lifetime_s)
    replicas = kept = int(row["replicas"])
    if requests > _MOST and not trace and family.prefill is None:
        kept = max(replicas * _MOST // requests, 1)
    share = kept / replicas
    part = max(math.ceil(requests * share), min(_LEAST, requests)) * times
    chosen: dict[str, Any] = {
        "replicas": kept, **_load(query, family.question, share, part),
        **{name: int(row[name]) for name in DEGREES}, **_limit(family, row), **family.pool_of(row),
        "seed": family.question.seed + draw,
    }  # fmt: skip
    question = replace(family.question, **chosen)
    resolved = replace(family.plain or family.resolved, scenario=question)
    outcome = run(resolved, _objects(query, family))
    held = ("ttft", "tpot") if closed_form_holds(family) else ()
    means = {name: row[f"{name}_s"] for name in held}
    open_s = 0.0 if demand.is_closed(question) else lifetime_s
    ends = (open_s * _WARM, 0.0 if trace else open_s * _DRAIN)
    found = figures_of(outcome, ends, share, means)
    return replace(found, times=times, errors={} if trace else found.errors), outcome


def _refuse(family: Family) -> None:
    """Refuse options that the simulation does not support."""
    q = family.question
    unknown = {
        "several outputs per prompt": sharing.branches(q) > 1,
        "a prefix cache on the host": q.prefix_tier == "host",
        "weights or caches on the host": bool(family.spill),
    }
    for what, present in unknown.items():
        if present:
            raise InvalidValue(f"{what}: not simulated")


def closed_form_holds(family: Family) -> bool:
    """Whether the means of the closed form apply to a family, rather than simulated ones."""
    return family.kind == "aggregated"


def figures_of(
    outcome: Run, ends_s: tuple[float, float], share: float, held: Mapping[str, float]
) -> Simulated:
    """The figures of requests that arrived while the deployment was busy.

    ends_s: time after the first and before the last arrival that does not count.
    held: means of "ttft" and "tpot" [s], the least values of the simulated ones.
    """
    answers = outcome.simulation
    start, end = np.min(answers.arrival_s), np.max(answers.arrival_s)
    warm_s, drain_s = (
        min(one, (end - start) * most) for one, most in zip(ends_s, _MOST_CUT, strict=True)
    )
    since, until = answers.arrival_s - start, end - answers.arrival_s
    late = answers.counted & (since >= warm_s) & (until >= drain_s)
    if not late.any():
        raise Cancelled("no request arrived while the deployment was busy")
    answered = {name: getattr(answers, f"{name}_s")[late] for name in _LATENCIES}
    means = {f"{name}_s": _mean(values) for name, values in answered.items()}
    errors = sampling_error.relative_errors(
        lambda kept: _lifted({name: values[kept] for name, values in answered.items()}, held),
        int(late.sum()),
        sampling_error.batches(float(np.ptp(answers.arrival_s[late])), means["e2e_s"]),
    )
    return Simulated(_lifted(answered, held), means, int(late.sum()), share, errors=errors)


def _lifted(latencies: Mapping[str, Array], held: Mapping[str, float]) -> dict[str, float]:
    """Means and percentiles of the latencies of requests [s], scaled up to the means that are
    held.
    """
    first, later = (_lift(_mean(latencies[name]), held.get(name, 0.0)) for name in ("ttft", "tpot"))
    gaps = latencies["e2e"] - latencies["ttft"]
    lifted = {
        "ttft": latencies["ttft"] * first,
        "tpot": latencies["tpot"] * later,
        "e2e": latencies["ttft"] * first + gaps * later,
    }
    figures: dict[str, float] = {}
    for name, values in lifted.items():
        values = values[np.isfinite(values)]
        marks = np.percentile(values, PERCENTILES) if values.size else [np.nan] * len(PERCENTILES)
        pairs = zip(PERCENTILES, marks, strict=True)
        figures[f"{name}_s"] = _mean(values)
        figures |= {f"{name}_p{at}_s": float(mark) for at, mark in pairs}
    return figures


def _mean(values: Array) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if known.size else np.nan


def _lift(simulated_s: float, held_s: float) -> float:
    """The factor that raises a simulated mean to the one that applies; 1 where it is not lower."""
    if not simulated_s > 0.0 or not np.isfinite(held_s):
        return 1.0
    return max(held_s / simulated_s, 1.0)


def _lifetime_s(question: Question, e2e_s: float) -> float:
    """Time from a request to its answer, or of a session that pauses from its first request to its
    last answer [s]."""
    if not question.think_s:
        return e2e_s
    return question.turns * e2e_s + (question.turns - 1) * question.think_s


def _requests(question: Question, lifetime_s: float) -> int:
    """Counted requests of the whole deployment: enough for several lifetimes, so that it
    is busy.
    """
    amount = demand.amount(question)
    if demand.is_closed(question):
        return int(np.clip(amount * _LIVES, _LEAST, max(_MOST, amount * _LIVES)))
    lifetimes = _WARM + _COUNTED + _DRAIN
    return int(np.clip(amount * (lifetimes * lifetime_s + 10.0), _LEAST, 1e6))


def _load(query: Query, q: Question, share: float, requests: int) -> dict[str, Any]:
    """The load of some of the replicas, as parameters of a simulation.

    A cached prefix is one that all requests share, or that of a session that a router keeps on a
    replica.
    """
    trace = demand.trace_of(query)
    router = "prefix" if q.turns > 1 else "least_loaded"
    if trace is not None:
        return {"trace": trace.name, "rate": None, "router": router}
    found = round(q.prefix_hits * q.isl)
    alike = {"prefix_hits": 0.0, "shared_tokens": q.shared_tokens + found}
    named: dict[str, Any] = {"isl": max(q.isl - found, 1), "requests": requests, "router": router}
    if demand.is_closed(q):
        return {**alike, **named, "concurrency": max(round(demand.amount(q) * share), 1)}
    return {**alike, **named, "rate": demand.amount(q) * share}


def _limit(family: Family, row: Mapping[str, float]) -> dict[str, int]:
    limit = int(row["max_num_seqs"])
    own = family.resolved.engine.max_sequences
    return {"max_num_seqs": 0 if limit == own else limit}


def _objects(query: Query, family: Family) -> dict[str, Any]:
    """Objects in a simulation's question that are not given by name."""
    found = {
        name: query.objects[name] for name in ("trace", "draft_model") if name in query.objects
    }
    if family.question.speculation != "draft_model":
        found.pop("draft_model", None)
    reading = family.prefill
    if reading is not None and reading.system.slug != family.system.slug:
        slug = reading.system.slug
        sources = (one for one in systems(query) if find_system(one).slug == slug)
        found["prefill_system"] = next(sources, slug)
    return found

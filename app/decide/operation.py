"""A deployment under its load: the basis of its cost and energy."""

import math
from dataclasses import dataclass

import numpy as np

import genz_core
from app.answers.column import THROUGHPUT_ENDS
from app.planning import demand
from app.question.validity import has_pool
from app.scenario import served_rows, sharing
from app.scenario.pools import devices_of
from app.scenario.scenario import Resolved
from genz_core import Workload
from genz_core.models.model_kinds import check_generates
from genz_core.serving import ServingEstimate
from genz_core.serving.disaggregation import prompts_per_s
from genz_core.serving.options import Options
from genz_core.steps.step_estimate import StepEstimate

#: Utilisation of arithmetic, memory and links.
_Use = tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class Operation:
    """A deployment under load: the basis of its cost and energy.

    requests_per_s, isl, osl: served requests, and their tokens.  devices: of all replicas, and of a
    prefill pool.  replicas: parts of the deployment that are added or removed alone, each with its
    share of devices and requests; a deployment with a prefill pool is one.  prefill_share: share of
    their time that prompts take; share of their cost, where there is a prefill pool.
    cached_ratio: time of a cached prompt token over that of an uncached one.  compute, memory,
    links: utilisation, 0 to 1.  tdp_w: NaN where not stated.
    status: "ok" or a reason code; message: its sentence.  dearer, cheaper: relative cost of a token
    at the ends of the throughput's 80 % interval, NaN where not validated.
    """

    requests_per_s: float
    isl: float
    osl: float
    devices: int
    replicas: int
    prefill_share: float
    cached_ratio: float
    compute: float
    memory: float
    links: float
    tdp_w: float
    status: str
    message: str
    cheaper: float
    dearer: float

    @property
    def replica_devices(self) -> float:
        """Devices of one replica."""
        return self.devices / self.replicas

    @property
    def replica_requests_per_s(self) -> float:
        """Requests that one replica serves [1/s]."""
        return self.requests_per_s / self.replicas


def operation(resolved: Resolved) -> Operation:
    """The scenario's deployment under its load.

    Raises:
        RidgelineError: a scenario that cannot be priced.
    """
    s = resolved.scenario
    check_generates(resolved.model, "an account of output tokens")
    served = served_rows.served(resolved)
    osl = float(served.osl[0]) * s.samples
    tokens = float(served.output_tokens_per_s[0])
    closed, beyond = s.kind == "concurrency", sharing.unmeasured(s)
    trusted = served_rows.columns(resolved, served, closed=closed, beyond=beyond)
    ends = (tokens / float(trusted[end][0]) for end in reversed(THROUGHPUT_ENDS))
    running = max(float(served.running[0]), 1.0)
    if has_pool(s):
        reader, share, use = _apart(resolved, tokens / osl, running / s.replicas)
    else:
        share = _prefill_share(served, tokens / osl, running, s.replicas)
        reader, use = resolved, _utilisations(resolved, share, running / s.replicas)
    return Operation(
        tokens / osl, demand.lengths(s).prompt, osl, int(np.ravel(served.devices)[0]),
        1 if has_pool(s) else s.replicas, share, _cached_ratio(reader), *use,
        float(served_rows.mean_device(resolved).tdp_w or math.nan),
        str(served.status[0]), served.messages.get(0, ""), *ends,
    )  # fmt: skip


def _apart(resolved: Resolved, rate: float, running: float) -> tuple[Resolved, float, _Use]:
    """For a prefill pool: (average device, its share of the cost, utilisation of all).

    The cost is weighted by rents, or by devices if a rent is unknown.  Prefill workers are idle
    without prompts; decode workers are always busy.  rate: of requests [1/s].  running: per
    replica.
    """
    pool = served_rows.prefill_pool(resolved)
    reader, s = pool.resolved, resolved.scenario
    devices = np.array(devices_of(s), dtype=float)
    rents = [one.system.price_usd_per_hour or math.nan for one in (reader, resolved)]
    spent = devices * (rents if np.all(np.isfinite(rents)) else 1.0)
    most = prompts_per_s(pool.disaggregation(Options()).prefill, demand.lengths(s).prompt)
    busy = float(np.clip(rate / (pool.workers * most), 0.0, 1.0))
    ranks = reader.scenario.dp
    prompts = genz_core.prefill(
        reader.model, reader.system, Workload(ranks, s.isl), reader.scenario.parallelism,
        reader.engine,
    )  # fmt: skip
    answers = _decode(resolved, running)
    parts = devices / devices.sum()
    used = [
        float(np.clip(parts[0] * busy * first + parts[1] * second, 0.0, 1.0))
        for first, second in zip(_shares(prompts), _shares(answers), strict=True)
    ]
    return reader, float(spent[0] / spent.sum()), (used[0], used[1], used[2])


def _prefill_share(served: ServingEstimate, rate: float, running: float, replicas: int) -> float:
    """Share of the replicas' time that prompts take.

    In a closed loop it is the time that a user waits for the prompts of the other running requests
    and for its own; if no user waits for another's prompt (one user, or all are prefilled
    together), and at a rate, it is the time of all prompts.
    rate: of requests [1/s].  running: requests in flight.
    """
    every, waited = rate * float(served.prefill_s[0]), float(served.prompt_share[0])
    share = waited + every / running if waited > 0.0 else every / replicas
    return float(np.clip(share, 0.0, 1.0))


def _cached_ratio(resolved: Resolved) -> float:
    """Time of a cached prompt token over that of a new one: the attention that reads it."""
    s = resolved.scenario
    old = min(int(s.isl * s.cached / 100.0), s.isl - 1)
    if old < 1:
        return 0.0
    new = s.isl - old
    case = (resolved.model, resolved.system)
    prompts = (Workload(1, s.isl), Workload(1, new), Workload(1, s.isl, cached=old))
    whole, alone, after = (
        float(genz_core.prefill(*case, prompt, s.parallelism, resolved.engine).total_s[0])
        for prompt in prompts
    )
    return max(after - alone, 0.0) / old / (whole / s.isl)


def _utilisations(resolved: Resolved, prefill_share: float, running: float) -> _Use:
    """Utilisation of arithmetic, memory and links: least over expected times of both steps."""
    s = resolved.scenario
    case = (resolved.model, resolved.system, Workload(1, s.isl, s.osl), s.parallelism)
    prompt = genz_core.prefill(*case, resolved.engine)
    found = [
        float(np.clip(prefill_share * first + (1.0 - prefill_share) * second, 0.0, 1.0))
        for first, second in zip(_shares(prompt), _shares(_decode(resolved, running)), strict=True)
    ]
    return found[0], found[1], found[2]


def _decode(resolved: Resolved, running: float) -> StepEstimate:
    """A decode step with `running` sequences."""
    s = resolved.scenario
    work = Workload(max(round(running), 1), s.isl, s.osl)
    return genz_core.decode(resolved.model, resolved.system, work, s.parallelism, resolved.engine)


def _shares(step: StepEstimate) -> _Use:
    """Least times of arithmetic, memory and links over the time of a step."""
    found = [
        float(((getattr(step, name) * step.runs[:, None]).sum(0) / step.total_s)[0])
        for name in ("compute_s", "memory_s", "communication_s")
    ]
    return found[0], found[1], found[2]

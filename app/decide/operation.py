"""A deployment under its load: the basis of its cost and energy."""

import math
from dataclasses import dataclass

import numpy as np

import genz_core
from app.answers.column import THROUGHPUT_ENDS
from app.decide import rank_load
from app.decide.rank_load import Requests, Use
from app.planning import demand
from app.planning.demand import Lengths
from app.question.validity import has_pool
from app.scenario import served_rows, sharing
from app.scenario.pools import devices_of
from app.scenario.scenario import Resolved
from genz_core import Workload
from genz_core.models.model_kinds import check_generates, prompt_tokens
from genz_core.serving import ServingEstimate


@dataclass(frozen=True, slots=True)
class Operation:
    """A deployment under load: the basis of its cost and energy.

    requests_per_s, isl, osl: served requests, and their tokens.  cached: tokens of a prompt that
    the load finds in the cache.  devices: of all replicas, and of a prefill pool.  replicas: parts
    of the deployment that are added or removed alone, each with its share of devices and requests;
    a deployment with a prefill pool is one.  prefill_share: share of their busy time that prompts
    take; share of their cost, where there is a prefill pool.
    cached_ratio: time of a cached prompt token over that of an uncached one.  compute, memory,
    links: utilisation, 0 to 1, see `app.decide.rank_load`.  tdp_w: NaN where not stated.
    status: "ok" or a reason code; message: its sentence.  dearer, cheaper: relative cost of a token
    at the ends of the throughput's 80 % interval, NaN where not validated.
    """

    requests_per_s: float
    isl: float
    cached: float
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
    def runs(self) -> bool:
        """Whether the deployment serves its load, so that it has costs and power."""
        return self.status == "ok"

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
    trusted = served_rows.columns(resolved, served, closed=s.kind == "concurrency")
    ends = (tokens / float(trusted[end][0]) for end in reversed(THROUGHPUT_ENDS))
    lengths, rate = demand.lengths(s), tokens / osl
    reader = served_rows.prefill_pool(resolved).resolved if has_pool(s) else resolved
    share, use = math.nan, Use(math.nan, math.nan, math.nan)
    if served.status[0] == "ok":
        of = _requests(resolved, served, lengths, rate)
        share, use = _apart(resolved, of) if has_pool(s) else _together(resolved, served, of)
    return Operation(
        rate, lengths.prompt, lengths.cached, osl, int(np.ravel(served.devices)[0]),
        1 if has_pool(s) else s.replicas, share, _cached_ratio(reader, lengths), *use,
        float(served_rows.mean_device(resolved).tdp_w or math.nan),
        str(served.status[0]), served.messages.get(0, ""), *ends,
    )  # fmt: skip


def _requests(
    resolved: Resolved, served: ServingEstimate, lengths: Lengths, rate: float
) -> Requests:
    """The requests of the whole deployment.  rate: of requests [1/s]."""
    read = float(np.asarray(prompt_tokens(resolved.model, lengths.prompt)))
    output, tpot_s = float(served.osl[0]), float(served.tpot_s[0])
    branches = sharing.branches(resolved.scenario)
    return Requests(rate, read, lengths.cached, output, branches, tpot_s)


def _apart(resolved: Resolved, requests: Requests) -> tuple[float, Use]:
    """For a prefill pool: (its share of the cost, utilisation of the mean device).

    The cost is weighted by rents, or by devices if a rent is unknown.
    """
    pool = served_rows.prefill_pool(resolved)
    reader, s = pool.resolved, resolved.scenario
    devices = np.array(devices_of(s), dtype=float)
    rents = [one.system.price_usd_per_hour or math.nan for one in (reader, resolved)]
    spent = devices * (rents if np.all(np.isfinite(rents)) else 1.0)
    prompts = rank_load.reading(reader, requests.split(pool.workers))
    answers = rank_load.answering(resolved, requests.split(s.replicas), reads=False)
    parts = devices / devices.sum()
    return float(spent[0] / spent.sum()), Use.mean(prompts, answers, float(parts[0]))


def _together(resolved: Resolved, served: ServingEstimate, requests: Requests) -> tuple[float, Use]:
    """For replicas that read and answer: (share of their busy time on prompts, utilisation)."""
    each = requests.split(resolved.scenario.replicas)
    use = rank_load.answering(resolved, each, reads=True)
    return _prefill_share(served, requests.per_s), use


def _prefill_share(served: ServingEstimate, rate: float) -> float:
    """Share of the replicas' busy time that prompts take.

    In a closed loop it is the time that a user waits for the prompts of the other running requests
    and for its own.  If no user waits for another's prompt (one user, or all are prefilled
    together), and at a rate, it is the time of all prompts over the time with any request: requests
    in service of arrivals, and of users who pause, are a Poisson number (M/G/infinity), so a rank
    has none with probability exp(-mean).
    rate: of requests [1/s].
    """
    own, waited = float(served.prefill_s[0]), float(served.prompt_share[0])
    if waited > 0.0:
        return float(np.clip(waited + rate * own / max(float(served.running[0]), 1.0), 0.0, 1.0))
    each = rate / float(np.ravel(served.ranks)[0])
    load = served.traffic
    always = load.concurrency is not None and not np.any(load.pause_s)
    busy = 1.0 if always else -math.expm1(-each * float(served.e2e_s[0]))
    return float(np.clip(each * own / busy, 0.0, 1.0))


def _cached_ratio(resolved: Resolved, lengths: Lengths) -> float:
    """Time of a cached prompt token over that of a new one: the attention that reads it.

    The cached tokens are those of the load, otherwise the share of a prompt that the prices state.
    """
    s = resolved.scenario
    isl = round(lengths.prompt)
    old = min(round(lengths.cached) or int(isl * s.cached / 100.0), isl - 1)
    if old < 1:
        return 0.0
    case = (resolved.model, resolved.system)
    prompts = (Workload(1, isl), Workload(1, isl - old), Workload(1, isl, cached=old))
    whole, alone, after = (
        float(genz_core.prefill(*case, prompt, s.parallelism, resolved.engine).total_s[0])
        for prompt in prompts
    )
    return max(after - alone, 0.0) / old / (whole / isl)

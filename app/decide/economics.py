"""What a deployment's tokens cost: rented, owned, over a day, against an API; energy, carbon."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

import genz_core
from app.answers.columns import THROUGHPUT_ENDS
from app.decide.chips import POWER_EXPONENT, Chip, chip_system
from app.decide.loads import load_words
from app.decide.measured_power import measured_powers, nearest
from app.planning import demand
from app.question.asking import Asked
from app.question.decisions import Prices
from app.question.parameters import names_of
from app.question.question import Question
from app.question.validity import has_pool
from app.scenario import served_rows, sharing
from app.scenario.pools import devices_of
from app.scenario.scenario import Resolved, find_system
from genz_core import Workload
from genz_core.economics import (
    Ownership,
    PowerModel,
    break_even_rate,
    carbon_g_per_mtok,
    replicas_over_day,
    token_costs,
)
from genz_core.errors import InvalidValue
from genz_core.model_kinds import check_generates
from genz_core.serving import ServingEstimate
from genz_core.serving.disaggregation import prompts_per_s
from genz_core.serving.options import Options
from genz_core.step import StepEstimate
from genz_core.types import Array, System
from hardware_db.site_power import site_power
from profilers.store import Store

#: What each input is unless said, and what that rests on.  Prices of devices, of an API and of
#: carbon have no default: they are the user's to state.
ASSUMED: Mapping[str, str] = {
    "lifetime": "assumed: 4 years",
    "electricity": "assumed: $0.10 a kWh",
    "power": "assumed: idle at 25 % of the design power; of the rest 60 % goes with arithmetic, "
    "35 % with memory, 5 % with links",
    "cap": "assumed: below the mean power that is drawn without a cap, arithmetic slows by the "
    "cube root of the power, memory does not",
    "day": "assumed: the load of every hour as a share of the busiest",
}
#: Shares of the busiest hour, from midnight on: an example to replace.
DAY: tuple[float, ...] = (
    0.35, 0.3, 0.25, 0.22, 0.22, 0.25, 0.35, 0.5, 0.7, 0.85, 0.95, 1.0,
    1.0, 0.98, 0.97, 0.95, 0.9, 0.85, 0.8, 0.75, 0.7, 0.6, 0.5, 0.4,
)  # fmt: skip
_HOURS = 24
#: Ways to run replicas over a day, and whether these follow the load.
_DAYS: Mapping[str, bool] = {"always on": False, "follows the load": True}
_CAPS = np.linspace(0.4, 1.0, 13)
_MILLION = 1e6
#: Utilisation of arithmetic, memory and links.
_Use = tuple[float, float, float]


#: Open requests of a replica where the question states no load.
USERS = 64


def day_of(question: Question) -> tuple[float, ...]:
    """The load of each hour as shares of the busiest, `DAY` unless the question says.

    Raises:
        InvalidValue: not 24 shares from 0 on, or none above 0.
    """
    try:
        shares = tuple(float(share) for share in question.day or DAY)
    except (TypeError, ValueError):
        shares = ()
    if len(shares) != _HOURS or not all(0.0 <= share <= 1e3 for share in shares):
        raise InvalidValue(f"the day has {len(question.day)} shares: give 24 numbers from 0 on")
    if not max(shares) > 0.0:
        raise InvalidValue("the day has no load: give an hour a share above 0")
    return shares


@dataclass(frozen=True, slots=True)
class Operation:
    """A deployment under so many users: what its money and energy rest on.

    requests_per_s, isl, osl: served, and tokens of each.  devices: of all replicas, and of the
    workers that only read prompts.  prefill_share: of their time that prompts take; of what they
    cost, where prompts have workers of their own.  cached_ratio: time of a cached prompt token over
    one that is not.  compute, memory, links: utilisation, 0 to 1.  tdp_w: NaN where not stated.
    status: "ok" or a reason code.  dearer, cheaper: what a token costs at the ends of the
    throughput's 80 % interval over what it costs, NaN where not validated.
    """

    requests_per_s: float
    isl: float
    osl: float
    devices: int
    prefill_share: float
    cached_ratio: float
    compute: float
    memory: float
    links: float
    tdp_w: float
    status: str
    cheaper: float
    dearer: float


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
        tokens / osl, demand.lengths(s).prompt, osl, int(np.ravel(served.devices)[0]), share,
        _cached_ratio(reader), *use, float(served_rows.mean_device(resolved).tdp_w or math.nan),
        str(served.status[0]), *ends,
    )  # fmt: skip


def _apart(resolved: Resolved, rate: float, running: float) -> tuple[Resolved, float, _Use]:
    """Prompts on workers of their own: (these, their share of the cost, utilisation of all).

    The cost is by rents, by devices where not both are known.  Workers that read are idle where
    no prompt waits; those that answer are not.  rate: of requests [1/s].  running: on a replica.
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

    What a user waits for the prompts of others, and for its own, one of those that run; where none
    waits for another's (one user, or all are read together), all of them.  rate: of requests [1/s].
    running: requests in flight.
    """
    every, waited = rate * float(served.prefill_s[0]), float(served.utilisation[0])
    share = waited + every / running if waited else every / replicas
    return float(np.clip(share, 0.0, 1.0))


def _cached_ratio(resolved: Resolved) -> float:
    """Time that a cached token of a prompt costs over a new one: the attention that reads it."""
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
    """The decode step of so many sequences."""
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


# ------------------------------------------------------------------------------- the answer


@dataclass(frozen=True, slots=True)
class Account:
    """What an account is made of: a deployment and its load, and where its power is from.

    resolved: the question with its prices, what it names looked up.  model: of the power that
    parts draw.  measured_by: the run that measured the question's `power`, "" for the user.
    """

    resolved: Resolved
    model: PowerModel = field(default_factory=PowerModel)
    measured_by: str = ""

    @property
    def question(self) -> Question:
        """The question, its prices among it."""
        return self.resolved.scenario

    def power_w(self, running: Operation) -> float:
        """Mean power of a device [W]: measured if stated, else by utilisation; NaN if not known."""
        if self.question.power:
            return self.question.power
        use = (running.compute, running.memory, running.links)
        return float(self.model.power_w(running.tdp_w, *use))


@dataclass(frozen=True, slots=True)
class Beside:
    """Host and network of a device [W], the site over all of it; words: what each rests on."""

    host_w: float
    network_w: float
    pue: float
    words: Mapping[str, str]

    def device_w(self, watts: float) -> float:
        """Power of a device with its shares of host and network [W]."""
        return watts + self.host_w + self.network_w


def beside(system: System, question: Question) -> Beside:
    """The figures that the question states, else those of the system."""
    known = site_power(system)
    stated = {
        "host_w": question.host_power, "network_w": question.network_power, "pue": question.pue,
    }  # fmt: skip
    values, words = {}, {}
    for name, own in stated.items():
        figure = getattr(known, name)
        values[name] = figure.value if own is None else own
        same = own is None or own == figure.value
        words[name] = str(figure) if same else "stated by the user"
    return Beside(**values, words=words)


def hourly_usd(account: Account, running: Operation) -> dict[str, float]:
    """Cost of a device an hour by way of having it: "rented", "owned"; what is priced alone."""
    found, q, system = {}, account.question, account.resolved.system
    if rent := served_rows.mean_device(account.resolved).price_usd_per_hour:
        found["rented"] = float(rent)
    if q.capex:
        around = beside(system, q)
        owned = Ownership(
            q.capex, q.lifetime, q.interest / 100.0, q.opex / 100.0, around.pue, q.electricity
        )
        watts = around.device_w(account.power_w(running))
        if math.isfinite(watts):
            found["owned"] = float(owned.usd_per_hour(watts))
    return found


def economics(asked: Asked, stores: Iterable[Store] = ()) -> dict[str, Any]:
    """Everything on one deployment, see `document`.

    asked: `ask("economics", ...)`; `USERS` open requests where it states no load.  stores: of kept
    runs, of which one near the load says the power of a device unless the question does.

    Raises:
        RidgelineError: a question that cannot be priced.
    """
    if asked.question.kind == "batch":
        asked = replace(asked, question=replace(asked.question, concurrency=USERS))
    return document(with_measured(Account(served_rows.deployed(asked)), stores))


def with_measured(account: Account, stores: Iterable[Store]) -> Account:
    """An account with the power of the nearest kept run; as it is where the question states a
    power, or no run is near."""
    q = account.question
    if q.power or not q.concurrency:
        return account
    run = nearest(measured_powers(account.resolved, stores), float(q.concurrency))
    if run is None:
        return account
    resolved = replace(account.resolved, scenario=replace(q, power=run.power_w))
    return replace(account, resolved=resolved, measured_by=str(run))


def document(account: Account) -> dict[str, Any]:
    """Everything on one deployment under its load: costs, a day, break-even, energy; SI units and
    US dollars.

    Of each way to have the devices, usd_per_mtok is all that they cost over the output tokens, as
    `serve`, `plan` and `compare` have it; usd_per_mtok_in, _cached and _out split the cost by the
    time that prompts and answers take.

    Raises:
        RidgelineError: a scenario that cannot be priced, prices that cannot be.
    """
    resolved, q = account.resolved, account.question
    day = day_of(q)
    running = operation(resolved)
    around = beside(resolved.system, q)
    hourly = hourly_usd(account, running)
    caps = power_caps(account) if served_rows.mean_device(resolved).tdp_w else None
    return {
        "model": resolved.model.name,
        "system": resolved.system.slug,
        "engine": resolved.engine.name,
        "load": load_words(q),
        "terms": {name: getattr(q, name) for name in names_of(Prices)} | {"day": list(day)},
        "assumed": dict(ASSUMED) | dict(around.words),
        "operation": asdict(running),
        "energy": _energy(running, account, around) | {"caps": caps},
        "ways": {way: _way(way, usd, running, q) for way, usd in hourly.items()},
    }


def _energy(running: Operation, account: Account, around: Beside) -> dict[str, Any]:
    q, watts = account.question, account.power_w(running)
    tokens = running.requests_per_s * running.osl
    joules = watts * running.devices / tokens
    site = around.device_w(watts) * running.devices / tokens
    carbon = carbon_g_per_mtok(site, around.pue, q.carbon)
    return {
        "power_w": _known(watts),
        "host_w": around.host_w,
        "network_w": around.network_w,
        "pue": around.pue,
        "site_w": _known(around.device_w(watts) * around.pue),
        "measured": bool(q.power),
        "measured_by": account.measured_by,
        "by_part_w": _parts(running, account),
        "joules_per_token": _known(joules),
        "joules_per_token_low": _known(joules * running.cheaper),
        "joules_per_token_high": _known(joules * running.dearer),
        "site_joules_per_token": _known(site * around.pue),
        "carbon_g_per_mtok": _known(float(carbon)) if q.carbon else None,
    }


def _parts(running: Operation, account: Account) -> dict[str, float] | None:
    """Modelled power of a device by what draws it [W]; None where no design power is stated.

    Under a measured power they are scaled to it.
    """
    if not math.isfinite(running.tdp_w):
        return None
    use = (running.compute, running.memory, running.links)
    parts, stated = account.model.parts_w(running.tdp_w, *use), account.question.power
    scale = stated / sum(parts.values()) if stated else 1.0
    return {name: watts * scale for name, watts in parts.items()}


def _way(way: str, usd_per_hour: float, running: Operation, question: Question) -> dict[str, Any]:
    """Costs of one way to have the devices; what is owned costs the same when it is idle."""
    days = {"always on": False} if way == "owned" else _DAYS
    replica = usd_per_hour * running.devices
    request = replica / 3600.0 / running.requests_per_s
    costs = token_costs(
        request, running.isl, running.osl, running.prefill_share, running.cached_ratio
    )
    each = request / running.osl * _MILLION
    return {
        "usd_per_device_hour": usd_per_hour,
        "usd_per_replica_hour": replica,
        "usd_per_request": request,
        "usd_per_mtok": each,
        "usd_per_mtok_low": _known(each * running.cheaper),
        "usd_per_mtok_high": _known(each * running.dearer),
        "usd_per_mtok_in": costs.in_,
        "usd_per_mtok_cached": costs.cached,
        "usd_per_mtok_out": costs.out,
        "usd_per_mtok_out_low": _known(costs.out * running.cheaper),
        "usd_per_mtok_out_high": _known(costs.out * running.dearer),
        "usd_per_mtok_blended": costs.blended,
        "day": {name: _day(replica, running, question, by) for name, by in days.items()},
        "api": _api(replica, request, running, question),
    }


def _day(replica: float, running: Operation, question: Question, follows: bool) -> dict[str, Any]:
    """A day: replicas by hour, utilisation, cost of a million tokens out."""
    rates = day_rates(running, question)
    replicas = replicas_over_day(rates, running.requests_per_s, follows_load=follows)
    usd = float(replicas.sum() * replica)
    requests = float(rates.sum()) * 3600.0
    return {
        "replicas": replicas.tolist(),
        "utilisation": float(rates.sum() / (replicas.sum() * running.requests_per_s)),
        "usd": usd,
        "usd_per_mtok": usd / (requests * running.osl) * _MILLION,
        "usd_per_mtok_blended": usd / (requests * (running.osl + running.isl)) * _MILLION,
    }


def day_rates(running: Operation, question: Question) -> Array:
    """Arrivals per second in each hour."""
    shares = np.array(day_of(question))
    return np.asarray(shares / shares.max() * (question.peak_rate or running.requests_per_s))


def _api(
    replica: float, request: float, running: Operation, question: Question
) -> dict[str, Any] | None:
    """Self-hosting against an API, None without its prices."""
    asked = (running.isl * question.api_in + running.osl * question.api_out) / _MILLION
    if asked <= 0.0:
        return None
    rate = break_even_rate(replica, asked)
    return {
        "usd_per_request": asked,
        "break_even_requests_per_s": rate,
        "break_even_tokens_per_day": rate * 86400.0 * (running.isl + running.osl),
        "break_even_utilisation": rate / running.requests_per_s,
        "cheaper_at_full_load": "self-hosted" if request < asked else "API",
    }


def power_caps(account: Account) -> dict[str, list[float]]:
    """Output and energy of the deployment under caps of its power, [caps].

    cap_w, output_tokens_per_s, joules_per_token, power_w (of a device).

    Raises:
        InvalidValue: the system states no power.
    """
    resolved = account.resolved
    tdp = served_rows.mean_device(resolved).tdp_w
    if not tdp:
        raise InvalidValue(f"{resolved.system.name} states no power, so that a cap says nothing")
    columns: dict[str, list[float]] = {
        name: [] for name in ("cap_w", "output_tokens_per_s", "joules_per_token", "power_w")
    }
    free = operation(resolved)
    draw = min(account.power_w(free), tdp)
    for share in _CAPS:
        cap = float(share) * tdp
        running = free
        if cap < draw:
            slower = Chip(peak=(cap / draw) ** POWER_EXPONENT)
            capped = replace(resolved, system=chip_system(resolved.system, slower))
            if read_by := resolved.prefill_system or resolved.scenario.prefill_system:
                slow = chip_system(find_system(read_by), slower)
                capped = replace(capped, prefill_system=slow)
            running = operation(capped)
        watts = min(draw, cap)
        tokens = running.requests_per_s * running.osl
        values = (cap, tokens, watts * running.devices / tokens, watts)
        for name, value in zip(columns, values, strict=True):
            columns[name].append(value)
    return columns


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None

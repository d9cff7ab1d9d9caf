"""What a deployment's tokens cost: rented, owned, over a day, against an API; energy, carbon."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

import genz_core
from app.decide.chips import POWER_EXPONENT, Chip, chip_system
from app.scenario import served_rows
from app.scenario.intervals import THROUGHPUT_ENDS
from app.scenario.scenario import Resolved
from app.scenario.served_rows import serve_resolved
from genz_core import Workload, economics
from genz_core.economics import Ownership, PowerModel
from genz_core.errors import InvalidValue
from genz_core.model_kinds import check_generates
from genz_core.serving import ServingEstimate
from genz_core.types import Array, System
from hardware_db.site_power import site_power

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


@dataclass(frozen=True, slots=True)
class Terms:
    """What the user states.

    rent_usd_per_hour: of a device, 0 for what the system states.  capex_usd: of a device with its
    share of server, network and room, 0 where it is not owned.  cached: share of the prompt's
    tokens that are cached, for their price.  api_in, api_out: of an API [USD per million tokens],
    0 for none.  peak_rate: arrivals in the busiest hour [1/s], 0 for what one replica sustains.
    day: shares of that by hour.  carbon_g_per_kwh: of the grid, 0 where not stated.
    power_w: measured of a device, 0 for the model.  measured_by: the run that did, "" for the user.
    host_w, network_w: of a device, None for `hardware_db.site_power`; pue likewise.
    """

    rent_usd_per_hour: float = 0.0
    capex_usd: float = 0.0
    lifetime_years: float = 4.0
    interest: float = 0.0
    opex: float = 0.0
    pue: float | None = None
    host_w: float | None = None
    network_w: float | None = None
    electricity_usd_per_kwh: float = 0.10
    cached: float = 0.5
    api_in: float = 0.0
    api_out: float = 0.0
    peak_rate: float = 0.0
    day: tuple[float, ...] = DAY
    carbon_g_per_kwh: float = 0.0
    power_w: float = 0.0
    measured_by: str = ""
    power: PowerModel = field(default_factory=PowerModel)

    def __post_init__(self) -> None:
        if len(self.day) != _HOURS or not all(0.0 <= share <= 1e3 for share in self.day):
            raise InvalidValue(f"the day has {len(self.day)} shares: give 24 from 0 on")
        if not max(self.day) > 0.0:
            raise InvalidValue("the day has no load: give an hour a share above 0")
        for name in ("rent_usd_per_hour", "capex_usd", "api_in", "api_out", "peak_rate",
                     "carbon_g_per_kwh", "power_w", "host_w", "network_w"):  # fmt: skip
            value = getattr(self, name) or 0.0
            if not (math.isfinite(value) and value >= 0.0):
                raise InvalidValue(f"{name} = {value:g}: give a number from 0 on")
        if self.pue is not None and not (math.isfinite(self.pue) and self.pue >= 1.0):
            raise InvalidValue(f"pue = {self.pue:g}: give a number from 1 on")
        if not 0.0 <= self.cached <= 1.0:
            raise InvalidValue(f"cached = {self.cached:g}: give a share from 0 to 1")


@dataclass(frozen=True, slots=True)
class Operation:
    """A replica under so many users: what its money and energy rest on.

    requests_per_s, isl, osl: served, and tokens of each.  devices: of the replica.
    prefill_share: of its time that prompts take.  cached_ratio: time of a cached prompt token over
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


def operation(resolved: Resolved, cached: float = 0.5) -> Operation:
    """The scenario's deployment under a closed loop of its batch of users.

    cached: share of a prompt's tokens that `cached_ratio` is of.

    Raises:
        RidgelineError: a scenario that cannot be priced.
    """
    s = resolved.scenario
    check_generates(resolved.model, "an account of output tokens")
    served = serve_resolved(resolved, concurrency=float(s.batch))
    osl = float(served.osl[0])
    tokens = float(served.output_tokens_per_s[0])
    trusted = served_rows.columns(resolved, served, closed=True)
    ends = (tokens / float(trusted[end][0]) for end in reversed(THROUGHPUT_ENDS))
    running = max(float(served.running[0]), 1.0)
    share = _prefill_share(served, tokens / osl, running)
    use = _utilisations(resolved, share, running)
    cached_ratio = _cached_ratio(resolved, cached)
    return Operation(
        tokens / osl, float(s.isl), osl, int(s.tp * s.pp * s.dp), share, cached_ratio,
        *use, float(resolved.system.tdp_w or math.nan), str(served.status[0]), *ends,
    )  # fmt: skip


def _prefill_share(served: ServingEstimate, rate: float, running: float) -> float:
    """Share of a replica's time that prompts take.

    What a user waits for the prompts of others, and for its own, one of those that run; where none
    waits for another's (one user, or all are read together), all of them.  rate: of requests [1/s].
    running: requests in flight.
    """
    every, waited = rate * float(served.prefill_s[0]), float(served.utilisation[0])
    return float(np.clip(waited + every / running if waited else every, 0.0, 1.0))


def _cached_ratio(resolved: Resolved, cached: float) -> float:
    """Time that a cached token of a prompt costs over a new one: the attention that reads it."""
    s = resolved.scenario
    old = min(int(s.isl * cached), s.isl - 1)
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


def _utilisations(
    resolved: Resolved, prefill_share: float, running: float
) -> tuple[float, float, float]:
    """Utilisation of arithmetic, memory and links: least over expected times of both steps."""
    s = replace(resolved.scenario, batch=max(round(running), 1))
    work = Workload(s.batch, s.isl, s.osl)
    one = replace(work, batch=1)
    case = (resolved.model, resolved.system)
    decode = genz_core.decode(*case, work, s.parallelism, resolved.engine)
    prompt = genz_core.prefill(*case, one, s.parallelism, resolved.engine)
    found = []
    for name in ("compute_s", "memory_s", "communication_s"):
        shares = [
            float(((getattr(step, name) * step.runs[:, None]).sum(0) / step.total_s)[0])
            for step in (prompt, decode)
        ]
        busy = prefill_share * shares[0] + (1.0 - prefill_share) * shares[1]
        found.append(float(np.clip(busy, 0.0, 1.0)))
    return found[0], found[1], found[2]


# ------------------------------------------------------------------------------- the answer


def power_w(operation: Operation, terms: Terms) -> float:
    """Mean power of a device [W]: measured if stated, else by utilisation; NaN where not known."""
    if terms.power_w:
        return terms.power_w
    model = terms.power
    return float(
        model.power_w(operation.tdp_w, operation.compute, operation.memory, operation.links)
    )


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


def beside(system: System, terms: Terms) -> Beside:
    """The figures that the terms state, else those of the system."""
    stated = site_power(system)
    values, words = {}, {}
    for name in ("host_w", "network_w", "pue"):
        figure, own = getattr(stated, name), getattr(terms, name)
        values[name] = figure.value if own is None else own
        same = own is None or own == figure.value
        words[name] = str(figure) if same else "stated by the user"
    return Beside(**values, words=words)


def hourly_usd(resolved: Resolved, operation: Operation, terms: Terms) -> dict[str, float]:
    """Cost of a device an hour by way of having it: "rented", "owned"; what is priced alone."""
    found = {}
    rent = terms.rent_usd_per_hour or resolved.system.price_usd_per_hour
    if rent:
        found["rented"] = float(rent)
    if terms.capex_usd:
        names = ("capex_usd", "lifetime_years", "interest", "opex")
        around = beside(resolved.system, terms)
        owned = Ownership(
            **{name: getattr(terms, name) for name in names},
            pue=around.pue,
            electricity_usd_per_kwh=terms.electricity_usd_per_kwh,
        )
        watts = around.device_w(power_w(operation, terms))
        if math.isfinite(watts):
            found["owned"] = float(owned.usd_per_hour(watts))
    return found


def document(resolved: Resolved, terms: Terms) -> dict[str, Any]:
    """Everything on one deployment: costs, a day, break-even, energy; SI units and US dollars.

    Raises:
        RidgelineError: a scenario that cannot be priced, terms that cannot be.
    """
    running = operation(resolved, terms.cached)
    hourly = hourly_usd(resolved, running, terms)
    around = beside(resolved.system, terms)
    return {
        "model": resolved.model.name,
        "system": resolved.system.slug,
        "engine": resolved.engine.name,
        "terms": asdict(terms) | {"day": list(terms.day)},
        "assumed": dict(ASSUMED) | dict(around.words),
        "operation": asdict(running),
        "energy": _energy(running, terms, around) | {"caps": _caps(resolved, terms)},
        "ways": {way: _way(way, usd, running, terms) for way, usd in hourly.items()},
    }


def _energy(running: Operation, terms: Terms, around: Beside) -> dict[str, Any]:
    watts = power_w(running, terms)
    tokens = running.requests_per_s * running.osl
    joules = watts * running.devices / tokens
    site = around.device_w(watts) * running.devices / tokens
    carbon = economics.carbon_g_per_mtok(site, around.pue, terms.carbon_g_per_kwh)
    return {
        "power_w": _known(watts),
        "host_w": around.host_w,
        "network_w": around.network_w,
        "pue": around.pue,
        "site_w": _known(around.device_w(watts) * around.pue),
        "measured": bool(terms.power_w),
        "measured_by": terms.measured_by,
        "by_part_w": _parts(running, terms),
        "joules_per_token": _known(joules),
        "joules_per_token_low": _known(joules * running.cheaper),
        "joules_per_token_high": _known(joules * running.dearer),
        "site_joules_per_token": _known(site * around.pue),
        "carbon_g_per_mtok": _known(float(carbon)) if terms.carbon_g_per_kwh else None,
    }


def _parts(running: Operation, terms: Terms) -> dict[str, float] | None:
    """Modelled power of a device by what draws it [W]; None where no design power is stated.

    Under a measured power they are scaled to it.
    """
    if not math.isfinite(running.tdp_w):
        return None
    parts = terms.power.parts_w(running.tdp_w, running.compute, running.memory, running.links)
    scale = terms.power_w / sum(parts.values()) if terms.power_w else 1.0
    return {name: watts * scale for name, watts in parts.items()}


def _caps(resolved: Resolved, terms: Terms) -> dict[str, list[float]] | None:
    """As `power_caps`; None where the system states no power."""
    return power_caps(resolved, terms) if resolved.system.tdp_w else None


def _way(way: str, usd_per_hour: float, running: Operation, terms: Terms) -> dict[str, Any]:
    """Costs of one way to have the devices; what is owned costs the same when it is idle."""
    days = {"always on": False} if way == "owned" else _DAYS
    replica = usd_per_hour * running.devices
    request = replica / 3600.0 / running.requests_per_s
    costs = economics.token_costs(
        request, running.isl, running.osl, running.prefill_share, running.cached_ratio
    )
    return {
        "usd_per_device_hour": usd_per_hour,
        "usd_per_replica_hour": replica,
        "usd_per_request": request,
        "usd_per_mtok_in": costs.in_,
        "usd_per_mtok_cached": costs.cached,
        "usd_per_mtok_out": costs.out,
        "usd_per_mtok_out_low": _known(costs.out * running.cheaper),
        "usd_per_mtok_out_high": _known(costs.out * running.dearer),
        "usd_per_mtok_blended": costs.blended,
        "usd_per_mtok_of_output_alone": request / running.osl * _MILLION,
        "day": {name: _day(replica, running, terms, follows) for name, follows in days.items()},
        "api": _api(replica, request, running, terms),
    }


def _day(replica: float, running: Operation, terms: Terms, follows: bool) -> dict[str, Any]:
    """A day: replicas by hour, utilisation, cost of a million tokens out."""
    rates = day_rates(running, terms)
    replicas = economics.replicas_over_day(rates, running.requests_per_s, follows_load=follows)
    usd = float(replicas.sum() * replica)
    requests = float(rates.sum()) * 3600.0
    return {
        "replicas": replicas.tolist(),
        "utilisation": float(rates.sum() / (replicas.sum() * running.requests_per_s)),
        "usd": usd,
        "usd_per_mtok_of_output_alone": usd / (requests * running.osl) * _MILLION,
        "usd_per_mtok_blended": usd / (requests * (running.osl + running.isl)) * _MILLION,
    }


def day_rates(running: Operation, terms: Terms) -> Array:
    """Arrivals per second in each hour."""
    shares = np.array(terms.day) / max(terms.day)
    return np.asarray(shares * (terms.peak_rate or running.requests_per_s))


def _api(replica: float, request: float, running: Operation, terms: Terms) -> dict[str, Any] | None:
    """Self-hosting against an API, None without its prices."""
    asked = (running.isl * terms.api_in + running.osl * terms.api_out) / _MILLION
    if asked <= 0.0:
        return None
    rate = economics.break_even_rate(replica, asked)
    return {
        "usd_per_request": asked,
        "break_even_requests_per_s": rate,
        "break_even_tokens_per_day": rate * 86400.0 * (running.isl + running.osl),
        "break_even_utilisation": rate / running.requests_per_s,
        "cheaper_at_full_load": "self-hosted" if request < asked else "API",
    }


def power_caps(resolved: Resolved, terms: Terms) -> dict[str, list[float]]:
    """Output and energy of the deployment under caps of its power, [caps].

    cap_w, output_tokens_per_s, joules_per_token, power_w (of a device).

    Raises:
        InvalidValue: the system states no power.
    """
    tdp = resolved.system.tdp_w
    if not tdp:
        raise InvalidValue(f"{resolved.system.name} states no power, so that a cap says nothing")
    columns: dict[str, list[float]] = {
        name: [] for name in ("cap_w", "output_tokens_per_s", "joules_per_token", "power_w")
    }
    free = operation(resolved, 0.0)
    draw = min(power_w(free, terms), tdp)
    for share in _CAPS:
        cap = float(share) * tdp
        running = free
        if cap < draw:
            slower = Chip(peak=(cap / draw) ** POWER_EXPONENT)
            system = chip_system(resolved.system, slower)
            running = operation(replace(resolved, system=system), 0.0)
        watts = min(draw, cap)
        tokens = running.requests_per_s * running.osl
        values = (cap, tokens, watts * running.devices / tokens, watts)
        for name, value in zip(columns, values, strict=True):
            columns[name].append(value)
    return columns


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None

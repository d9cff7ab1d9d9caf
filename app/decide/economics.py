"""Token costs of a deployment: rented or owned, over a day, against an API; energy and carbon."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from app.answers.table import finite
from app.decide.account import Account, Beside, beside, hourly_usd, power_caps, with_measured
from app.decide.operation import Operation, operation
from app.question.decisions import Prices
from app.question.hours import day_of
from app.question.parameters import names_of
from app.question.query import Query
from app.question.question import Question
from app.scenario import served_rows
from app.scenario.description import load_words
from app.scenario.gate import refuse_impossible
from genz_core.economics import (
    break_even_rate,
    carbon_g_per_mtok,
    replicas_over_day,
    token_costs,
)
from genz_core.serving.traffic import OVERLOADED
from genz_core.types import Array
from profilers.runs.store import Store

#: Default of each input, and what the default is based on.  Prices of devices, of an API and of
#: carbon have no default: the user must state them.
ASSUMED: Mapping[str, str] = {
    "lifetime": "assumed: 4 years",
    "electricity": "assumed: $0.10 a kWh",
    "power": "assumed: idle power is 25 % of the design power; the rest scales 60 % with "
    "arithmetic, 35 % with memory, 5 % with links",
    "cap": "assumed: a cap below the uncapped mean power slows arithmetic by the cube root of the "
    "power, and memory not at all",
    "day": "assumed: the load of each hour as a share of the busiest hour",
}
#: Ways to run replicas over a day, and whether their number follows the load.
_DAYS: Mapping[str, bool] = {"always on": False, "follows the load": True}
_MILLION = 1e6
#: Open requests per replica if the question states no load.
USERS = 64


def economics(query: Query, stores: Iterable[Store] = ()) -> dict[str, Any]:
    """All costs of one deployment, see `document`.

    asked: `ask("economics", ...)`; `USERS` open requests if it states no load.  stores: of kept
    runs; a run with a similar load provides the device power unless the question states it.

    Raises:
        RidgelineError: a question that cannot be priced.
    """
    if query.question.kind == "batch":
        query = replace(query, question=replace(query.question, concurrency=USERS))
    resolved = served_rows.deployed(query)
    refuse_impossible(resolved)
    return document(with_measured(Account(resolved), stores))


def document(account: Account) -> dict[str, Any]:
    """All costs of one deployment under its load: per token, over a day, break-even, energy; SI
    units and US dollars.

    For each form of ownership, usd_per_mtok is the total cost divided by output tokens, as in
    `serve`, `plan` and `compare`; usd_per_mtok_in (of tokens that are not cached), _cached and _out
    split the cost by the time that prompts and answers take.  A deployment that does not serve its
    load has neither costs nor energy; the message of its operation says why.  One that is
    overloaded has the rent of a day with as many of it as the load takes.

    Raises:
        RidgelineError: a scenario that cannot be priced, or invalid prices.
    """
    resolved, q = account.resolved, account.question
    day = day_of(q)
    running = operation(resolved)
    around = beside(resolved.system, q)
    hourly = _hourly(account, running)
    return {
        "model": resolved.model.name,
        "system": resolved.system.slug,
        "engine": resolved.engine.name,
        "load": load_words(q),
        "terms": {name: getattr(q, name) for name in names_of(Prices)} | {"day": list(day)},
        "assumed": dict(ASSUMED) | dict(around.words),
        "operation": asdict(running),
        "energy": _energy(running, account, around) if running.runs else None,
        "ways": {way: _way(way, usd, running, q) for way, usd in hourly.items()},
    }


def _energy(running: Operation, account: Account, around: Beside) -> dict[str, Any]:
    q, watts = account.question, account.power_w(running)
    tokens = running.requests_per_s * running.osl
    joules = watts * running.devices / tokens
    site = around.device_w(watts) * running.devices / tokens
    carbon = carbon_g_per_mtok(site, around.pue, q.carbon)
    stated = served_rows.mean_device(account.resolved).tdp_w
    return {
        "power_w": finite(watts),
        "host_w": around.host_w,
        "network_w": around.network_w,
        "pue": around.pue,
        "site_w": finite(around.device_w(watts) * around.pue),
        "measured": bool(q.power),
        "measured_by": account.measured_by,
        "by_part_w": _parts(running, account),
        "joules_per_token": finite(joules),
        "joules_per_token_low": finite(joules * running.cheaper),
        "joules_per_token_high": finite(joules * running.dearer),
        "design_joules_per_token": finite(running.tdp_w * running.devices / tokens),
        "site_joules_per_token": finite(site * around.pue),
        "carbon_g_per_mtok": finite(float(carbon)) if q.carbon else None,
        "caps": power_caps(account, running) if stated else None,
    }


def _parts(running: Operation, account: Account) -> dict[str, float] | None:
    """Modelled power of a device by consumer [W]; None without a stated design power.

    If power was measured, the parts are scaled to it.
    """
    if not math.isfinite(running.tdp_w):
        return None
    use = (running.compute, running.memory, running.links)
    parts, stated = account.model.parts_w(running.tdp_w, *use), account.question.power
    scale = stated / sum(parts.values()) if stated else 1.0
    return {name: watts * scale for name, watts in parts.items()}


def _hourly(account: Account, running: Operation) -> dict[str, float]:
    """As `hourly_usd`; only the rent if the deployment is overloaded, as its power is not known,
    and nothing if it cannot run.
    """
    if running.status == OVERLOADED:
        rent = served_rows.mean_device(account.resolved).price_usd_per_hour
        return {"rented": float(rent)} if rent else {}
    return hourly_usd(account, running) if running.runs else {}


def _way(way: str, usd_per_hour: float, running: Operation, question: Question) -> dict[str, Any]:
    """Costs of one form of ownership; owned devices cost the same when idle.

    An overloaded deployment has no cost of a request or a token.
    """
    days = {"always on": False} if way == "owned" else _DAYS
    replica = usd_per_hour * running.replica_devices
    paid = {
        "usd_per_device_hour": usd_per_hour,
        "usd_per_replica_hour": replica,
        "day": {name: _day(replica, running, question, by) for name, by in days.items()},
    }
    return paid | _per_token(replica, running, question) if running.runs else paid


def _per_token(replica: float, running: Operation, question: Question) -> dict[str, Any]:
    """Costs of a request and its tokens.  replica: cost of one per hour [USD]."""
    request = replica / 3600.0 / running.replica_requests_per_s
    lengths = (running.isl, running.osl)
    costs = token_costs(
        request, *lengths, running.prefill_share, running.cached_ratio, running.cached
    )
    each = request / running.osl * _MILLION
    return {
        "usd_per_request": request,
        "usd_per_mtok": each,
        "usd_per_mtok_low": finite(each * running.cheaper),
        "usd_per_mtok_high": finite(each * running.dearer),
        "usd_per_mtok_in": costs.in_,
        "usd_per_mtok_cached": costs.cached,
        "usd_per_mtok_out": costs.out,
        "usd_per_mtok_out_low": finite(costs.out * running.cheaper),
        "usd_per_mtok_out_high": finite(costs.out * running.dearer),
        "usd_per_mtok_blended": costs.blended,
        "api": _api(replica, request, running, question),
    }


def _day(replica: float, running: Operation, question: Question, follows: bool) -> dict[str, Any]:
    """A day: replicas by hour, cost per million output tokens, and `utilisation`: what a replica
    serves on average, over what it serves under the stated load.
    """
    rates = day_rates(running, question)
    each = running.replica_requests_per_s
    replicas = replicas_over_day(rates, each, follows_load=follows)
    usd = float(replicas.sum() * replica)
    requests = float(rates.sum()) * 3600.0
    return {
        "replicas": replicas.tolist(),
        "utilisation": float(rates.sum() / (replicas.sum() * each)),
        "usd": usd,
        "usd_per_mtok": usd / (requests * running.osl) * _MILLION,
        "usd_per_mtok_blended": usd / (requests * (running.osl + running.isl)) * _MILLION,
    }


def day_rates(running: Operation, question: Question) -> Array:
    """Arrivals per second in each hour.

    In the busiest hour those of `peak_rate`, otherwise the question's rate, also where one
    deployment sustains less of it; users in a closed loop send what is served.
    """
    shares = np.array(day_of(question))
    busiest = question.peak_rate or question.rate or running.requests_per_s
    return np.asarray(shares / shares.max() * busiest)


def _api(
    replica: float, request: float, running: Operation, question: Question
) -> dict[str, Any] | None:
    """Self-hosting compared with an API, None without API prices."""
    api_usd = (running.isl * question.api_in + running.osl * question.api_out) / _MILLION
    if api_usd <= 0.0:
        return None
    rate = break_even_rate(replica, api_usd)
    return {
        "usd_per_request": api_usd,
        "break_even_requests_per_s": rate,
        "break_even_tokens_per_day": rate * 86400.0 * (running.isl + running.osl),
        "break_even_utilisation": rate / running.replica_requests_per_s,
        "cheaper_at_full_load": "self-hosted" if request < api_usd else "API",
    }

"""Money, energy and carbon per token: rented and owned devices, demand over a day, and an API."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from genz_core.errors import InvalidValue
from genz_core.systems import System
from genz_core.types import Array, Num

_HOUR_S = 3600.0
_MILLION = 1e6
_KILO = 1e3
_HOURS_OF_YEAR = 8766.0  # 365.25 days
_J_PER_KWH = 3.6e6


def usd_per_million_tokens(system: System, devices: Num, tokens_per_s: Num) -> Array | None:
    """Rent of `devices` per million tokens [USD]; None for a system without a price.

    price_per_hour * devices / (tokens_per_s * 3600) * 1e6.

    Args:
        devices, tokens_per_s: of the deployment; numbers or arrays [configs].
    """
    if system.price_usd_per_hour is None:
        return None
    hourly = system.price_usd_per_hour * np.asarray(devices, dtype=float)
    return hourly / (np.asarray(tokens_per_s, dtype=float) * _HOUR_S) * _MILLION


def joules_per_token(system: System, devices: Num, tokens_per_s: Num) -> Array | None:
    """Energy per token at thermal design power [J]; None for a system that states no power.

    tdp * devices / tokens_per_s: an upper bound of the accelerators' share.  Memory-bound phases
    draw less; host, network and cooling are not included.

    Args:
        devices, tokens_per_s: of the deployment; numbers or arrays [configs].
    """
    if system.tdp_w is None:
        return None
    energy_j: Array = (
        system.tdp_w * np.asarray(devices, dtype=float) / np.asarray(tokens_per_s, dtype=float)
    )
    return energy_j


# ------------------------------------------------------------------------------- owning


@dataclass(frozen=True, slots=True)
class Ownership:
    """The cost of owning a device.

    capex_usd: its price with its share of server, network and building.  lifetime_years: after
    which it is worth nothing.  interest: cost of capital per year.  opex: yearly cost of operation
    and repair, as a share of the capex.  pue: power of the site over that of the devices.
    electricity_usd_per_kwh: price at the site.

    Raises:
        InvalidValue: a figure outside its range.
    """

    capex_usd: float
    lifetime_years: float = 4.0
    interest: float = 0.0
    opex: float = 0.0
    pue: float = 1.0
    electricity_usd_per_kwh: float = 0.0

    def __post_init__(self) -> None:
        least = {"capex_usd": 0.0, "interest": 0.0, "opex": 0.0, "electricity_usd_per_kwh": 0.0}
        for name, floor in {**least, "pue": 1.0}.items():
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= floor):
                raise InvalidValue(f"{name} = {value:g}: give a number from {floor:g} on")
        if not (math.isfinite(self.lifetime_years) and self.lifetime_years > 0.0):
            raise InvalidValue(f"lifetime_years = {self.lifetime_years:g}: give a number above 0")

    def usd_per_hour(self, power_w: Num) -> Array:
        """Cost of a device per hour at a mean power [USD]: capital, operation and electricity.

        Capital is an annuity: capex i / (1 - (1 + i)^-n), capex / n without interest.
        """
        rate, years = self.interest, self.lifetime_years
        share = rate / (1.0 - (1.0 + rate) ** -years) if rate > 0.0 else 1.0 / years
        fixed = self.capex_usd * (share + self.opex) / _HOURS_OF_YEAR
        energy = np.asarray(power_w, dtype=float) / _KILO * self.pue * self.electricity_usd_per_kwh
        return np.asarray(fixed + energy)


# ------------------------------------------------------------------------------- tokens


@dataclass(frozen=True, slots=True)
class TokenCosts:
    """Cost of a million tokens [USD]: of prompts, of cached prompts, of answers, of all.

    in_: of tokens that are not cached.  in_, cached, out are in proportion to the time that each
    takes; blended: all tokens at one price.
    """

    in_: float
    cached: float
    out: float
    blended: float


def token_costs(
    usd_per_request: float,
    isl: float,
    osl: float,
    prefill_share: float,
    cached_ratio: float = 0.0,
    found: float = 0.0,
) -> TokenCosts:
    """Split the cost of a request between prompt and answer tokens in proportion to their time.

    (isl - found) * in + found * cached + osl * out is the cost of a request.

    Args:
        usd_per_request: of a request.
        isl, osl: tokens in and out.
        prefill_share: share of the time that prompts take, 0 to 1.
        cached_ratio: time of a cached prompt token over that of an uncached one.
        found: tokens of the request's prompt that are found in the cache, fewer than `isl`.
    """
    each = usd_per_request * prefill_share / (isl - found * (1.0 - cached_ratio)) * _MILLION
    out = usd_per_request * (1.0 - prefill_share) / osl * _MILLION
    blended = usd_per_request / (isl + osl) * _MILLION
    return TokenCosts(each, each * cached_ratio, out, blended)


def break_even_rate(usd_per_hour: float, api_usd_per_request: float) -> float:
    """Requests per second above which a deployment that always runs is cheaper than an API.

    usd_per_hour: of the deployment.  api_usd_per_request: price of the API; infinite rate at 0.
    """
    if api_usd_per_request <= 0.0:
        return math.inf
    return usd_per_hour / _HOUR_S / api_usd_per_request


# ------------------------------------------------------------------------------- a day


def replicas_over_day(rates: Array, replica_rate: float, *, follows_load: bool) -> Array:
    """Replicas in each part of a day: enough for the load of that part, or always for the peak.

    At least one runs.

    Args:
        rates: arrivals per second in each part, [parts].
        replica_rate: rate that a replica sustains [1/s], above 0.
        follows_load: replicas are added and removed with the load.
    """
    needed = np.maximum(np.ceil(np.asarray(rates, dtype=float) / replica_rate - 1e-9), 1.0)
    return needed if follows_load else np.full_like(needed, needed.max())


# ------------------------------------------------------------------------------- energy


@dataclass(frozen=True, slots=True)
class PowerModel:
    """Power of a device between idle and its thermal design power.

    idle: share of the design power that it draws when idle.  compute, memory, links: weights of
    their utilisation in the rest; at full utilisation the sum is capped at the design power.

    Raises:
        InvalidValue: a share outside [0, 1], or weights that are all 0.
    """

    idle: float = 0.25
    compute: float = 0.6
    memory: float = 0.35
    links: float = 0.05

    def __post_init__(self) -> None:
        for name in ("idle", "compute", "memory", "links"):
            value = getattr(self, name)
            if not 0.0 <= value <= 1.0:
                raise InvalidValue(f"{name} = {value:g}: give a share from 0 to 1")
        if not self.compute + self.memory + self.links > 0.0:
            raise InvalidValue(
                "compute, memory and links all have weight 0: give at least one a weight above 0"
            )

    def power_w(self, tdp_w: float, compute: Num, memory: Num, links: Num = 0.0) -> Array:
        """Mean power [W] at utilisations of 0 to 1."""
        busy = self.compute * np.asarray(compute) + self.memory * np.asarray(memory)
        busy = np.asarray(busy + self.links * np.asarray(links), dtype=float)
        return np.asarray(tdp_w * (self.idle + (1.0 - self.idle) * np.clip(busy, 0.0, 1.0)))

    def parts_w(
        self, tdp_w: float, compute: float, memory: float, links: float = 0.0
    ) -> dict[str, float]:
        """Power by component [W]: idle, compute, memory, links; the parts sum to the total."""
        used = {"compute": compute, "memory": memory, "links": links}
        busy = {name: getattr(self, name) * use for name, use in used.items()}
        scale = tdp_w * (1.0 - self.idle) / max(sum(busy.values()), 1.0)
        return {"idle": tdp_w * self.idle, **{name: scale * w for name, w in busy.items()}}


def carbon_g_per_mtok(joules_per_token: Num, pue: float, g_per_kwh: float) -> Array:
    """Carbon of a million tokens [g of CO2]: energy at the site times the grid's intensity."""
    return np.asarray(joules_per_token, dtype=float) * _MILLION / _J_PER_KWH * pue * g_per_kwh

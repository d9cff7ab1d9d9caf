"""Power and hourly cost of a deployment, with host and network."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from app.decide.chips import POWER_EXPONENT, Chip, chip_system
from app.decide.measured_power import measured_powers, nearest
from app.decide.operation import Operation, operation
from app.question.question import Question
from app.scenario import served_rows
from app.scenario.pools import with_systems
from app.scenario.scenario import Resolved
from genz_core.economics import (
    Ownership,
    PowerModel,
)
from genz_core.errors import InvalidValue
from genz_core.systems import System
from hardware_db.site_power import site_power
from profilers.runs.store import Store

_CAPS = np.linspace(0.4, 1.0, 13)


@dataclass(frozen=True, slots=True)
class Account:
    """The inputs of an account: a deployment and its load, and where its power comes from.

    resolved: the question with its prices, and the objects that it names.  model: power model of
    the device.  measured_by: the run that measured the question's `power`, "" for the user.
    """

    resolved: Resolved
    model: PowerModel = field(default_factory=PowerModel)
    measured_by: str = ""

    @property
    def question(self) -> Question:
        """The question, including its prices."""
        return self.resolved.scenario

    def power_w(self, running: Operation) -> float:
        """Mean power of a device [W]: measured if given, otherwise by utilisation; NaN if
        unknown.
        """
        if self.question.power:
            return self.question.power
        use = (running.compute, running.memory, running.links)
        return float(self.model.power_w(running.tdp_w, *use))


@dataclass(frozen=True, slots=True)
class Beside:
    """Host and network power per device [W], and the site's overhead; words: origin of each."""

    host_w: float
    network_w: float
    pue: float
    words: Mapping[str, str]

    def device_w(self, watts: float) -> float:
        """Power of a device including its shares of host and network [W]."""
        return watts + self.host_w + self.network_w


def beside(system: System, question: Question) -> Beside:
    """The figures stated in the question, otherwise the system's figures."""
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
    """Hourly cost of a device by ownership, "rented" or "owned"; only those with a price."""
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


def with_measured(account: Account, stores: Iterable[Store]) -> Account:
    """An account with the power of the nearest kept run; unchanged where the question states a
    power, or no run is near.
    """
    q = account.question
    if q.power or not q.concurrency:
        return account
    run = nearest(measured_powers(account.resolved, stores), float(q.concurrency))
    if run is None:
        return account
    resolved = replace(account.resolved, scenario=replace(q, power=run.power_w))
    return replace(account, resolved=resolved, measured_by=str(run))


def power_caps(account: Account, free: Operation) -> dict[str, list[float]]:
    """Output and energy of the deployment under power caps that let it serve its load, [caps].

    cap_w, output_tokens_per_s, joules_per_token, power_w (of a device).  free: without a cap.

    Raises:
        InvalidValue: the system states no power.
    """
    resolved = account.resolved
    tdp = served_rows.mean_device(resolved).tdp_w
    if not tdp:
        raise InvalidValue(
            f"{resolved.system.name} has no known power, so a power cap has no effect"
        )
    columns: dict[str, list[float]] = {
        name: [] for name in ("cap_w", "output_tokens_per_s", "joules_per_token", "power_w")
    }
    draw = min(account.power_w(free), tdp)
    for share in _CAPS:
        cap = float(share) * tdp
        running = free
        if cap < draw:
            slower = Chip(peak=(cap / draw) ** POWER_EXPONENT)
            running = operation(with_systems(resolved, partial(chip_system, chip=slower)))
            if not running.runs:
                continue
        watts = min(draw, cap)
        tokens = running.requests_per_s * running.osl
        values = (cap, tokens, watts * running.devices / tokens, watts)
        for name, value in zip(columns, values, strict=True):
            columns[name].append(value)
    return columns

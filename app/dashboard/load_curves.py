"""Cached curves of a setup under load: over concurrencies, or over arrival rates."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np
import pandas as pd

from app.answers.table import Table
from app.dashboard import caches
from app.scenario import scenario, sharing
from app.scenario.scenario import Resolved
from app.scenario.served_rows import completed, figures_of, served
from app.scenario.setup import Setup
from genz_core.errors import RidgelineError
from genz_core.serving import ServingEstimate
from genz_core.types import Array

#: Rates as shares of the highest sustained one: beyond 1 the queue grows without end.
_RATE_SHARES = np.concatenate([np.geomspace(0.02, 0.5, 12), np.linspace(0.55, 0.98, 14), [1.1]])
_CONCURRENCIES: Array = np.exp2(np.arange(13))
#: Loads priced together between one that meets the targets and one that does not.
_REFINED = 33
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def _under_load(
    function: Callable[Concatenate[Setup, Arguments], Result],
) -> Callable[Concatenate[Setup, Arguments], Result]:
    """A function of a setup under load, called with batch one because the batch does not matter.

    Results cached by setup are then reused when the sidebar's batch changes.
    """

    @wraps(function)
    def asked(setup: Setup, /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        none: dict[str, Any] = {"batch": 1, "concurrency": 1, "rate": None, "trace": None}
        alone = replace(setup, scenario=replace(setup.scenario, **none))
        return function(alone, *args, **kwargs)

    return asked


@_under_load
def basis(setup: Setup) -> str:
    """The measurements behind the figures in words; see `app.scenario.scenario.basis`."""
    return scenario.basis(caches.deployed(setup))


@_under_load
@caches.by_setup(32)
def curve(setup: Setup, load: str) -> pd.DataFrame:
    """Serving figures of a setup by load; shared between visitors, not to be changed.

    load: "concurrency", 1 to 4096 in powers of two, or "rate", up to just beyond the highest
    rate that is sustained.

    Raises:
        RidgelineError: as `cached.resolved`.
    """
    degree = setup.scenario.tp
    resolved = caches.deployed(setup)
    return _curves(resolved, load, (degree,))[degree]


@_under_load
@caches.by_setup(128)
def one_load(setup: Setup, load: str, value: float) -> Mapping[str, Any]:
    """The figures of one load as `ridgeline serve` gives them, its message beside them.

    load: "concurrency" or "rate", at `value`.

    Raises:
        RidgelineError: as `cached.resolved`.
    """
    table = curve(setup, load)
    drawn = np.flatnonzero(table[load] == value)
    if len(drawn):
        return table.iloc[drawn[:1]].to_dict("records")[0]
    resolved = caches.deployed(setup)
    result = _served(resolved, load, np.array([[value]]), (setup.scenario.tp,))
    found = _columns(resolved, result, load)
    row = {name: c if isinstance(c, str) else np.asarray(c).item() for name, c in found.items()}
    return {load: value, **row, "message": result.messages.get(0, "")}


def with_load(table: pd.DataFrame, row: Mapping[str, Any], load: str) -> tuple[pd.DataFrame, int]:
    """A curve with one load's row inserted at its position, and that position."""
    if not (table[load] == row[load]).any():
        table = pd.concat([table, pd.DataFrame([dict(row)])], ignore_index=True)
        table = table.sort_values(load, ignore_index=True)
    return table, int((table[load] == row[load]).to_numpy().argmax())


@_under_load
@caches.by_setup(32)
def most_within(setup: Setup, load: str, limits: tuple[tuple[str, float], ...]) -> float:
    """The largest load up to which every latency is within its limit, 0 for none.

    load: "concurrency", in whole users, or "rate", to a thousandth of the highest.
    limits: columns of a curve and the most that each may be [s].

    Raises:
        RidgelineError: as `cached.resolved`.
    """
    degree, resolved = (setup.scenario.tp,), caches.deployed(setup)
    found: Mapping[str, Any] = curve(setup, load)
    loads: Array = np.asarray(found[load])
    least, finest = 0.0, 1.0 if load == "concurrency" else float(loads[-1]) / 1000.0
    while True:
        within = np.asarray(found["status"]) == "ok"
        for name, most in limits:
            within &= np.asarray(found[name]) <= most
        first = len(loads) if within.all() else int(np.argmin(within))
        least = float(loads[first - 1]) if first else least
        if first == len(loads) or loads[first] - least <= finest:
            return least
        loads = np.linspace(least, loads[first], _REFINED)[1:]
        loads = np.unique(np.round(loads)) if load == "concurrency" else loads
        found = _columns(resolved, _served(resolved, load, loads[None, :], degree), load)


@_under_load
@caches.by_setup(8)
def curves_at(setup: Setup, load: str, degrees: tuple[int, ...]) -> Mapping[int, pd.DataFrame]:
    """`curve` at other tensor-parallel degrees, by degree; empty if the system states no links."""
    try:
        # without the user's own calibration, which is of the setup's degrees
        return _curves(completed(caches.resolved(setup), {}), load, degrees)
    except RidgelineError:
        return {}


def _curves(resolved: Resolved, load: str, degrees: Sequence[int]) -> dict[int, pd.DataFrame]:
    """The curve of each degree, all priced in one call."""
    if load == "concurrency":
        loads = np.tile(_CONCURRENCIES, (len(degrees), 1))
    else:
        loads = _highest_rates(resolved, degrees)[:, None] * _RATE_SHARES
    result = _served(resolved, load, loads, degrees)
    messages = [result.messages.get(at, "") for at in range(loads.size)]
    figures = _columns(resolved, result, load)
    table = pd.DataFrame({load: loads.reshape(-1), **figures, "message": messages})
    each = np.split(np.arange(loads.size), len(degrees))
    return {
        degree: table.iloc[rows].reset_index(drop=True)
        for degree, rows in zip(degrees, each, strict=True)
    }


def _columns(resolved: Resolved, result: ServingEstimate, load: str) -> Table:
    """As `app.scenario.served_rows.figures_of`, of a load by its name."""
    beyond = sharing.unmeasured(resolved.scenario)
    found = figures_of(resolved, result, closed=load == "concurrency", beyond=beyond)
    return Table(found, len(result.status))


def _highest_rates(resolved: Resolved, degrees: Sequence[int]) -> Array:
    """The highest sustained rate [requests/s] at each degree, [degrees]."""
    probes = np.tile([1e-6, 1e9], (len(degrees), 1))
    probe = _served(resolved, "rate", probes, degrees)
    highest: Array = 1e9 / np.maximum(probe.utilisation[1::2], 1e-300)
    return highest


def _served(resolved: Resolved, load: str, loads: Array, degrees: Sequence[int]) -> ServingEstimate:
    """A scenario served under `loads`, [degrees, loads], at tensor-parallel degrees."""
    tp = np.repeat(np.array(degrees, dtype=float), loads.shape[1])
    one: dict[str, Any] = {"concurrency": None, "rate": None, load: 1}
    question = replace(resolved.scenario, **one)
    arrays = {load: loads.reshape(-1), **({"tp": tp} if len(degrees) > 1 else {})}
    alone = replace(question, tp=degrees[0]) if len(degrees) == 1 else question
    return served(replace(resolved, scenario=alone), arrays)


def without_waiting(table: pd.DataFrame, name: str) -> pd.DataFrame:
    """The rows whose requests all run at once; at higher loads only the queue grows.

    name: the column of the load.  If none are left, the first row is returned.
    """
    kept = table["status"] != "overloaded"
    if name == "concurrency":
        kept &= table[name] <= table["running"] * 1.001
    return (table[kept] if kept.any() else table[:1]).reset_index(drop=True)


def load_warnings(table: pd.DataFrame, name: str) -> list[str]:
    """Sentences on the loads at which requests wait, or the queue is unstable.

    name: the column of the load.
    """
    sentences = []
    waits = table[table[name] > table["running"] * 1.001] if name == "concurrency" else None
    if waits is not None and len(waits):
        most = float(table["running"].max())
        sentences.append(
            f"At most {most:,.0f} requests run at once, so from {waits[name].iloc[0]:,.0f} open "
            "requests on, further requests queue and TTFT grows."
        )
    full = table[table["status"] == "overloaded"]
    if len(full):
        highest = float(full["rate"].iloc[0] / full["utilisation"].iloc[0])
        last = table.loc[table["status"] != "overloaded", name].max()
        sentences.append(
            f"Overloaded beyond {highest:.3g} requests/s (last stable point: {last:.3g}): the "
            "queue grows without bound and TTFT has no mean."
        )
    return sentences

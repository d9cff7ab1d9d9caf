"""The load of a setup, the static batch that represents it, and cached curves over loads."""

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from app.answers.table import Table
from app.dashboard import caches
from app.dashboard.page_texts import page_text
from app.question.question import STANDARD
from app.question.verbs import NOT_OF_A_BATCH
from app.scenario import scenario
from app.scenario.scenario import Resolved
from app.scenario.served_rows import completed, figures_of, served
from app.scenario.setup import Setup
from app.wording import quantities
from app.wording.markdown import plain
from genz_core.errors import RidgelineError
from genz_core.limits import short
from genz_core.serving import ServingEstimate
from genz_core.types import Array
from genz_core.workload import CONTEXT_TOO_LONG, OUT_OF_MEMORY

#: Rates as shares of the highest sustained one: beyond 1 the queue grows without end.
_RATE_SHARES = np.concatenate([np.geomspace(0.02, 0.5, 12), np.linspace(0.55, 0.98, 14), [1.1]])
_CONCURRENCIES: Array = np.exp2(np.arange(13))
#: Loads priced together between one that meets the targets and one that does not.
_REFINED = 33
#: Users over running requests up to which all run: the tolerance of the figures.
_ALL_RUN = 1.001
#: Share of further users that run below which others wait, where the first user's request is only
#: partly among the running: the limit then lies in the lower half of a step of the curve.
_STILL_RUN = 0.5


@dataclass(frozen=True, slots=True)
class Load:
    """A load.  name: "concurrency", "rate" or "batch", at `value`."""

    name: str
    value: float

    @property
    def words(self) -> str:
        """As `app.wording.quantities.load`."""
        return quantities.load(self.name, self.value)


def load_of(setup: Setup) -> Load:
    """The load of the question; a static batch counts as that many users, a trace as one."""
    s = setup.scenario
    if s.rate:
        return Load("rate", s.rate)
    return Load("concurrency", float(s.concurrency or s.batch))


def under(setup: Setup, load: Load) -> Setup:
    """A setup under another load; a static batch has no parameters that only a load has."""
    none: dict[str, Any] = {"batch": 1, "concurrency": None, "rate": None, "trace": None}
    if load.name == "batch":
        none |= {name: getattr(STANDARD, name) for name in NOT_OF_A_BATCH}
    return replace(setup, scenario=replace(setup.scenario, **{**none, load.name: load.value}))


def as_batch(setup: Setup) -> Setup:
    """The static batch with as many sequences as run at once under a setup's load.

    With replicas it is the batch of one.  It is limited to what fits: a server that reserves only a
    share of the output may run more than fit in a static batch.  Of a load that does not fit at all
    it is the batch that would run if it fitted.  A trace has no single load, so it is a batch of
    one.
    """
    s = setup.scenario
    if s.kind == "batch":
        return setup
    if s.trace:
        return alone(setup)
    row = one_load(setup)
    if row["status"] in (OUT_OF_MEMORY, CONTEXT_TOO_LONG):
        row = one_load(replace(setup, if_fitted=True))
    running = row["running"] if math.isfinite(row["running"]) else float(s.concurrency or 1)
    batch = max(round(running / s.replicas), 1)
    if batch > 1 and (most := caches.largest(alone(setup))[0]):
        batch = min(batch, most)
    return under(setup, Load("batch", batch))


def alone(setup: Setup) -> Setup:
    """The static batch of one sequence of a setup."""
    return under(setup, Load("batch", 1))


def batches_words(batches: Mapping[str, Setup]) -> str:
    """A sentence stating that figures describe static batches, with their sizes.

    batches: of `as_batch`, by the page's name for each.
    """
    sizes = {name: f"{one.scenario.batch:,}" for name, one in batches.items()}
    if len(set(sizes.values())) == 1:
        return f"For a static batch of {next(iter(sizes.values()))}, the batch of this load."
    each = ", ".join(f"{plain(name)} {size}" for name, size in sizes.items())
    return f"For the static batches of this load: {each}."


# ------------------------------------------------------------------------------- curves


def any_load(setup: Setup) -> Setup:
    """A setup under the load of one user: a curve is the same whatever load is asked for, so it
    stays when the sidebar's batch changes.
    """
    return under(setup, Load("concurrency", 1))


def basis(setup: Setup) -> str:
    """The measurements behind the figures in words; see `app.scenario.scenario.basis`."""
    return scenario.basis(caches.deployed(any_load(setup)))


def curve(setup: Setup, load: str) -> pd.DataFrame:
    """Serving figures of a setup by load.

    load: "concurrency", 1 to 4096 in powers of two, or "rate", to beyond the highest sustained.
    """
    return _curve(setup, load).to_dataframe()


@caches.by_setup(32, any_load)
def _curve(setup: Setup, load: str) -> Table:
    """The columns of `curve`: a data frame that is kept grows with each column that is read."""
    return _curves(caches.deployed(setup), load, (setup.scenario.tp,))[0]


@caches.by_setup(64)
def one_load(setup: Setup) -> Mapping[str, Any]:
    """The figures of a setup's load as `ridgeline serve` gives them, its message beside them."""
    load = load_of(setup)
    table = _curve(setup, load.name)
    drawn = np.flatnonzero(table[load.name] == load.value)
    if len(drawn):
        return table.row(int(drawn[0]))
    resolved = caches.deployed(any_load(setup))
    result = _served(resolved, load.name, np.array([[load.value]]), (setup.scenario.tp,))
    row = _columns(resolved, result, load.name).row()
    return {load.name: load.value, **row, "message": result.messages.get(0, "")}


def with_load(table: pd.DataFrame, row: Mapping[str, Any], load: str) -> tuple[pd.DataFrame, int]:
    """A curve with one load's row inserted at its position, and that position."""
    if not (table[load] == row[load]).any():
        table = pd.concat([table, pd.DataFrame([dict(row)])], ignore_index=True)
        table = table.sort_values(load, ignore_index=True)
    return table, int((table[load] == row[load]).to_numpy().argmax())


@caches.by_setup(32, any_load)
def most_within(setup: Setup, load: str, limits: tuple[tuple[str, float], ...]) -> float:
    """The largest load up to which every latency is within its limit, 0 for none.

    load: "concurrency", in whole users, or "rate", to a thousandth of the highest.
    limits: columns of a curve and the most that each may be [s].
    """
    degree, resolved = (setup.scenario.tp,), caches.deployed(setup)
    found = _curve(setup, load)
    loads: Array = found[load]
    least, finest = 0.0, 1.0 if load == "concurrency" else float(loads[-1]) / 1000.0
    while True:
        within = found["status"] == "ok"
        for name, most in limits:
            within &= found[name] <= most
        first = len(loads) if within.all() else int(np.argmin(within))
        least = float(loads[first - 1]) if first else least
        if first == len(loads) or loads[first] - least <= finest:
            return least
        loads = np.linspace(least, loads[first], _REFINED)[1:]
        loads = np.unique(np.round(loads)) if load == "concurrency" else loads
        found = _columns(resolved, _served(resolved, load, loads[None, :], degree), load)


def curves_at(setup: Setup, load: str, degrees: tuple[int, ...]) -> dict[int, pd.DataFrame]:
    """`curve` at other tensor-parallel degrees, by degree; empty if the system states no links."""
    found = _curves_at(setup, load, degrees)
    return {degree: one.to_dataframe() for degree, one in zip(degrees, found, strict=False)}


@caches.by_setup(8, any_load)
def _curves_at(setup: Setup, load: str, degrees: tuple[int, ...]) -> list[Table]:
    with suppress(RidgelineError):
        # without the user's own calibration, which is of the setup's degrees
        return _curves(completed(caches.resolved(setup), {}), load, degrees)
    return []


def _curves(resolved: Resolved, load: str, degrees: Sequence[int]) -> list[Table]:
    """The curve of each degree, all priced in one call."""
    if load == "concurrency":
        loads = np.tile(_CONCURRENCIES, (len(degrees), 1))
    else:
        loads = _highest_rates(resolved, degrees)[:, None] * _RATE_SHARES
    result = _served(resolved, load, loads, degrees)
    messages = [result.messages.get(at, "") for at in range(loads.size)]
    figures = _columns(resolved, result, load)
    columns = {load: loads.reshape(-1), **figures, "message": np.array(messages, dtype=object)}
    table = Table(columns, loads.size)
    return [table.part(rows) for rows in np.split(np.arange(loads.size), len(degrees))]


def _columns(resolved: Resolved, result: ServingEstimate, load: str) -> Table:
    """As `app.scenario.served_rows.figures_of`, of a load by its name."""
    found = figures_of(resolved, result, closed=load == "concurrency")
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
        kept &= ~_waits(table)
    return (table[kept] if kept.any() else table[:1]).reset_index(drop=True)


def until_some_wait(table: pd.DataFrame, name: str, least: float) -> pd.DataFrame:
    """The rows up to the first load at which requests wait for others to end: beyond it only the
    queue grows, and its times would leave no room for the others in a chart.

    name: the column of the load.  least: a load up to which all rows are kept.
    """
    waits = _waits(table) if name == "concurrency" else np.zeros(len(table), dtype=bool)
    if not waits.any():
        return table
    most = max(float(table[name][int(np.argmax(waits))]), least)
    return table[table[name] <= most]


def _waits(table: pd.DataFrame) -> pd.Series:
    """The numbers of users, from one on, at which requests wait for others to end.

    With a prefill pool, where a request runs only after its prompt was read elsewhere, those at
    which less than `_STILL_RUN` as many run of further users as of the first.
    """
    users, running = table["concurrency"], table["running"]
    of_one = float(running.iloc[0] / users.iloc[0])
    if of_one >= 1 / _ALL_RUN:
        return users > running * _ALL_RUN
    return running.diff() < _STILL_RUN * of_one * users.diff()


def load_warnings(table: pd.DataFrame, name: str) -> list[str]:
    """Sentences on the loads at which requests wait, or the queue is unstable.

    name: the column of the load.
    """
    sentences = []
    if name == "concurrency" and _waits(table).any():
        most = float(table["running"].max())
        # of the users before the limit, this share runs; with a prefill pool some are there
        before = max(int((table["running"] >= most / _ALL_RUN).to_numpy().argmax()) - 1, 0)
        share = float(table["running"][before] / table[name][before])
        pooled = share < 1 / _ALL_RUN
        first = f"{round(most / share if pooled else most) + 1:,}"
        first = f"about {first}" if pooled else first
        sentences.append(page_text("others wait", most=most, first=first))
    full = table[table["status"] == "overloaded"]
    if len(full):
        highest = float(full["rate"].iloc[0] / full["utilisation"].iloc[0])
        last = table.loc[table["status"] != "overloaded", name].max()
        rates = {"highest": quantities.request_rate(highest, 3), "last": short(last, 3)}
        sentences.append(page_text("overloaded", **rates))
    return sentences

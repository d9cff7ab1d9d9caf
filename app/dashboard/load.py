"""The load of a setup: users or a rate, and the static batch that represents it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from app.dashboard import caches, load_curves
from app.scenario.setup import Setup
from app.wording import quantities
from app.wording.markdown import plain


@dataclass(frozen=True, slots=True)
class Load:
    """A load.  name: "concurrency", "rate" or "batch", at `value`."""

    name: str
    value: float

    @property
    def words(self) -> str:
        """ "64 users" or "3.2 requests/s"."""
        if self.name == "concurrency":
            return f"{self.value:,.0f} user{'s' if self.value > 1 else ''}"
        return f"{quantities.digits(self.value)} requests/s"


def load_of(setup: Setup) -> Load:
    """The load of the question; a static batch counts as that number of users, a trace as one
    user.
    """
    s = setup.scenario
    if s.rate:
        return Load("rate", s.rate)
    return Load("concurrency", float(s.concurrency or s.batch))


def under(setup: Setup, load: Load) -> Setup:
    """A setup under another load."""
    none: dict[str, Any] = {"batch": 1, "concurrency": None, "rate": None, "trace": None}
    return replace(setup, scenario=replace(setup.scenario, **{**none, load.name: load.value}))


def as_batch(setup: Setup) -> Setup:
    """The static batch with as many sequences as run at once under a setup's load.

    It is limited to what fits: a server that reserves only a share of the output may run
    more than fit in a static batch.  A trace has no single load, so it is a batch of one.

    Raises:
        RidgelineError: the setup cannot be priced.
    """
    s = setup.scenario
    if s.kind == "batch":
        return setup
    load = load_of(setup)
    running = 1.0 if s.trace else load_curves.one_load(setup, load.name, load.value)["running"]
    batch = max(round(running), 1) if math.isfinite(running) else int(s.concurrency or 1)
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

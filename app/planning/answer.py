"""The answer to a question: the plans, why the others lose, what would help, what to measure."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from app.planning import demand
from app.planning.break_even import Pays, pays
from app.planning.changes import Change, changes
from app.planning.measurement import Measurement, next_measurement
from app.planning.plan_text import shape
from app.planning.safe_or_risky import Settling, settling
from app.planning.search import (
    Found,
    Priced,
    fewest_devices,
    not_judged,
    price,
    search,
    targets_of,
)
from app.planning.shortlist import Shortlist, shortlist
from app.planning.space import systems
from app.planning.why_not import Loser, losers
from app.question.query import Query
from app.scenario.known_systems import find_system
from app.scenario.rents import rents
from app.simulation.executor import HERE, Where
from genz_core.common.progress import Cancel, Progress, never, part, silent

_NOTES = (
    "rates and figures cover the whole deployment in steady state; TTFT, TPOT and E2E are means "
    "unless a percentile is named",
    "percentiles have no interval, so their probability uses that of the mean; a plan that was not "
    "simulated has no percentiles",
)
_SIMULATED = (
    "plans are simulated: each meets the targets with arrivals that were not used to choose it; "
    "means are never below the closed form where measured runs validate it"
)


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a planning question.

    found: every candidate.  short: the plans.  fewest: candidate with the fewest devices that meets
    the targets, None if there is none.  losers: from `why_not`.  changes, measurement, settling:
    from the modules of these names.  pays: from `break_even`.
    """

    found: Found
    short: Shortlist
    fewest: int | None
    losers: tuple[Loser, ...]
    changes: tuple[Change, ...]
    measurement: Measurement | None
    notes: tuple[str, ...]
    pays: tuple[Pays, ...] = ()
    settling: Settling | None = None

    @property
    def model(self) -> str:
        """The model's name as given."""
        return str(self.found.query.question.model)


def answer(
    query: Query,
    progress: Progress = silent,
    cancelled: Cancel = never,
    *,
    priced: Priced | None = None,
    with_changes: bool = True,
    where: Where = HERE,
    folder: Path | None = None,
) -> Answer:
    """Search, simulate the best, and explain.

    priced: as in `search`.
    where, folder: as in `price`.
    with_changes: whether to look for changes that would allow a plan where there is none.

    Raises:
        RidgelineError: as `search`.
        Cancelled: between two families or simulations.
    """
    targets_of(query)  # refuses an invalid question before anything is priced
    query = demand.at_means(query)
    pricing = 0.5 if priced is None else 0.0  # its share of the progress
    if priced is None:
        priced = price(query, part(progress, 0.0, pricing), cancelled, where, folder)
    found = search(query, priced)
    progress(pricing, "simulating the best")
    short = shortlist(found, part(progress, pricing, 0.9), cancelled)
    fewest = _fewest(found, short)
    wanted = with_changes and not short.plans and not found.undecided
    changed = changes(replace(found, candidates=short.candidates)) if wanted else []
    progress(0.95, "comparing")
    best = [(short.candidates.of(plan.at), short.candidates.row(plan.at)) for plan in short.plans]
    measurement = next_measurement(*best[0], found.targets, several=True) if best else None
    simulated = (_SIMULATED,) if query.question.simulate else ()
    return Answer(
        found,
        short,
        fewest,
        tuple(losers(found, short)),
        tuple(changed),
        measurement,
        (
            *simulated,
            *_undecided(short),
            *_NOTES,
            *_unpriced(found),
            *_priced_in_vain(query),
            *_unjudged(query),
        ),
        tuple(pays(found, short)) if query.question.break_even else (),
        settling(found, short),
    )


def _fewest(found: Found, short: Shortlist) -> int | None:
    """The candidate with the fewest devices that meets the targets: among simulated ones, or in
    closed form where none is.
    """
    if not found.query.question.simulate:
        return fewest_devices(found)
    if short.smaller:
        return short.smaller.at
    devices = found.candidates.columns["devices"]
    return min((plan.at for plan in short.plans), key=lambda at: float(devices[at]), default=None)


def _undecided(short: Shortlist) -> Iterator[str]:
    """The deployment with a better figure than the best plan, of which the simulation does not
    decide whether it meets the targets.
    """
    for at in short.near[:1]:
        family, devices = short.candidates.of(at), short.candidates.row(at)["devices"]
        said = "; ".join(one.words for one in short.undecided[at])
        yield f"{shape(short.candidates.row(at))} on {devices:.0f} x {family}: {said}"


def _unjudged(query: Query) -> list[str]:
    left = ", ".join(map(str, not_judged(query)))
    return [f"outputs of one token have no TPOT, so all requests meet {left}"] if left else []


def _priced_in_vain(query: Query) -> list[str]:
    """Notes on stated prices of systems that are not searched."""
    named = [find_system(name).slug for name, _ in rents(query.question.price) if name]
    searched = {find_system(one).slug for one in systems(query)}
    return [
        f"the price of {slug} has no effect: it is not among the systems"
        for slug in named
        if slug not in searched
    ]


def _unpriced(found: Found) -> list[str]:
    tried = {family.system.slug: family.system for family in found.candidates.families}
    missing = [slug for slug, system in tried.items() if not system.price_usd_per_hour]
    if not missing or len(missing) == len(tried):
        return []
    return [f"no price is known of {', '.join(missing)}: state one, as in --price {missing[0]}=2.5"]

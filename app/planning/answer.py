"""The answer to a question: the plans, why the others lose, what would help, what to measure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from app.planning.changes import Change, changes
from app.planning.measurement import Measurement, next_measurement
from app.planning.pays import Pays, pays
from app.planning.search import Found, Priced, Question, fewest_devices, search
from app.planning.shortlist import Shortlist, shortlist
from app.planning.why_not import Loser, losers

Progress = Callable[[float, str], None]
_NOTES = (
    "rates, lengths and figures are of the whole deployment in a steady state; TTFT, TPOT and E2E "
    "are means where no percentile is named",
    "percentiles are simulated for the plans, and have no interval of their own: their probability "
    "takes that of the mean",
)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a question comes to.

    model: as it was asked.  found: every candidate.  short: the plans.  fewest: candidate with
    the fewest devices that meets the targets, None without.  losers, changes, measurement, pays:
    see their modules.
    """

    model: str
    found: Found
    short: Shortlist
    fewest: int | None
    losers: tuple[Loser, ...]
    changes: tuple[Change, ...]
    measurement: Measurement | None
    notes: tuple[str, ...]
    pays: tuple[Pays, ...] = ()


def answer(
    question: Question,
    model: str,
    progress: Progress = lambda share, words: None,
    *,
    priced: Priced | None = None,
    with_changes: bool = True,
) -> Answer:
    """Search, simulate the best, and explain.

    model: the name that launch lines and documents call it.  priced: as of `search`.
    with_changes: whether to look for what would have to change where there is no plan.

    Raises:
        RidgelineError: as `search`.
    """
    progress(0.0, "pricing every deployment")
    found = search(question, priced)
    progress(0.5, "simulating the best")
    short = shortlist(found, lambda share, words: progress(0.5 + 0.4 * share, words))
    fewest = _fewest(found, short)
    asked = with_changes and not short.plans
    changed = changes(replace(found, candidates=short.candidates)) if asked else []
    progress(0.95, "comparing")
    return Answer(
        model,
        found,
        short,
        fewest,
        tuple(losers(found, short)),
        tuple(changed),
        _measurement(found, short, model),
        (*_NOTES, *_unpriced(found)),
        tuple(pays(found, short)) if question.pays else (),
    )


def _fewest(found: Found, short: Shortlist) -> int | None:
    """The fewest devices of the plans and of the candidates that no simulation rejected."""
    candidate = fewest_devices(found)
    devices = found.candidates.columns["devices"]
    plans = [plan.at for plan in short.plans]
    if candidate is None or candidate in short.rejected:
        return min(plans, key=lambda at: float(devices[at]), default=None)
    return min([candidate, *plans], key=lambda at: float(devices[at]))


def _measurement(found: Found, short: Shortlist, model: str) -> Measurement | None:
    if not short.plans:
        return None
    at = short.plans[0].at
    question = found.question
    return next_measurement(
        model,
        short.candidates.of(at),
        short.candidates.row(at),
        question.demand,
        question.targets,
    )


def _unpriced(found: Found) -> list[str]:
    systems = {family.system.slug: family.system for family in found.candidates.families}
    missing = [slug for slug, system in systems.items() if not system.price_usd_per_hour]
    if not missing or len(missing) == len(systems):
        return []
    return [f"no price is known of {', '.join(missing)}: state one, as in --price {missing[0]}=2.5"]

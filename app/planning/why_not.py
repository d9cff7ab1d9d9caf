"""Why the next candidates lose, and what each is missing."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from app.planning.candidates import Candidates
from app.planning.disaggregated import why_empty
from app.planning.search import Found
from app.planning.shortlist import Plan, Shortlist
from app.planning.targets import Figure, Target
from app.wording import quantities
from genz_core.serving.traffic import OVERLOADED
from genz_core.types import Array, Mask

_ALIKE = 0.005  # relative difference too small to mention
_REASONS: Mapping[str, str] = {
    "out_of_memory": "does not fit",
    "overloaded": "does not sustain the load",
    "invalid_parallelism": "cannot be split this way",
}


@dataclass(frozen=True, slots=True)
class Loser:
    """The nearest candidate of a family that is not the best plan, and why it loses.

    at: its index; None if the family has no candidate.
    """

    family: int
    at: int | None
    why: str


def losers(found: Found, short: Shortlist) -> list[Loser]:
    """For every other family, its nearest candidate and why it loses: those that meet the targets
    first, best first.  Before them, why the best plan's family needs as many devices.
    """
    best = short.plans[0].at if short.plans else None
    taken = int(short.candidates.family[best]) if best is not None else -1
    slack = found.ranking.slack(found.candidates)
    rows = [
        _loser(found, short, number, best, slack)
        for number in range(len(found.candidates.families))
        if number != taken
    ]
    ranked = {int(at): place for place, at in enumerate(found.order)}
    rows.sort(key=lambda loser: ranked.get(-1 if loser.at is None else loser.at, len(ranked)))
    if best is not None and (smaller := _fewer(found, short, best, slack)) is not None:
        rows.insert(0, smaller)
    return rows


def _loser(found: Found, short: Shortlist, family: int, best: int | None, slack: Array) -> Loser:
    candidates = found.candidates
    mine = candidates.family == family
    if not mine.any():
        return Loser(family, None, why_empty(candidates.families[family], found.query))
    for plan in short.plans:
        if best is not None and short.candidates.family[plan.at] == family:
            return Loser(family, plan.at, _behind(found, short, plan))
    own = found.order[candidates.family[found.order] == family]
    in_order = [int(at) for at in own if int(at) not in short.rejected][:1]
    if in_order and best is not None:
        return Loser(family, in_order[0], _untried(found, short, in_order[0], best))
    failed = [at for at in short.rejected if candidates.family[at] == family]
    if failed:
        return Loser(family, failed[0], _rejected(found, short, failed[0]))
    return nearest(found, family, mine, slack)


def nearest(found: Found, family: int, mine: Mask, slack: Array) -> Loser:
    """The candidate of a family that is closest to the targets, and what it misses; of overloaded
    ones, the one that sustains the most.
    """
    candidates = found.candidates
    near = np.where(mine, slack, -np.inf)
    if np.isfinite(near).any():
        at = int(np.argmax(near))
        return Loser(family, at, _missed(found, candidates, at))
    runs = mine & found.ranking.sound(candidates)
    if runs.any():
        at = int(np.flatnonzero(runs)[0])
        return Loser(family, at, _missed(found, candidates, at))
    counted = Counter(candidates.status[mine].tolist())
    status, many = counted.most_common(1)[0]
    alike_ones = np.flatnonzero(mine & (candidates.status == status))
    load = candidates.columns["utilisation"][alike_ones]
    least = status == OVERLOADED and np.isfinite(load).any()
    at = int(alike_ones[np.nanargmin(load) if least else -1])
    replicas, tried = int(candidates.columns["replicas"][at]), int(mine.sum())
    said = _REASONS.get(status, status)
    if own := candidates.messages.get(at):
        said = f"on each of {replicas:,} replicas {own}" if replicas > 1 else own
    alike = f" (the same holds for {many:,} of {tried:,} deployments)" if tried > 1 else ""
    return Loser(family, at, f"{said}{alike}")


def _rejected(found: Found, short: Shortlist, at: int) -> str:
    """Why the simulation rejected a candidate: a target that it misses, or misses within its
    error.
    """
    if at in short.undecided:
        return "; ".join(one.words for one in short.undecided[at])
    return _missed(found, short.candidates, at, simulated=True)


def _missed(found: Found, candidates: Candidates, at: int, *, simulated: bool = False) -> str:
    """The targets that a candidate misses, as text; its probability if that is too low."""
    said = (
        ["does not sustain the load when simulated"]
        if (simulated and candidates.status[at] == OVERLOADED)
        else []
    )
    for target in found.ranking.targets:
        value = float(candidates.columns[target.figure.column][at])
        if not target.met(np.array([value]))[0]:
            said.append(_miss(target, value, simulated=simulated))
    if not said:
        chance = float(found.probability[at])
        if np.isnan(chance):
            if found.ranking.confidence:
                return "not validated, but a minimum confidence is set"
            return "not validated in closed form; needs a simulation"
        return f"meets the targets with only {quantities.chance(chance)}"
    return "; ".join(said)


def _miss(target: Target, value: float, *, simulated: bool) -> str:
    if np.isnan(value):
        return f"{target}: not known, because the system has no price or power on record"
    sign = "above" if target.below else "below"
    guess = "about " if target.figure.percentile and not simulated else ""
    here, limit = target.figure.apart(value, target.value)
    return f"{target.figure.title} {guess}{here} is {sign} {limit}"


def _behind(found: Found, short: Shortlist, plan: Plan) -> str:
    """How far one of the plans is behind the best, as their table shows it."""
    best = short.plans[0]
    shown = replace(found, candidates=short.candidates)
    return _dearer(shown, plan.at, best.at, [plan.probability, best.probability])


def _untried(found: Found, short: Shortlist, at: int, best: int) -> str:
    """How far a candidate that was not simulated is behind the best: both in closed form, which is
    said where the best has another figure in the table.
    """
    chance = [float(found.probability[one]) for one in (at, best)]
    by = found.ranking.by
    priced, shown = (
        _to_four(by, float(one.candidates.columns[by.column][best])) for one in (found, short)
    )
    return _dearer(found, at, best, chance, ", in closed form" * (priced != shown))


def _dearer(found: Found, at: int, best: int, chance: Sequence[float], basis: str = "") -> str:
    """How far a candidate that meets the targets is behind the best.

    chance: probability that it meets them, and that the best does.  basis: said after figures.
    """
    by, columns = found.ranking.by, found.candidates.columns
    mine, theirs = float(columns[by.column][at]), float(columns[by.column][best])
    if np.isnan(mine):
        return f"has no {by.title}: no price is known for the system"
    if theirs and abs(mine / theirs - 1.0) > _ALIKE:
        figures = f"{by.title} {_to_four(by, mine)} against {_to_four(by, theirs)}{basis}"
        better = (mine < theirs) == by.smaller
        return f"{_less_likely(chance)}, with {figures}" if better else figures
    fewer = columns["devices"][at] - columns["devices"][best]
    if fewer > 0:
        return f"as good, but with {int(fewer)} more devices"
    if np.isnan(chance[0]):
        both = np.isnan(chance[1])
        words = ("and {} either" if both else "but {}").format(quantities.NOT_VALIDATED)
        return f"as good, {words}"
    here, there = map(quantities.chance, chance)
    if here == there:
        same = f"same probability of meeting the targets ({here})"
        ends = [float(columns["e2e_s"][row]) for row in (at, best)]
        if ends[0] > ends[1] * (1.0 + _ALIKE):
            mine_s, best_s = map(quantities.seconds, ends)
            return f"{same}, but its requests take {mine_s} against {best_s}"
        return f"equally good; {same}"
    return f"as good, and {_less_likely(chance)}"


def _less_likely(chance: Sequence[float]) -> str:
    """How likely a candidate meets the targets, against the best; chance: as in `_dearer`."""
    if np.isnan(chance[0]):
        return quantities.NOT_VALIDATED
    here, there = map(quantities.chance, chance)
    return f"meets the targets with {here} against {there}"


def _to_four(figure: Figure, value: float) -> str:
    """A figure for a reader; money with four digits, so that close ones differ: "$0.6660"."""
    money = figure.declared.unit.startswith("$")
    return f"${quantities.digits(value, 4)}" if money else figure.shown(value)


def _fewer(found: Found, short: Shortlist, best: int, slack: Array) -> Loser | None:
    """Why the best plan cannot use fewer devices of its family; None if there are no such
    candidates.
    """
    candidates = found.candidates
    family = int(candidates.family[best])
    devices = candidates.columns["devices"]
    smaller = (candidates.family == family) & (devices < devices[best])
    if not smaller.any():
        return None
    rejected = [at for at in short.rejected if smaller[at]]
    if rejected:
        at = max(rejected, key=lambda number: float(devices[number]))
        return Loser(family, at, _rejected(found, short, at))
    good = found.order[smaller[found.order]]  # they meet the targets
    if good.size:
        at = int(good[0])
        return Loser(family, at, _untried(found, short, at, best))
    return nearest(found, family, smaller & (devices == devices[smaller].max()), slack)

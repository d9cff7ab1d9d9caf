"""What would have to change where no deployment meets the targets."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from app.planning import demand
from app.planning.search import Found, search
from app.planning.shortlist import shortlist, worst
from app.planning.space import devices, formats, kinds
from app.planning.targets import Target
from app.question.query import Query
from genz_core.deployment import bulk_format
from genz_core.errors import RidgelineError

_MORE = (2, 4, 8)  # largest multiple of the devices
_LESS = (0.75, 0.5, 0.25, 0.1)  # shares of the load
_TRIED = 3  # number of deployments that are simulated for a change
_WIDE = ("bf16", "fp16", "fp32")


@dataclass(frozen=True, slots=True)
class Change:
    """A single change that would let a deployment meet all requirements.

    what: "target", "targets", "devices", "load" or "weights".  words: in a sentence.
    figure, value: of a target that would be met; or the devices, or the share of the load.
    """

    what: str
    words: str
    figure: str = ""
    value: float = float("nan")


@dataclass(frozen=True, slots=True)
class _Met:
    """A search, and the candidates that meet its targets, [candidates], simulated if that is
    requested.
    """

    found: Found
    at: NDArray[np.intp]


def changes(found: Found) -> list[Change]:
    """Single changes that would allow a plan, each priced; for a search whose candidates
    all miss.
    """
    single = [*_easier_targets(found), *_other_spaces(found)]
    return single or _two_at_once(found.query)


def _two_at_once(query: Query) -> list[Change]:
    """More devices together with an easier target, where neither alone is enough."""
    least, most_now = devices(query.question)
    for factor in _MORE:
        most = most_now * factor
        try:
            found = search(_among(query, least, most))
        except RidgelineError:
            return []
        eased = list(_easier_targets(found))
        if eased:
            return [replace(c, words=f"up to {most} devices, and {c.words}") for c in eased]
    return []


def _easier_targets(found: Found) -> Iterator[Change]:
    """Each single target, eased as far as needed; otherwise all targets eased by one factor."""
    ranked, candidates = found.ranking, found.candidates
    sound = ranked.sound(candidates)
    alone = False
    for target in ranked.targets:
        others = replace(
            ranked, targets=tuple(one for one in ranked.targets if one is not target),
            by=target.figure, expected=False,
        )  # fmt: skip
        values = candidates.columns[target.figure.column]
        held = sound & np.isfinite(values)
        for other in others.targets:
            held &= other.met(candidates.columns[other.figure.column])
        if best := _reached(replace(found, ranking=others, feasible=held), target):
            alone = True
            limit = _typed(best, target.below)
            yield Change("target", _eased(target, limit), target.figure.name, limit)
    if alone or not ranked.targets:
        return
    slack = ranked.slack(candidates)
    if np.isfinite(slack).any():
        factor = float(np.exp(-slack.max()))
        yield Change("targets", f"all targets relaxed by a factor of {factor:.3g}", "", factor)


def _reached(found: Found, target: Target) -> float:
    """The best value of a target's figure among the feasible candidates, simulated if that is
    requested; 0 if there is none.

    found: ranked by that figure, and without that target.
    """
    column, best = target.figure.column, min if target.below else max
    values = found.candidates.columns[column][found.feasible].tolist()
    if values and found.query.question.simulate:
        order = found.ranking.order(found.candidates, found.probability, found.feasible)
        short = shortlist(replace(found, order=order), most=_TRIED)
        values = [
            float(short.candidates.columns[column][plan.at]) if plan.simulated is None
            else worst(short.candidates, plan.at, found.query, target)
            for plan in short.plans
        ]  # fmt: skip
    return best(values, default=0.0)


def _typed(best: float, below: bool) -> float:
    """The tightest limit of three digits that a value is within."""
    if best <= 0.0:
        return best
    step = 10.0 ** (math.floor(math.log10(best)) - 2)
    return float(f"{(math.ceil if below else math.floor)(best / step) * step:.6g}")


def _eased(target: Target, best: float) -> str:
    sign = "<" if target.below else ">"
    new, old = target.figure.apart(best, target.value)
    return f"{target.figure.name} {sign} {new} instead of {old}, everything else unchanged"


def _other_spaces(found: Found) -> Iterator[Change]:
    """The smallest sufficient change of each kind: more devices, less load, smaller weights."""
    query = found.query
    most = devices(query.question)[1]
    for factor in _MORE:
        more = _answer(_among(query, most + 1, most * factor))
        if more is not None:
            count = int(more.found.candidates.columns["devices"][more.at].min())
            yield Change("devices", f"{count} devices instead of {most}", "", count)
            break
    for share in _LESS:
        less = _answer(demand.times(query, share))
        if less is not None:
            yield Change("load", f"{demand.words(less.found.query)} would be served", "", share)
            break
    if _in_sixteen_bits(found):
        lighter = _answer(replace(query, several={**query.several, "weights": ("fp8",)}))
        if lighter is not None:
            yield Change(
                "weights", "weights in fp8, if the quality of the outputs stays sufficient", "fp8"
            )


def _among(query: Query, least: int, most: int) -> Query:
    """The question with other devices, without prefill pools, whose number grows with the square of
    the devices.
    """
    pools = "aggregated" if "aggregated" in kinds(query.question) else query.question.pools
    q = replace(query.question, devices=(least, most), pools=pools)
    return replace(query, question=q)


def _answer(query: Query) -> _Met | None:
    """The candidates that meet the targets of a changed question; None if there are none."""
    query = replace(query, question=replace(query.question, top=1))
    try:
        found = search(query)
    except RidgelineError:
        return None
    if not found.order.size:
        return None
    if not query.question.simulate:
        return _Met(found, found.order)
    plans = shortlist(found, most=_TRIED).plans
    return _Met(found, np.array([plan.at for plan in plans])) if plans else None


def _in_sixteen_bits(found: Found) -> bool:
    """Whether weights are in 16 bits only because no other format was requested."""
    used = {bulk_format(family.resolved.model) for family in found.candidates.families}
    return not any(formats(found.query, "weights")) and used <= set(_WIDE)

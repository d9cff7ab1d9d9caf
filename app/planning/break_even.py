"""Where drafts, and separate prefill pools, stop paying off: comparison with and without,
by load.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from app.answers.table import finite
from app.planning import aggregated, demand, disaggregated
from app.planning.candidates import Candidates
from app.planning.families import Family, asking_for
from app.planning.probability import meets
from app.planning.ranking import Ranking
from app.planning.search import Found
from app.planning.shortlist import Shortlist
from app.planning.space import DEGREES
from app.planning.targets import FIGURES
from app.question.query import Query
from app.scenario.served_rows import served
from app.wording import quantities
from genz_core.errors import RidgelineError
from genz_core.types import Array

_USERS: Array = np.exp2(np.arange(11))  # open requests of a replica
_LOADS = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0)  # multiples of the requested load
_WORTH = 1.005


@dataclass(frozen=True, slots=True)
class Pays:
    """One comparison by load.

    what: the option under comparison.  unit: of the loads; figure: the compared figure, smaller is
    better.
    loads, without, with_it: one entry per load, NaN where no deployment works.  words: a sentence
    on where it stops paying off.
    """

    what: str
    unit: str
    figure: str
    loads: tuple[float, ...]
    without: tuple[float, ...]
    with_it: tuple[float, ...]
    words: str

    def rows(self) -> list[dict[str, Any]]:
        """One row per load: both figures and the ratio between them, None where there is none."""
        return [
            {"what": self.what, self.unit: load, f"{self.figure}_without": finite(one),
             f"{self.figure}_with": finite(other),
             "gain": finite(one / other) if other else None}
            for load, one, other in zip(self.loads, self.without, self.with_it, strict=True)
        ]  # fmt: skip


def pays(found: Found, short: Shortlist) -> list[Pays]:
    """The benefit of drafts and of separate prefill pools by load, for the best plan's system and
    engine.

    Drafts: on one replica of the best plan, by its open requests.  Pools: the fewest devices that
    meet the targets, by the load of the whole deployment.  Options that the question excludes are
    left out.
    """
    if not short.plans:
        return []
    at, candidates = short.plans[0].at, short.candidates
    best, row = candidates.of(at), candidates.row(at)
    alike = [family for family in candidates.families if _alike(family, best)]
    compared = [_drafts(family, row) for family in alike
                if family.speculation is not None and family.prefill is None]  # fmt: skip
    both = {family.kind: family for family in alike if family.speculation is None}
    if len(both) == 2:
        compared.append(_pools(both["aggregated"], both["disaggregated"], found))
    return compared


def _alike(family: Family, best: Family) -> bool:
    named, own = (
        (one.system.slug, one.resolved.engine.name, one.question.weights, one.question.kv)
        for one in (family, best)
    )
    same_system = family.prefill is None or family.prefill.system.slug == family.system.slug
    return named == own and not family.spill and same_system


def _drafts(family: Family, row: dict[str, float]) -> Pays:
    """TPOT of one replica with and without drafts, by its open requests."""
    assert family.plain is not None and family.speculation is not None
    arrays = {name: np.full_like(_USERS, row[name]) for name in DEGREES} | {"concurrency": _USERS}
    tpot = []
    for resolved in (family.plain, family.resolved):
        priced = served(asking_for(resolved, rate=None, concurrency=1), arrays)
        held = priced.capacity >= _USERS
        tpot.append(np.where(held, np.broadcast_to(priced.tpot_s, _USERS.shape), np.nan))
    method = family.speculation.method
    words = _stops(f"drafts ({method})", "open requests a replica", _USERS, *tpot)
    loads, without, with_it = (tuple(map(float, column)) for column in (_USERS, *tpot))
    return Pays(f"drafts ({method})", "open_requests", "tpot_s", loads, without, with_it, words)


def _pools(together: Family, apart: Family, found: Found) -> Pays:
    """The fewest devices that meet the targets, with and without a prefill pool, by load."""
    needed: dict[str, list[float]] = {"aggregated": [], "disaggregated": []}
    for share in _LOADS:
        query = demand.times(found.query, share)
        for family in (together, apart):
            needed[family.kind].append(_fewest(_under(family, query), query, found.ranking))
    question = found.query.question
    loads = demand.amount(question) * np.array(_LOADS)
    unit = "open requests" if demand.is_closed(question) else "requests/s"
    without, with_it = np.array(needed["aggregated"]), np.array(needed["disaggregated"])
    words = _pools_words(unit, loads, without, with_it)
    name = unit.replace(" ", "_").replace("/", "_per_")
    first, second, third = (tuple(map(float, column)) for column in (loads, without, with_it))
    return Pays("separate prefill pool", name, "devices", first, second, third, words)


def _under(family: Family, query: Query) -> Family:
    """A family under another load."""
    q = query.question
    load = {"concurrency": q.concurrency, "rate": q.rate}
    reading = family.prefill and asking_for(family.prefill, **load)
    return replace(family, resolved=asking_for(family.resolved, **load), prefill=reading)


def _fewest(family: Family, query: Query, ranked: Ranking) -> float:
    """The fewest devices with which a family meets the targets, NaN if it cannot."""
    of_kind = disaggregated if family.prefill is not None else aggregated
    try:
        priced: Candidates = of_kind.price(family, query)
    except RidgelineError:
        return float("nan")
    ranked = replace(ranked, by=FIGURES["devices"])
    good = ranked.feasible(priced, meets(priced, ranked.targets, query.question))
    devices = priced.columns["devices"][good]
    return float(devices.min()) if devices.size else float("nan")


def _stops(what: str, unit: str, loads: Array, without: Array, with_it: Array) -> str:
    """A sentence on the load from which an option no longer pays off."""
    gain = without / with_it
    known = np.isfinite(gain)
    better = known & (gain > _WORTH)
    if not better.any():
        return f"{what} do not pay off at any load"
    first = f"{gain[known][0]:.3g} times the speed at {loads[known][0]:g}"
    last = int(np.flatnonzero(better)[-1])
    later = np.flatnonzero(known & (np.arange(loads.size) > last))
    if not later.size:
        return f"{what} pay off at every load that fits, up to {loads[last]:g} {unit}: {first}"
    return (
        f"{what} pay off up to {loads[last]:g} {unit} ({first}, {gain[last]:.3g} there) but not at "
        f"{loads[later[0]]:g} ({gain[later[0]]:.3g})"
    )


def _pools_words(unit: str, loads: Array, without: Array, with_it: Array) -> str:
    many = np.nan_to_num(without, nan=np.inf), np.nan_to_num(with_it, nan=np.inf)
    fewer = many[1] < many[0]
    if not fewer.any():
        return (
            f"a separate prefill pool does not save devices at any load up to {loads[-1]:g} {unit}"
        )
    said: Sequence[str] = [
        f"{loads[at]:g} ({_count(with_it[at])} devices against {_count(without[at])})"
        for at in np.flatnonzero(fewer)
    ]
    return (
        f"a separate prefill pool saves devices at {', '.join(said)} {unit}, but not at the others"
    )


def _count(value: float) -> str:
    return quantities.count(value) if np.isfinite(value) else "no number of"

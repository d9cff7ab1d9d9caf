"""Candidates of an answer as points of a chart: series, frontier, plans and targets."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.decide.axes import Axis, frontier, guides
from app.planning.answer import Answer
from app.planning.candidates import Candidates
from app.planning.document import meets_targets
from app.planning.families import Family
from app.planning.plan_text import shape
from genz_core.types import Array

#: Most points of a series that a browser draws without a pause.
_MOST = 10_000
#: Most groups of families that colours tell apart, if the systems are no more.
_GROUPS = 6
_FAR = 3.0  # multiples of the largest value, beyond which a target is not drawn
#: Columns that a point's hover shows beside the axes.
FACTS = ("devices", "replicas", "tp", "pp", "dp", "ep", "max_num_seqs")


#: What is said of a candidate that meets the targets.
MEETS = "meets every target"


@dataclass(frozen=True, slots=True)
class Series:
    """Candidates of a group of families that can run, and that all meet the targets or all miss
    them.

    name, group: of the families, see `_groups`.  meets: whether they meet the targets.  at: numbers
    of the candidates.  families: name of each one's family, [points].  x, y: on the axes, [points].
    facts: `FACTS`, [points, facts].
    """

    name: str
    group: int
    meets: bool
    at: NDArray[np.intp]
    families: tuple[str, ...]
    x: Array
    y: Array
    facts: Array


@dataclass(frozen=True, slots=True)
class Vertex:
    """A point to mark: its candidate, its place, and words beside it."""

    at: int
    x: float
    y: float
    words: str


@dataclass(frozen=True, slots=True)
class Points:
    """The content of a chart of candidates.

    frontier: of all that can run.  plans: best first.  x_guides, y_guides: targets on the axes.
    left_out: number of candidates that are not drawn.  missed: what is said of a candidate that is
    not known to meet the targets, "" without targets.
    """

    x: Axis
    y: Axis
    series: tuple[Series, ...]
    frontier: tuple[Vertex, ...]
    plans: tuple[Vertex, ...]
    x_guides: tuple[tuple[float, str], ...]
    y_guides: tuple[tuple[float, str], ...]
    left_out: int = 0
    missed: str = ""


def points(answer: Answer, x: Axis, y: Axis) -> Points:
    """The candidates of an answer that can run, on two axes."""
    found, candidates = answer.found, answer.short.candidates
    across, upwards = x.values(candidates.columns), y.values(candidates.columns)
    drawn = found.ranking.sound(candidates) & np.isfinite(across) & np.isfinite(upwards)
    across = np.where(drawn, across, np.nan)
    meets = meets_targets(answer) & drawn
    unknown = found.ranking.undecided(candidates, found.probability) & drawn & ~meets
    kept = _thinned(drawn, meets)
    targets = answer.found.ranking.targets
    missed = "misses a target or is not validated" if unknown.any() else "misses a target"
    vertices = frontier(across, upwards, x, y)
    return Points(
        x, y,
        tuple(_series(candidates, kept, meets, across, upwards)),
        tuple(_vertex(candidates, int(at), across, upwards) for at in vertices),
        tuple(
            _vertex(candidates, plan.at, across, upwards)
            for plan in answer.short.plans
            if np.isfinite(across[plan.at]) and np.isfinite(upwards[plan.at])
        ),
        _near(guides(targets, x), across),
        _near(guides(targets, y), upwards),
        int(drawn.sum() - kept.sum()),
        missed if targets else "",
    )  # fmt: skip


def _near(places: Sequence[tuple[float, str]], values: Array) -> tuple[tuple[float, str], ...]:
    """The guides that do not compress the points: within a few times the largest of them."""
    finite = values[np.isfinite(values)]
    most = _FAR * float(finite.max()) if finite.size else math.inf
    return tuple((place, words) for place, words in places if place <= most)


def _thinned(drawn: NDArray[np.bool_], meets: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """At most `_MOST` of the candidates, preferring those that meet the targets."""
    if drawn.sum() <= _MOST:
        return drawn
    order = np.concatenate([np.flatnonzero(meets), np.flatnonzero(drawn & ~meets)])
    kept = np.zeros_like(drawn)
    kept[order[:_MOST]] = True
    return kept


def _series(
    candidates: Candidates,
    kept: NDArray[np.bool_],
    meets: NDArray[np.bool_],
    x: Array,
    y: Array,
) -> list[Series]:
    rows = np.stack([candidates.columns[name] for name in FACTS], axis=1)
    drawn = np.unique(candidates.family[kept]).tolist()
    named = np.array([str(family) for family in candidates.families], dtype=object)
    found = []
    for group, (name, members) in enumerate(_groups(candidates.families, drawn).items()):
        mine = kept & np.isin(candidates.family, members)
        for good in (True, False):
            at = np.flatnonzero(mine & (meets == good))
            if at.size:
                names = tuple(named[candidates.family[at]].tolist())
                found.append(Series(name, group, good, at, names, x[at], y[at], rows[at]))
    return found


def _groups(families: Sequence[Family], drawn: Sequence[int]) -> dict[str, list[int]]:
    """Families that share a colour, by a name of the words that tell the groups apart.

    A group has the first words of its families' names in common: all of them, or fewer if there
    would be more than `_GROUPS`, down to the system alone.  drawn: numbers of families.
    """
    keys = words = [families[number].words for number in drawn]
    for length in range(max(map(len, words), default=1), 0, -1):
        keys = [one[:length] for one in words]
        if len(set(keys)) <= _GROUPS:
            break
    groups: dict[str, list[int]] = {}
    for number, key in zip(drawn, keys, strict=True):
        own = [word for at, word in enumerate(key) if len({k[at : at + 1] for k in keys}) > 1]
        groups.setdefault(", ".join(own or key), []).append(number)
    return groups


def _vertex(candidates: Candidates, at: int, x: Array, y: Array) -> Vertex:
    return Vertex(at, float(x[at]), float(y[at]), shape(candidates.row(at)))

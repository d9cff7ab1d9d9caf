"""The prediction of a server under the conditions of a time window."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from app.question.parameters import PARAMETERS
from app.question.query import Query, ask
from app.question.verbs import parameters_of
from app.scenario import results
from genz_core.errors import RidgelineError

#: Latencies that are watched.
FIGURES = ("tpot_s", "ttft_s")
_OF_LOAD = ("concurrency", "rate", "isl", "osl", "prefix_hits", "burstiness", "length_ratio")
_MOST_HITS = 0.99


@dataclass(frozen=True, slots=True)
class Conditions:
    """The load of a server in a window.

    users: requests in flight, on average.  isl, osl: mean tokens.  hits: share of prompt tokens
    found in the cache.
    """

    users: float
    isl: float
    osl: float
    hits: float = 0.0

    @property
    def known(self) -> bool:
        """Whether the conditions are a load that can be priced."""
        return all(math.isfinite(v) and v > 0 for v in (self.users, self.isl, self.osl))


@dataclass(frozen=True, slots=True)
class Expectation:
    """Figures by name, NaN with the reason if there are none."""

    values: Mapping[str, float]
    why: str = ""


class Pricing:
    """A deployment under any conditions; prices are cached."""

    def __init__(self, query: Query) -> None:
        known = parameters_of("serve")
        self.given: dict[str, Any] = {
            name: query.objects.get(name, getattr(query.question, name))
            for name in PARAMETERS
            if name in query.given and name in known and name not in _OF_LOAD
        }
        self.shares = bool(query.question.shared_tokens or query.question.turns > 1)
        self._kept: dict[tuple[Conditions, float | None], Expectation] = {}

    def at(self, conditions: Conditions, step_scale: float | None = None) -> Expectation:
        """The prediction, interpolated for users between two whole numbers.

        step_scale: of steps, None for the stored or measured one.
        """
        if not conditions.known:
            return _nothing("the number of open requests or their lengths are unknown")
        rounded = Conditions(
            round(conditions.users, 1), round(conditions.isl), round(conditions.osl),
            round(min(conditions.hits, _MOST_HITS), 2),
        )  # fmt: skip
        key = rounded, step_scale
        if key not in self._kept:
            self._kept[key] = self._priced(rounded, step_scale)
        return self._kept[key]

    def _priced(self, conditions: Conditions, step_scale: float | None) -> Expectation:
        least = max(math.floor(conditions.users), 1)
        most = max(math.ceil(conditions.users), least)
        given = {
            **self.given,
            "concurrency": [least, most],
            "isl": max(int(conditions.isl), 1),
            "osl": max(int(conditions.osl), 1),
        }
        if conditions.hits and not self.shares:
            given["prefix_hits"] = conditions.hits
        if step_scale is not None:
            given["step_scale"] = step_scale
        try:
            rows = results.serve(ask("serve", given), "status").rows
        except RidgelineError as error:
            return _nothing(str(error))
        if wrong := next((row for row in rows if row["status"] != "ok"), None):
            return _nothing(f"{wrong['status']}: {wrong['message']}")
        share = (conditions.users - least) / (most - least) if most > least else 0.0
        share = min(max(share, 0.0), 1.0)
        return Expectation({name: _mixed(rows, name, share) for name in FIGURES})


def _mixed(rows: Sequence[Mapping[str, Any]], name: str, share: float) -> float:
    first, last = (float(row[name]) if row[name] is not None else math.nan for row in rows)
    return first + share * (last - first)


def _nothing(why: str) -> Expectation:
    return Expectation(dict.fromkeys(FIGURES, math.nan), why)


def mean_of(conditions: Sequence[Conditions]) -> Conditions:
    """The mean of several windows' conditions."""
    count = len(conditions)
    sums = {
        name: sum(getattr(one, name) for one in conditions) / count
        for name in ("users", "isl", "osl", "hits")
    }
    return replace(conditions[0], **sums)

"""What one replica can serve within the targets, by the closed form of `serve`."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np

from app.planning.targets import parse_targets
from app.question.question import Question
from app.scenario.drafting import drafted
from app.scenario.scenario import Resolved
from app.scenario.served_rows import as_calibrated, served
from app.simulation.closed_form import one_replica
from app.simulation.run import targets_of
from app.simulation.trace_file import Trace
from genz_core.errors import InvalidValue
from genz_core.types import Array

#: Default targets: the defaults of ttft_ms and itl_ms in Dynamo's PlannerConfig.
DEFAULT_TARGETS: Mapping[str, float] = {"ttft_target_s": 0.5, "tpot_target_s": 0.05}
_STEP = 2.0**0.25  # ratio of successive numbers of users tried, and of lengths treated as different
_MOST_USERS = 4096
_HOUR_S = 3600.0


@dataclass(frozen=True, slots=True)
class Sustained:
    """open: largest number of open requests per replica within the targets.  requests_per_s: at
    that number.  why: reason that not even one request runs, "" if one does.
    """

    open: int
    requests_per_s: float
    why: str = ""


def with_targets(question: Question) -> Question:
    """The question with limits of each request: its own and those of its targets on latencies,
    whatever their statistic, the smaller of both; without any, `DEFAULT_TARGETS`.

    Raises:
        InvalidValue: an invalid target.
    """
    limits = {f"{name[:-2]}_target_s": seconds for name, seconds in targets_of(question).items()}
    for target in parse_targets(", ".join(question.target)):
        if target.figure.latency:
            name = f"{target.figure.latency}_target_s"
            limits[name] = min(target.value, limits.get(name, math.inf))
    return replace(question, **cast(Any, limits or DEFAULT_TARGETS))


@dataclass(slots=True)
class Capacity:
    """The capacity of a replica by mean lengths of its requests, computed on first use.

    question: with targets; they apply to its mean TTFT, TPOT and E2E.
    """

    resolved: Resolved
    drawn: Trace
    draft_model: Any = ""
    _kept: dict[tuple[int, int], Sustained] = field(default_factory=dict)

    @property
    def mean(self) -> Sustained:
        """The capacity for the mean lengths of all requests.

        Raises:
            InvalidValue: a replica cannot run one request, or not within the targets.
        """
        requests = self.drawn.requests
        isl, osl = float(requests.input_tokens.mean()), float(requests.output_tokens.mean())
        found = self._at(max(round(isl), 1), max(round(osl), 1))
        if found.why:
            raise InvalidValue(found.why)
        if not found.open:
            stated = targets_of(self.resolved.scenario)
            words = ", ".join(f"{name[:-2]} < {s:g} s" for name, s in stated.items())
            raise InvalidValue(
                f"one request alone of {isl:,.0f} / {osl:,.0f} tokens misses {words}: give looser "
                "targets, or more devices per replica"
            )
        return found

    def replicas(self, arrival_s: Array) -> int:
        """Replicas needed within the targets in the busiest hour of arrivals, at least one.

        If the arrivals span less than an hour, their overall rate is used.
        """
        rate = busiest_rate(arrival_s)
        return max(math.ceil(rate / self.mean.requests_per_s), 1)

    def requests_per_s(self, isl: float, osl: float) -> float:
        """Requests/s of a replica within the targets, for mean lengths; 0 if it cannot meet them.

        Lengths within 9 % of each other share one result.
        """
        alike = [max(round(_STEP ** round(math.log(each, _STEP))), 1) for each in (isl, osl)]
        return self._at(*alike).requests_per_s

    def _at(self, isl: int, osl: int) -> Sustained:
        if (isl, osl) not in self._kept:
            self._kept[isl, osl] = self._priced(isl, osl)
        return self._kept[isl, osl]

    def _priced(self, isl: int, osl: int) -> Sustained:
        asked = self.resolved.scenario
        alone = one_replica(asked, self.drawn)
        q = replace(
            alone, rate=None, concurrency=1, lengths=None, length_spread=0.0, shared_tokens=0,
            turns=1, think_s=0.0, length_ratio=None, isl=isl, osl=osl,
        )  # fmt: skip
        resolved = drafted(as_calibrated(replace(self.resolved, scenario=q)), self.draft_model)
        users = np.unique(np.round(_STEP ** np.arange(0.0, math.log(_MOST_USERS, _STEP) + 1)))
        found = served(resolved, {"concurrency": users})
        met = found.status == "ok"
        for values, most in (
            (found.ttft_s, asked.ttft_target_s), (found.tpot_s, asked.tpot_target_s),
            (found.e2e_s, asked.e2e_target_s),
        ):  # fmt: skip
            # NaN: an answer of one token has no TPOT to miss
            met = met & (~(values > most) if most else ~np.isinf(values))
        met &= found.running >= users * 0.999  # users beyond those that run only wait
        if not met.any():
            return Sustained(0, 0.0, found.messages.get(0, ""))
        at = int(np.flatnonzero(met)[-1])
        return Sustained(int(users[at]), float(found.output_tokens_per_s[at] / osl))


def busiest_rate(arrival_s: Array) -> float:
    """Requests/s of the busiest hour, or the overall rate if the arrivals span less."""
    known = arrival_s[np.isfinite(arrival_s)]
    span = float(np.ptp(known)) if known.size else 0.0
    if span < _HOUR_S:
        return len(known) / max(span, 1.0)
    counts = np.bincount(((known - known.min()) // _HOUR_S).astype(int))
    return float(counts.max() / _HOUR_S)

"""How many replicas keep a share of requests within the targets while some replicas are lost.

Every number of replicas is simulated with the same requests.  There are two answers: the smallest
number that is enough while k replicas are always lost (N + k), and the smallest number that is
enough on average.  For the average, each replica is unavailable independently, so the number of
serving replicas is binomial, and all requests in flight on a lost replica miss the targets.
"""

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from app.answers.table import finite
from app.question.query import Query
from app.scaling import losses
from app.scaling.fleet_run import Deployed, FleetRun
from app.scaling.start import Start, start_of
from app.scenario.results import DocumentTable
from app.scenario.scenario import Resolved
from app.simulation.run import UNVALIDATED
from app.wording import quantities
from genz_core.common.progress import Cancel, Progress, never, silent
from genz_core.errors import InvalidValue
from genz_core.serving.simulation import ReplicaSetPlan
from genz_core.serving.simulation.scaling import Fixed
from genz_core.types import Array

_UNLIKELY = 1e-9  # probability below which a number of lost replicas is ignored
_HOURS_A_MONTH = 730.0
#: Requests drawn at a rate: this many per request that may miss the targets, and at least this
#: many.
_FOR_A_MISS, _LEAST = 20, 2000


@dataclass(slots=True)
class Tried:
    """Runs of the load by number of serving replicas, each simulated on first use."""

    deployed: Deployed
    open_each: int
    progress: Progress = silent
    cancelled: Cancel = never
    _runs: dict[int, FleetRun] = field(default_factory=dict)

    def run(self, replicas: int) -> FleetRun:
        if replicas not in self._runs:
            done = len(self._runs)
            self.progress(done / (done + 4.0), f"{replicas:,} replicas")
            plan = ReplicaSetPlan(Fixed(replicas), replicas, open_each=self.open_each)
            self._runs[replicas] = self.deployed.run(plan, silent, self.cancelled)
        return self._runs[replicas]

    def share(self, replicas: int) -> float:
        """Share of requests within the targets with this number of serving replicas."""
        return self.run(replicas).good_share if replicas > 0 else 0.0


@dataclass(frozen=True, eq=False)
class Available(DocumentTable):
    """The result of `availability`.

    share: requested share of requests.  lost: number of lost replicas that must be tolerated.
     gone: share of time that a replica is unavailable.  mtbf_s: of a replica.  bare: smallest
    number with none lost.  average: smallest number with random losses; None if no number up to
    `most` is enough.
    """

    tried: Tried
    share: float
    lost: int
    gone: float
    mtbf_s: float
    start: Start
    replace_s: float
    bare: int
    average: int | None
    most: int

    @cached_property
    def _document(self) -> dict[str, Any]:
        return {
            **self.tried.deployed.document(),
            "share": self.share,
            "lost": self.lost,
            "mtbf_s": finite(self.mtbf_s),
            "replace_s": self.replace_s,
            "startup_s": self.start.seconds,
            "startup": list(self.start.parts),
            "unavailable": self.gone,
            "cut_off": cut_off(self.tried, self.bare, self.mtbf_s),
            "replicas": self.bare,
            "replicas_with_lost": self.bare + self.lost,
            "replicas_on_average": self.average,
            "rows": self.rows,
            "sentences": sentences(self),
            "not_validated": UNVALIDATED,
        }

    @property
    def rows(self) -> list[dict[str, Any]]:
        """One row per number of replicas from the smallest to the answer, plus one."""
        last = max(self.bare + self.lost, self.average or 0) + 1
        rent = self.tried.deployed.rent_usd_per_hour
        made = []
        for number in range(max(self.bare - 1, 1), last + 1):
            each = self.tried.deployed.devices * number
            made.append(
                {
                    "replicas": number,
                    "devices": each,
                    "share": self.tried.share(number),
                    "share_with_lost": self.tried.share(number - self.lost),
                    "share_on_average": expected(self.tried, number, self.gone, self.mtbf_s),
                    "all_there": (1.0 - self.gone) ** number,
                    "usd_per_month": each * rent * _HOURS_A_MONTH if rent else None,
                }
            )
        return made

    def __repr__(self) -> str:
        return "\n".join(sentences(self))


def availability(
    query: Query,
    progress: Progress = silent,
    cancelled: Cancel = never,
    *,
    deployment: Resolved | None = None,
    **extras: Any,
) -> Available:
    """Find how many replicas are enough.

    extras: as declared in `app.question.extras` for "availability".  deployment: see `Deployed.of`.

    Raises:
        RidgelineError: an invalid question or load, or too few replicas allowed.
        Cancelled: `cancelled` returned True.
    """
    share, most = extras["share"] / 100.0, extras["max_replicas"]
    question = query.question
    if question.kind == "rate" and not question.requests:
        few = max(math.ceil(_FOR_A_MISS / (1.0 - share)), _LEAST)
        question = replace(question, requests=few)
    deployed = Deployed.of(question, query.objects, cancelled, by_day=False, deployment=deployment)
    q = deployed.resolved.scenario
    start = start_of(deployed.resolved, extras["weights_from"], extras["startup_s"])
    mtbf = losses.mtbf_s(q, extras["mtbf_h"])
    gone = losses.unavailable(mtbf, extras["replace_s"], start)
    tried = Tried(deployed, extras["open_each"], progress, cancelled)
    bare = _fewest(tried, share, most)
    average = None
    if 1.0 - cut_off(tried, bare, mtbf) >= share:  # requests in flight at a loss always miss
        numbers = range(bare, most + 1)
        average = next((n for n in numbers if expected(tried, n, gone, mtbf) >= share), None)
    found = Available(
        tried, share, extras["lost"], gone, mtbf, start, extras["replace_s"], bare, average, most
    )
    len(found)  # simulate all that its rows show now, while it can be cancelled
    return found


def _fewest(tried: Tried, share: float, most: int) -> int:
    """The smallest number of replicas that keeps the share with none lost.

    The search starts at the number from the closed form and goes up or down to the limit.
    """
    number = min(tried.deployed.capacity.replicas(tried.deployed.drawn.requests.arrival_s), most)
    if tried.share(number) >= share:
        while number > 1 and tried.share(number - 1) >= share:
            number -= 1
        return number
    while number < most:
        number += 1
        if tried.share(number) >= share:
            return number
    best = quantities.percent(tried.share(number))
    raise InvalidValue(
        f"{most:,} replicas keep {best} of requests within the targets, not {share:.4%}: "
        "raise max_replicas, loosen the targets or lower the share"
    )


def cut_off(tried: Tried, replicas: int, mtbf: float) -> float:
    """Share of requests that are in flight on a replica when it is lost.

    By Little's law it is the duration of a request divided by the time between losses, for any
    number of replicas.
    """
    if math.isinf(mtbf):
        return 0.0
    e2e_s = tried.run(replicas).simulation.e2e_s
    known = e2e_s[np.isfinite(e2e_s)]
    return float(known.mean() / mtbf) if known.size else 0.0


def chances(replicas: int, gone: float) -> Array:
    """The probability that 0, 1, 2 ... of `replicas` replicas are unavailable at once."""
    from scipy.stats import binom

    return np.asarray(binom.pmf(np.arange(replicas + 1), replicas, gone))


def expected(tried: Tried, replicas: int, gone: float, mtbf: float) -> float:
    """Average share of requests within the targets, including losses."""
    mean, left = 0.0, 1.0
    for lost, chance in enumerate(chances(replicas, gone).tolist()):
        if left < _UNLIKELY:
            break
        mean += chance * tried.share(replicas - lost)
        left -= chance
    return max(mean - cut_off(tried, replicas, mtbf), 0.0)


# ------------------------------------------------------------------------------- figures


def sentences(found: Available) -> list[str]:
    """The answer in sentences."""
    deployed, share = found.tried.deployed, f"{100.0 * found.share:.6g} %"
    keeps = "keeps" if found.bare == 1 else "keep"
    lines = [
        f"{_counted(found.bare, 'replica')} of {_counted(deployed.devices, 'device')} {keeps} "
        f"{share} of requests within {deployed.targets_in_words} while all serve; "
        f"{found.bare + found.lost:,} with {found.lost:,} lost (N+{found.lost})."
    ]
    if found.average is None:
        lines.append(f"On average over losses {_why_none(found)}.")
    elif math.isfinite(found.mtbf_s):
        lines.append(
            f"On average over losses it takes {found.average:,}: a replica is lost every "
            f"{found.mtbf_s / 86400.0:,.4g} days and gone for "
            f"{quantities.seconds(found.replace_s + found.start.seconds)}, "
            f"{100.0 * found.gone:.3g} % of the time."
        )
    else:
        lines.append("No replica is lost, because failures are switched off.")
    requests = len(deployed.drawn.requests)
    lines.append(
        f"Note: simulated with {requests:,} requests, the same for each number of replicas."
    )
    said = [*deployed.drawn.notes, *deployed.resolved.notes, *deployed.unjudged(), UNVALIDATED]
    return [*lines, *(f"Note: {note}." for note in said)]


def _why_none(found: Available) -> str:
    """Why no number of replicas is enough with random losses."""
    cut = cut_off(found.tried, found.bare, found.mtbf_s)
    if 1.0 - cut < found.share:
        often = quantities.percent(cut)
        return (
            f"no number is enough: {often} of requests are in flight on a replica when it is lost"
        )
    gone = f"each is gone {100.0 * found.gone:.3g} % of the time"
    return f"{found.most:,} replicas are not enough, because {gone}: raise max_replicas"


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"

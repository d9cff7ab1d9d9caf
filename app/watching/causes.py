"""Attribution of a latency's change to causes.

ln(now / before) is a sum: the predicted effect of the load, the lengths and the cache
hits, each averaged over the orders in which the three may have changed (Shapley's value, so that
the parts add up), and an unexplained rest, which is attributed to preemptions if these rose,
otherwise to the steps.

Requests in flight are arrivals times the time of each (Little's law), so a server that slows
down has more of them without more arrivals.  The part of their number that is not due to arrivals
is therefore divided among all causes by their size, and stays with the load if there is none.
Source: Shapley, A Value for n-Person Games (1953).
"""

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from app.watching.prediction import Conditions, Pricing

LOAD, LENGTHS, HITS, PREEMPTIONS, STEPS = (
    "load", "lengths", "cache hits", "preemptions", "steps",
)  # fmt: skip
CAUSES = (LOAD, LENGTHS, HITS, PREEMPTIONS, STEPS)
_CHANGES: Mapping[str, tuple[str, ...]] = {
    LOAD: ("users",), LENGTHS: ("isl", "osl"), HITS: ("hits",),
}  # fmt: skip
#: Most that a cause may take of the requests in flight that it delayed, relative to its own part.
_FEEDBACK = 3.0
#: Additional preemptions per request from which the unexplained rest is attributed to them.
_PREEMPTED = 0.05


@dataclass(frozen=True, slots=True)
class Change:
    """A latency that left its interval.

    figure: "tpot_s" or "ttft_s".  ratio: now over before.  parts: ln of the ratio by cause.
    """

    figure: str
    ratio: float
    parts: Mapping[str, float]

    @property
    def cause(self) -> str:
        """The cause of the largest part of the change."""
        sign = math.copysign(1.0, math.log(self.ratio))
        return max(self.parts, key=lambda name: sign * self.parts[name])


def change(
    pricing: Pricing,
    figure: str,
    ratio: float,
    before: Conditions,
    now: Conditions,
    preempted: float,
    arrivals: float = math.nan,
) -> Change:
    """The change of a figure between two conditions.

    ratio: measured now over the value expected before.  preempted: additional preemptions per
    request, NaN if nothing counts them.  arrivals: of requests per second now over before, NaN if
    unknown.
    """
    parts = dict.fromkeys(CAUSES, 0.0)
    orders = list(itertools.permutations(_CHANGES))
    for order in orders:
        at = before
        for cause in order:
            then = replace(at, **{name: getattr(now, name) for name in _CHANGES[cause]})
            parts[cause] += _log(pricing, figure, at, then) / len(orders)
            at = then
    rest = math.log(ratio) - sum(parts.values())
    parts[PREEMPTIONS if preempted > _PREEMPTED and rest > 0 else STEPS] += rest
    return Change(figure, ratio, _fed_back(parts, before, now, arrivals))


def _fed_back(
    parts: dict[str, float], before: Conditions, now: Conditions, arrivals: float
) -> dict[str, float]:
    """The parts, after moving the load's part that is a consequence of the others to them."""
    grown = math.log(now.users / before.users)
    if not arrivals > 0 or abs(grown) < 1e-9:
        return parts
    sent = min(max(math.log(arrivals) / grown, 0.0), 1.0) * parts[LOAD]
    rest = parts[LOAD] - sent
    sign = math.copysign(1.0, rest)
    alike = {name: part for name, part in parts.items() if name != LOAD and sign * part > 0}
    whole = sum(alike.values()) + (sent if sign * sent > 0 else 0.0)
    if not alike or whole == 0.0:
        return parts
    given = {
        name: sign * min(abs(rest * part / whole), _FEEDBACK * abs(part))
        for name, part in alike.items()
    }
    return {
        name: part - sum(given.values()) if name == LOAD else part + given.get(name, 0.0)
        for name, part in parts.items()
    }


def _log(pricing: Pricing, figure: str, before: Conditions, now: Conditions) -> float:
    """ln of the predicted change, 0 if one of the two cannot be priced."""
    one, other = (pricing.at(each).values[figure] for each in (before, now))
    both = math.isfinite(one) and math.isfinite(other) and one > 0 and other > 0
    return math.log(other / one) if both else 0.0

"""The load of a measured run, as the closed form and the simulation use it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.question.load import Load
from app.wording import quantities
from profilers.serving_results import ServingMeasurement

#: Clients that send all requests at once by default, without recording that they did.
_ALL_AT_ONCE = ("vllm bench serve", "sglang.bench_serving", "serving benchmark console")
#: A closed loop counts as full where this share of its users is served on average.
_FULL = 0.8


@dataclass(frozen=True, kw_only=True)
class RunLoad(Load):
    """The load that was sent, in the terms of a question.

    isl, osl: nominal, in whole tokens, 0 where unknown: the longest where lengths have a
    `length_ratio`, otherwise their mean.
    mean_isl, mean_osl: what was served, in tokens, 0 where unknown.
    longest: prompt and answer [tokens] that the file or the user states as the longest, 0 where
    neither does.
    concurrency: users of a closed loop, or sequences of a batch; 0 for a rate.
    requests: of the whole run, 0 where unknown.  context: tokens cached before.
    why: reason for choosing concurrency or rate, in words; inferred: the file states it only
    indirectly.
    """

    mean_isl: float = 0.0
    mean_osl: float = 0.0
    longest: tuple[float, float] = (0.0, 0.0)
    context: float = 0.0
    why: str = ""
    inferred: bool = False

    @property
    def users(self) -> float:
        """`concurrency`, 0 for a rate and where unknown."""
        return self.concurrency or 0.0

    @property
    def known(self) -> bool:
        return bool(self.users or self.rate)

    @property
    def waves(self) -> float:
        """Requests per user of a closed loop whose users start together; 0: unknown."""
        return max((self.requests or 0) / self.users, 1.0) if self.users and self.requests else 0.0

    @property
    def words(self) -> str:
        """ "concurrency 8, 1,024/128 tokens"."""
        if self.rate:
            return f"{quantities.request_rate(self.rate)}, {self.length_words}"
        return f"concurrency {self.users:g}, {self.length_words}"

    @property
    def length_words(self) -> str:
        """Mean lengths that were served, and their range where it is stated: "509/534 tokens (1/1
        to 1,024/1,024)".
        """
        mean = f"{_pair(self.mean_isl, self.mean_osl)} tokens"
        if self.length_ratio is None or self.length_ratio == 1.0 or not all(self.longest):
            return mean
        shortest = (max(one * self.length_ratio, 1.0) for one in self.longest)
        return f"{mean} ({_pair(*shortest)} to {_pair(*self.longest)})"

    def document(self) -> dict[str, Any]:
        """The load as `ridgeline compare --json` prints it."""
        return {name: getattr(self, name) for name in _STATED}


def _pair(isl: float, osl: float) -> str:
    """Lengths of a prompt and of its answer, or the known one of them."""
    return f"{isl:,.0f}/{osl:,.0f}" if isl and osl else f"{isl or osl:,.0f}"


#: Fields of a load's document.
_STATED = (
    "concurrency", "rate", "burstiness", "waves", "isl", "osl", "length_ratio", "mean_isl",
    "mean_osl", "context", "requests", "why",
)  # fmt: skip


def load_of(measurement: ServingMeasurement, given: Mapping[str, Any]) -> RunLoad:
    """The load of a result, unless the user states another one.

    given: some of concurrency, rate, isl, osl and length_ratio.
    """
    ratio = _length_ratio(measurement, given)
    over_mean = 1.0 if ratio is None else 2.0 / (1.0 + ratio)
    isl, osl = (_nominal(measurement, given, name, over_mean) for name in ("isl", "osl"))
    load = {"concurrency": 0.0, "rate": 0.0, **_kind(measurement, given)}
    return RunLoad(
        **load,
        isl=round(isl),
        osl=round(osl),
        length_ratio=ratio,
        mean_isl=isl / over_mean,
        mean_osl=osl / over_mean,
        longest=_longest(measurement, given),
        requests=measurement.load.completed or measurement.load.requests or 0,
        context=measurement.lengths.context or 0.0,
    )


def parameters(measurement: ServingMeasurement, load: RunLoad) -> dict[str, Any]:
    """The parameters of a question with the load of a run."""
    sizes = {
        "isl": max(round(load.isl), 1),
        "osl": max(round(load.osl), 1),
        "length_ratio": load.length_ratio,
        "concurrency": None,
        "rate": None,
    }
    users = max(round(load.users), 1)
    if measurement.phase or not load.known:
        return {**sizes, "batch": users, "length_ratio": None}
    if load.rate:
        return {**sizes, "rate": load.rate, "burstiness": min(max(load.burstiness, 1e-3), 1e6)}
    burst = {"burst_start": True, "requests": load.requests} if load.requests else {}
    return {**sizes, "concurrency": users, **burst}


def _kind(measurement: ServingMeasurement, given: Mapping[str, Any]) -> dict[str, Any]:
    """Concurrency or rate, and the reason; empty where neither is known."""
    for name in ("concurrency", "rate"):
        if given.get(name):
            return {name: float(given[name]), "why": "as it was given"}
    if measurement.phase:
        return {"concurrency": measurement.load.concurrency or 1.0, "why": "the batch of the file"}
    load = measurement.load
    rate, users = load.rate or 0.0, load.concurrency or 0.0
    if load.rate is None and not users and measurement.format in _ALL_AT_ONCE:
        rate = math.inf
    arrivals = {"rate": rate, "burstiness": load.burstiness or 1.0}
    if 0 < rate < math.inf and users and _is_full(measurement, users):
        words = f"the limit of {users:g} open requests throttled the rate of {rate:g}/s"
        return {"concurrency": users, "why": words, "inferred": True}
    if 0 < rate < math.inf:
        return {**arrivals, "why": "the request rate of the file"}
    requests = load.requests or load.completed
    if users and requests and requests <= users:
        words = f"all {requests:,} requests open at once, under a limit of {users:g}"
        return {"concurrency": float(requests), "why": words}
    if users:
        return {"concurrency": users, "why": "the concurrency of the file"}
    if rate == math.inf and requests:
        return {"concurrency": float(requests), "why": f"all {requests:,} requests sent at once"}
    if load.rate_achieved:
        words = "the rate that the file says was reached"
        return {"rate": load.rate_achieved, "why": words, "inferred": True}
    if load.concurrency_mean:
        words = "the mean of open requests in the file, taken as the users of a closed loop"
        return {"concurrency": max(load.concurrency_mean, 1.0), "why": words, "inferred": True}
    return {}


def _is_full(measurement: ServingMeasurement, users: float) -> bool:
    """Whether a limit of open requests, not the rate, determined the load.

    Judged by the mean of open requests, or by Little's law (requests per second x mean time of
    one).
    """
    open_requests = measurement.load.concurrency_mean
    rate, each = measurement.throughput.requests_per_s, measurement.e2e_s.typical
    if each is None and measurement.ttft_s.typical and measurement.decode_tpot_s.typical:
        osl = measurement.lengths.osl.typical or 1.0
        each = measurement.ttft_s.typical + measurement.decode_tpot_s.typical * (osl - 1.0)
    if open_requests is None and rate and each:
        open_requests = rate * each
    return open_requests is None or open_requests >= _FULL * users


def _longest(measurement: ServingMeasurement, given: Mapping[str, Any]) -> tuple[float, float]:
    """The stated prompt and answer of a run whose lengths vary below them, 0 where not stated."""
    asked = measurement.lengths
    return given.get("isl") or asked.isl_asked or 0.0, given.get("osl") or asked.osl_asked or 0.0


def _length_ratio(measurement: ServingMeasurement, given: Mapping[str, Any]) -> float | None:
    """Shortest over longest length, None where it is unknown."""
    lengths = measurement.lengths
    asked = (lengths.isl_asked, lengths.osl_asked)
    ratio: float | None = given.get("length_ratio")
    if ratio is None and lengths.length_ratio is not None and all(asked):
        least = 1.0 / max(*(side or 1.0 for side in asked), 2.0)
        ratio = min(max(lengths.length_ratio, least), 1.0)
    return ratio


def _nominal(
    measurement: ServingMeasurement, given: Mapping[str, Any], name: str, over_mean: float
) -> float:
    """ISL or OSL that a question asks for, 0 where it is unknown.

    Of a file with the counted lengths, it is the one whose mean was served.  over_mean: nominal
    over mean length.
    """
    lengths = measurement.lengths
    counted = {"isl": lengths.isl, "osl": lengths.osl}[name].typical
    asked = {"isl": lengths.isl_asked, "osl": lengths.osl_asked}[name]
    nominal = counted * over_mean if counted else asked
    return float(given.get(name) or nominal or 0.0)

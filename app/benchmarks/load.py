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

    isl, osl: nominal, in whole tokens, 0 where unknown; without a `length_ratio`, lengths varied
    around them.  concurrency: users of a closed loop, or sequences of a batch; 0 for a rate.
    requests: of the whole run, 0 where unknown.  context: tokens cached before.
    why: reason for choosing concurrency or rate, in words; inferred: the file states it only
    indirectly.
    """

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
        """ "concurrency 8, 1024/128 tokens"."""
        lengths = f"{self.isl:,.0f}/{self.osl:,.0f} tokens"
        if not self.isl or not self.osl:
            lengths = f"{self.isl or self.osl:,.0f} tokens"
        if self.rate:
            return f"{quantities.request_rate(self.rate)}, {lengths}"
        return f"concurrency {self.users:g}, {lengths}"

    @property
    def mean_isl(self) -> float:
        return self.isl * self._mean

    @property
    def mean_osl(self) -> float:
        return self.osl * self._mean

    @property
    def _mean(self) -> float:
        """Mean length over nominal length."""
        return 1.0 if self.length_ratio is None else (1.0 + self.length_ratio) / 2.0

    def document(self) -> dict[str, Any]:
        """The load as `ridgeline compare --json` prints it."""
        return {name: getattr(self, name) for name in _STATED}


#: Fields of a load's document.
_STATED = (
    "concurrency", "rate", "burstiness", "waves", "isl", "osl", "length_ratio", "context",
    "requests", "why",
)  # fmt: skip


def load_of(measurement: ServingMeasurement, given: Mapping[str, Any]) -> RunLoad:
    """The load of a result, unless the user states another one.

    given: some of concurrency, rate, isl, osl and length_ratio.
    """
    isl, osl, ratio = _lengths(measurement, given)
    load = {"concurrency": 0.0, "rate": 0.0, **_kind(measurement, given)}
    return RunLoad(
        **load,
        isl=isl,
        osl=osl,
        length_ratio=ratio,
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


def _lengths(
    measurement: ServingMeasurement, given: Mapping[str, Any]
) -> tuple[int, int, float | None]:
    """Nominal ISL and OSL, and the length ratio; 0 for an unknown length, None for an unknown
    ratio.

    Nominal lengths are those whose mean the run had, where the file states both.
    """
    lengths = measurement.lengths
    asked = {"isl": lengths.isl_asked, "osl": lengths.osl_asked}
    real = {"isl": lengths.isl.typical, "osl": lengths.osl.typical}
    ratio: float | None = given.get("length_ratio")
    if ratio is None and lengths.length_ratio is not None and all(asked.values()):
        least = 1.0 / max(*(side or 1.0 for side in asked.values()), 2.0)
        ratio = min(max(lengths.length_ratio, least), 1.0)
    sides = {}
    for name in ("isl", "osl"):
        mean = real[name]
        nominal = mean * 2.0 / (1.0 + (1.0 if ratio is None else ratio)) if mean else asked[name]
        sides[name] = round(given.get(name) or nominal or 0.0)
    return sides["isl"], sides["osl"], ratio

"""The load of a measured run, as the closed form and the simulation take it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from profilers.serving_results import ServingMeasurement

#: A closed loop is full where this share of its users is served on average.
_FULL = 0.8


@dataclass(frozen=True, slots=True)
class Load:
    """What was sent.

    concurrency: users of a closed loop, or sequences of a batch.  rate: arrivals per second; one of
    the two is 0.  waves: requests of a user, all users starting together.  isl, osl: nominal;
    whole tokens; lengths were uniform in [length_ratio, 1] of them, or where nothing tells the
    ratio about them.  context: tokens cached before.
    requests: of the whole run, 0 where it is not known.
    why: what the choice rests on, in words.
    """

    concurrency: float = 0.0
    rate: float = 0.0
    burstiness: float = 1.0
    waves: float = 0.0
    isl: float = 0.0
    osl: float = 0.0
    length_ratio: float | None = None
    context: float = 0.0
    requests: int = 0
    why: str = ""

    @property
    def known(self) -> bool:
        return self.concurrency > 0 or self.rate > 0

    @property
    def words(self) -> str:
        """ "concurrency 8, 1024/128 tokens"."""
        lengths = f"{self.isl:,.0f}/{self.osl:,.0f} tokens"
        if not self.isl or not self.osl:
            lengths = f"{self.isl or self.osl:,.0f} tokens"
        if self.rate:
            return f"{self.rate:g} requests/s, {lengths}"
        return f"concurrency {self.concurrency:g}, {lengths}"

    @property
    def mean_isl(self) -> float:
        return self.isl * self._mean

    @property
    def mean_osl(self) -> float:
        return self.osl * self._mean

    @property
    def _mean(self) -> float:
        """Mean over nominal length."""
        return 1.0 if self.length_ratio is None else (1.0 + self.length_ratio) / 2.0


def load_of(measurement: ServingMeasurement, given: Mapping[str, Any]) -> Load:
    """The load of a result, where the user does not say otherwise.

    given: some of concurrency, rate, isl, osl and length_ratio.
    """
    kind = _kind(measurement, given)
    isl, osl, ratio = _lengths(measurement, given)
    requests = measurement.load.completed or measurement.load.requests or 0
    users = kind.get("concurrency", 0.0)
    return Load(
        **kind,
        waves=max(requests / users, 1.0) if users and requests else 0.0,
        isl=isl,
        osl=osl,
        length_ratio=ratio,
        context=measurement.lengths.context or 0.0,
        requests=requests,
    )


def _kind(measurement: ServingMeasurement, given: Mapping[str, Any]) -> dict[str, Any]:
    """Concurrency or rate, and what says so; empty where nothing does."""
    for name in ("concurrency", "rate"):
        if given.get(name):
            return {name: float(given[name]), "why": "as it was given"}
    if measurement.phase:
        return {"concurrency": measurement.load.concurrency or 1.0, "why": "the batch of the file"}
    load = measurement.load
    rate, users = load.rate or 0.0, load.concurrency or 0.0
    arrivals = {"rate": rate, "burstiness": load.burstiness or 1.0}
    if 0 < rate < math.inf and users and _is_full(measurement, users):
        words = f"the rate of {rate:g}/s was held back to {users:g} open requests, which were full"
        return {"concurrency": users, "why": words}
    if 0 < rate < math.inf:
        return {**arrivals, "why": "the request rate of the file"}
    if users:
        return {"concurrency": users, "why": "the concurrency of the file"}
    requests = load.requests or load.completed
    if rate == math.inf and requests:
        return {"concurrency": float(requests), "why": f"all {requests:,} requests sent at once"}
    if load.rate_achieved:
        return {"rate": load.rate_achieved, "why": "the rate that the file says was reached"}
    if load.concurrency_mean:
        words = "the mean of open requests in the file, taken for a closed loop of so many users"
        return {"concurrency": max(load.concurrency_mean, 1.0), "why": words}
    return {}


def _is_full(measurement: ServingMeasurement, users: float) -> bool:
    """Whether a limit of open requests, not the rate, decided: by the mean of open requests, or
    by Little's law (requests per second x mean time of one)."""
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
) -> tuple[float, float, float | None]:
    """Nominal ISL and OSL, and the length ratio; 0 for a length, None for a ratio that nothing
    tells.

    Nominal lengths are those whose mean the run had, where it tells both.
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
        sides[name] = float(round(given.get(name) or nominal or 0.0))
    return sides["isl"], sides["osl"], ratio

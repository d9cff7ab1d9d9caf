"""What a deployment has to serve: open requests, an arrival rate or a trace, and lengths."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from app.scenario.request_shape import PLAIN, RequestShape
from app.simulation.trace_file import Trace
from genz_core.errors import InvalidValue
from genz_core.limits import checked_size
from genz_core.serving.sharing import Sharing

_MOST_RATE = 1e9


@dataclass(frozen=True, slots=True)
class Demand:
    """Load on the whole deployment.

    concurrency: open requests, or rate: arrivals per second; one of them.  isl, osl: tokens,
    uniform in [length_ratio, 1] of them.  trace: requests that rate and lengths are the means of;
    what is simulated then.  shape: what requests share.

    Raises:
        InvalidValue: neither or both of concurrency and rate, or a number outside of its range.
    """

    concurrency: int = 0
    rate: float = 0.0
    isl: int = 1024
    osl: int = 256
    length_ratio: float = 1.0
    trace: Trace | None = None
    shape: RequestShape = PLAIN

    def __post_init__(self) -> None:
        if bool(self.concurrency) == bool(self.rate):
            raise InvalidValue("give a rate, a concurrency or a trace, one of them")
        if self.concurrency:
            checked_size("concurrency", self.concurrency)
        elif not 0.0 < self.rate <= _MOST_RATE:
            raise InvalidValue(
                f"rate = {self.rate:g}: give requests per second above 0, up to {_MOST_RATE:g}"
            )
        for name in ("isl", "osl"):
            checked_size(name, getattr(self, name))
        if not 0.0 < self.length_ratio <= 1.0:
            raise InvalidValue(f"length_ratio = {self.length_ratio:g} is not between 0 and 1")
        if self.trace and self.shape:
            raise InvalidValue("a trace has prompts of its own: leave out what requests share")

    @classmethod
    def of_trace(cls, trace: Trace) -> Demand:
        """The mean rate and lengths of a trace, which the closed form is asked with.

        Raises:
            InvalidValue: fewer than two requests, or all at one moment.
        """
        requests = trace.requests
        arrival = np.asarray(requests.arrival_s, dtype=float)
        lasting = float(np.ptp(arrival)) if len(arrival) > 1 else 0.0
        if lasting <= 0.0:
            raise InvalidValue(
                "the trace has no two requests apart in time: give --concurrency in its place"
            )
        return cls(
            rate=(len(arrival) - 1) / lasting,
            isl=max(round(float(np.mean(requests.input_tokens))), 1),
            osl=max(round(float(np.mean(requests.output_tokens))), 1),
            trace=trace,
        )

    @property
    def prompt(self) -> tuple[float, Sharing]:
        """Mean prompt of nominal lengths, and what its requests share, as the closed form asks."""
        return self.shape.nominal(self.isl, self.osl, self.length_ratio)

    @property
    def mean_isl(self) -> float:
        """Mean prompt of a request, what is found in the cache included."""
        return max(round(self.prompt[0] * (1.0 + self.length_ratio) / 2.0), 1.0)

    @property
    def sharing(self) -> Sharing:
        """What its requests share at their mean lengths."""
        return self.prompt[1].scaled((1.0 + self.length_ratio) / 2.0, self.mean_isl)

    @property
    def cached(self) -> float:
        """Mean tokens of a prompt that need not be read."""
        return float(np.asarray(self.sharing.cached_tokens))

    @property
    def wanted_tokens(self) -> float:
        """Mean output tokens that a user gets of a request."""
        return self.mean_osl * self.shape.samples

    @property
    def closed(self) -> bool:
        """Whether users send their next request when the last one completes."""
        return bool(self.concurrency)

    @property
    def mean_osl(self) -> float:
        """Mean output tokens of a request, as the closed form rounds them."""
        return max(round(self.osl * (1.0 + self.length_ratio) / 2.0), 1.0)

    def times(self, factor: float) -> Demand:
        """The same requests, `factor` times as many of them."""
        if self.closed:
            return replace(self, concurrency=max(int(self.concurrency * factor), 1))
        return replace(self, rate=self.rate * factor, trace=None)

    def __str__(self) -> str:
        load = (
            f"{self.concurrency:,} open requests"
            if self.closed
            else f"{self.rate:.4g} requests/s{' of a trace' if self.trace else ''}"
        )
        said = [load, f"{self.isl:,} tokens in, {self.osl:,} out", *self.shape.words]
        return ", ".join(said)

"""The load on an endpoint: a number of users, or a number of requests a second."""

from __future__ import annotations

import math
from dataclasses import dataclass

from genz_core.errors import InvalidValue
from profilers.collect.serving.closed_loop import PER_USER

#: Seconds for which requests arrive at a rate, unless their number is given.
_SECONDS, _LEAST_REQUESTS = 30.0, 20
_MOST_RATE, _MOST_REQUESTS = 1000.0, 100_000


@dataclass(frozen=True, slots=True)
class EndpointLoad:
    """A load.

    concurrency: users, each sending its next request when the last is answered; 0 for a rate.
    rate: requests/s, their gaps exponential (Poisson arrivals); 0 for users.
    requests: total number; 0 for ten a user, or for 30 seconds at the rate.
    isl, osl: tokens of each request.  seed: seed of the arrival times.
    """

    concurrency: int = 0
    rate: float = 0.0
    requests: int = 0
    isl: int = 128
    osl: int = 64
    seed: int = 0

    def __post_init__(self) -> None:
        if (self.concurrency > 0) == (self.rate > 0):
            raise InvalidValue("give either a concurrency or a rate, and not both")
        bounds = {
            "concurrency": (0, 1024), "requests": (0, _MOST_REQUESTS), "isl": (1, 1_000_000),
            "osl": (1, 1_000_000), "seed": (0, 2**31 - 1),
        }  # fmt: skip
        for name, (least, most) in bounds.items():
            value = getattr(self, name)
            if not least <= value <= most:
                raise InvalidValue(f"{name} = {value:,}: give a whole number, {least} to {most:,}")
        if not 0 <= self.rate <= _MOST_RATE:
            raise InvalidValue(f"rate = {self.rate:g}: give at most {_MOST_RATE:g} requests/s")
        if self.requests and self.requests < self.concurrency:
            raise InvalidValue(f"{self.requests} requests are too few for {self.concurrency} users")

    @property
    def count(self) -> int:
        """Requests of the run."""
        if self.requests:
            return self.requests
        if self.concurrency:
            return self.concurrency * PER_USER
        return min(max(math.ceil(self.rate * _SECONDS), _LEAST_REQUESTS), _MOST_REQUESTS)

"""What every autoscaler sees and decides."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, Protocol, get_args

Metric = Literal["open", "waiting", "kv_use"]
#: What an autoscaler may look at: open requests, those of them that wait, and use of the KV cache.
METRICS: tuple[Metric, ...] = get_args(Metric)


@dataclass(frozen=True, slots=True)
class Observed:
    """What a controller sees when it looks.

    replicas: that should be there: starting or serving.  ready: of them, those that serve.
    open: requests that have no answer yet, those that no replica has taken too.  waiting: of them,
    those that no engine has begun to read.  held: of these, those that no replica has taken.
    kv_use: mean share of the cache of a ready replica.
    arrived: requests since the last look, `seconds` ago; isl, osl: their mean lengths.
    """

    now_s: float
    replicas: int
    ready: int
    open: int = 0
    waiting: int = 0
    held: int = 0
    kv_use: float = 0.0
    arrived: int = 0
    seconds: float = 0.0
    isl: float = 0.0
    osl: float = 0.0

    def total(self, metric: Metric) -> float:
        """A metric of the whole deployment, with the requests that no replica has taken."""
        if metric == "kv_use":
            return self.kv_use * self.ready
        return float(self.open if metric == "open" else self.waiting)

    def of_replicas(self, metric: Metric) -> float:
        """A metric summed over the replicas, which do not know of requests that none has taken."""
        return self.total(metric) - (0.0 if metric == "kv_use" else self.held)


class Policy(Protocol):
    """An autoscaler; it may remember what it saw.

    interval_s: between two looks, `math.inf` for none.
    """

    @property
    def interval_s(self) -> float: ...

    def wanted(self, seen: Observed) -> int:
        """Replicas that should be there from now on."""
        ...


@dataclass(frozen=True, slots=True)
class Fixed:
    """Always the same number."""

    replicas: int
    interval_s: float = math.inf

    def wanted(self, seen: Observed) -> int:
        return self.replicas

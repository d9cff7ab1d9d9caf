"""What every autoscaler observes and decides."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, Protocol, get_args

Metric = Literal["open", "waiting", "kv_use"]
#: Metrics of an autoscaler: open requests, waiting requests, and use of the KV cache.
METRICS: tuple[Metric, ...] = get_args(Metric)


@dataclass(frozen=True, slots=True)
class Observed:
    """What a controller observes at a look.

    replicas: starting or serving.  ready: of these, serving.
    open: requests without a complete answer, including those that no replica has taken.  waiting:
    of these, requests not yet prefilling.  held: of these, requests that no replica has taken.
    kv_use: mean share of the cache in use on ready replicas.
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
        """A metric of the whole deployment, including requests that no replica has taken."""
        if metric == "kv_use":
            return self.kv_use * self.ready
        return float(self.open if metric == "open" else self.waiting)

    def of_replicas(self, metric: Metric) -> float:
        """A metric summed over the replicas, which excludes requests that no replica has taken."""
        return self.total(metric) - (0.0 if metric == "kv_use" else self.held)


class Policy(Protocol):
    """An autoscaler; it may keep a history.

    interval_s: between two looks, `math.inf` for none.
    """

    @property
    def interval_s(self) -> float: ...

    def wanted(self, seen: Observed) -> int:
        """Number of replicas that should exist from now on."""
        ...


@dataclass(frozen=True, slots=True)
class Fixed:
    """Always the same number."""

    replicas: int
    interval_s: float = math.inf

    def wanted(self, seen: Observed) -> int:
        return self.replicas

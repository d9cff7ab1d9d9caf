"""Counters of requests, in Prometheus' text format."""

import time
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MEDIA_TYPE = "text/plain; version=0.0.4"
_SECONDS = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


@dataclass(eq=False)
class Metrics:
    """The counters of one application."""

    registry: CollectorRegistry = field(default_factory=CollectorRegistry)

    def __post_init__(self) -> None:
        self.requests = Counter(
            "ridgeline_requests", "Requests by verb and status.", ("verb", "status"),
            registry=self.registry,
        )  # fmt: skip
        self.refusals = Counter(
            "ridgeline_refusals", "Rejected requests, by reason.", ("code",), registry=self.registry
        )
        self.kept = Counter(
            "ridgeline_kept_answers",
            "Answers served from the cache.",
            ("verb",),
            registry=self.registry,
        )
        self.seconds = Histogram(
            "ridgeline_request_seconds", "Response time.", ("verb",), buckets=_SECONDS,
            registry=self.registry,
        )  # fmt: skip
        self.under_way = Gauge(
            "ridgeline_requests_under_way", "Requests in progress.",
            registry=self.registry,
        )  # fmt: skip

        self.sessions = Gauge(
            "ridgeline_sessions", "Open dashboard sessions.", registry=self.registry
        )
        self.jobs = Gauge(
            "ridgeline_jobs", "Running and waiting dashboard jobs.", registry=self.registry
        )

    def text(self) -> bytes:
        """All counters, in the text format."""
        return generate_latest(self.registry)


@dataclass(frozen=True, slots=True)
class Counting:
    """Counts requests and their time by verb."""

    app: ASGIApp
    metrics: Metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, status = time.perf_counter(), "500"

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = str(message["status"])
            await send(message)

        try:
            with self.metrics.under_way.track_inprogress():
                await self.app(scope, receive, noting)
        finally:
            path = getattr(scope.get("route"), "path", "other")
            verb = path.split("{")[0].strip("/")
            self.metrics.requests.labels(verb, status).inc()
            self.metrics.seconds.labels(verb).observe(time.perf_counter() - began)

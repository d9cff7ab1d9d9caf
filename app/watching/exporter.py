"""The gauges of a watch for Prometheus: predicted, measured, their ratio, the drift."""

import importlib.util
from collections.abc import Mapping
from typing import Any

from app.watching.causes import CAUSES
from app.watching.watch import Watcher
from genz_core.common.installation import pip_install
from genz_core.errors import InvalidValue, MeasurementError

#: Gauges by name with their description, each with a label "figure" (ttft, tpot).
GAUGES: Mapping[str, str] = {
    "ridgeline_watch_predicted_seconds": "Expected latency now, including the learned correction.",
    "ridgeline_watch_measured_seconds": "Latency measured in the latest window.",
    "ridgeline_watch_ratio": "Measured over expected.",
    "ridgeline_watch_drift": "Measured over predicted, as learned by the watch.",
}
UP, ALARMS = "ridgeline_watch_page_up", "ridgeline_watch_alarms"
_KEYS = ("predicted", "measured", "ratio", "drift")


class Exporter:
    """Answers Prometheus on a port of this machine while it lives.

    Raises:
        MeasurementError: prometheus-client is missing.  InvalidValue: the port is taken.
    """

    def __init__(self, port: int) -> None:
        if importlib.util.find_spec("prometheus_client") is None:
            raise MeasurementError(
                f"the exporter needs prometheus-client; run: {pip_install('prometheus-client')}"
            )
        from prometheus_client import CollectorRegistry, Counter, Gauge, start_http_server

        self.registry = CollectorRegistry()
        self._gauges: dict[str, Any] = {
            name: Gauge(name, said, ("figure",), registry=self.registry)
            for name, said in GAUGES.items()
        }
        self._up = Gauge(UP, "Whether the metrics page can be reached.", registry=self.registry)
        self._alarms = Counter(
            ALARMS,
            "Number of times outside the interval, by cause.",
            ("cause",),
            registry=self.registry,
        )
        for cause in CAUSES:
            self._alarms.labels(cause)
        self._told = 0
        try:
            self._server, self._thread = start_http_server(
                port, "127.0.0.1", registry=self.registry
            )
        except OSError as error:
            raise InvalidValue(
                f"port {port} cannot be opened ({error.strerror}): give another with --export"
            ) from None

    def show(self, watcher: Watcher) -> None:
        """Export a watcher's figures; those that the latest window lacks are NaN."""
        self._up.set(float(watcher.up))
        for figure, values in watcher.state().items():
            for name, key in zip(GAUGES, _KEYS, strict=True):
                self._gauges[name].labels(figure.removesuffix("_s")).set(values[key])
        for event in watcher.events[self._told :]:
            if event.change is not None:
                self._alarms.labels(event.change.cause).inc()
        self._told = len(watcher.events)

    @property
    def port(self) -> int:
        return int(self._server.server_port)

    def close(self) -> None:
        """Stop answering."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

"""A Grafana dashboard of the gauges of a watch, as JSON to import.

Source of the model: grafana.com, "Dashboard JSON model"; schema 39 (Grafana 11).
"""

from typing import Any

from app.watching.exporter import ALARMS, GAUGES, UP

_WIDTH, _HEIGHT = 12, 8
_SOURCE = {"type": "prometheus", "uid": "${source}"}


def dashboard() -> dict[str, Any]:
    """The dashboard: latencies with their expected values, their ratio and drift, alarms,
    the page.
    """
    predicted, measured, ratio, drift = GAUGES
    panels = [
        _panel(f"{name.upper()}: measured and expected", "s",
               {f'{measured}{{figure="{name}"}}': "measured",
                f'{predicted}{{figure="{name}"}}': "expected"})
        for name in ("tpot", "ttft")
    ]  # fmt: skip
    panels += [
        _panel("Measured over expected", "none", {ratio: "{{figure}}"}),
        _panel("Drift: measured over predicted", "none", {drift: "{{figure}}"}),
        _panel("Alarms of the last hour, by cause", "none",
               {f"increase({ALARMS}_total[1h])": "{{cause}}"}),
        _panel("Metrics page reachable", "none", {UP: "up"}),
    ]  # fmt: skip
    for at, panel in enumerate(panels):
        panel["id"] = at + 1
        panel["gridPos"] = {
            "x": at % 2 * _WIDTH, "y": at // 2 * _HEIGHT, "w": _WIDTH, "h": _HEIGHT,
        }  # fmt: skip
    return {
        "title": "Ridgeline: live server and prediction",
        "uid": "ridgeline-watch",
        "schemaVersion": 39,
        "tags": ["ridgeline"],
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {
            "list": [{"name": "source", "type": "datasource", "query": "prometheus",
                      "label": "Prometheus"}]
        },
        "panels": panels,
    }  # fmt: skip


def _panel(title: str, unit: str, queries: dict[str, str]) -> dict[str, Any]:
    return {
        "type": "timeseries",
        "title": title,
        "datasource": _SOURCE,
        "fieldConfig": {"defaults": {"unit": unit}, "overrides": []},
        "targets": [
            {"datasource": _SOURCE, "expr": expr, "legendFormat": legend, "refId": chr(65 + at)}
            for at, (expr, legend) in enumerate(queries.items())
        ],
    }

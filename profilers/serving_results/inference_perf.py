"""Reports of Kubernetes' inference-perf: the lifecycle report of a stage or a run, and its
requests.

Sources: kubernetes-sigs/inference-perf, inference_perf/reportgen/base.py at 010d12f (2026;
`summarize_requests`, `compute_request_latency_metrics`, `summarize_prometheus_metrics`) and 7de5ef2
(2025).  All times are in seconds.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from profilers.serving_results import fields
from profilers.serving_results.documents import Content
from profilers.serving_results.fields import Document
from profilers.serving_results.measurement import (
    Lengths,
    MeasuredLoad,
    Percentiles,
    ServingMeasurement,
    Subject,
    Throughput,
)
from profilers.serving_results.request_rows import Request, RequestRows
from profilers.serving_results.spreads import spread

NAME, SERVER, REQUESTS = "inference-perf", "inference-perf server", "inference-perf requests"
DEFINITIONS = {
    "tpot_s": "(last token - first token) / (OSL - 1) of each request",
    "itl_s": "gaps between tokens; tokens that came in one piece have gaps of 0",
}
_LATENCIES = {
    "ttft_s": "time_to_first_token",
    "tpot_s": "time_per_output_token",
    "itl_s": "inter_token_latency",
    "e2e_s": "request_latency",
}


def knows(document: Any) -> bool:
    """Whether a document is a lifecycle report."""
    return (
        isinstance(document, dict)
        and isinstance(document.get("load_summary"), dict)
        and isinstance(document.get("successes"), dict)
    )


def read(content: Content) -> list[ServingMeasurement]:
    """The single stage or run of a JSON report; errors as `Content.documents`."""
    return read_document(content.first)


def read_document(report: Document) -> list[ServingMeasurement]:
    """The single stage or run of a report."""
    answered = report["successes"]
    if "queue_len" in answered or "kv_cache_usage_percentage" in answered:
        return [_of_server(answered)]
    load, failures = report["load_summary"], fields.mapping(report.get("failures"))
    rates = fields.mapping(answered.get("throughput"))
    found = ServingMeasurement(
        format=NAME,
        subject=Subject(tool=NAME),
        load=MeasuredLoad(
            concurrency=fields.positive(load.get("concurrency")),
            rate=fields.positive(load.get("requested_rate")),
            rate_achieved=fields.positive(load.get("achieved_rate")),
            requests=fields.count(load.get("count")),
            completed=fields.count(answered.get("count")),
            errors=fields.count(failures.get("count")),
            duration_s=fields.positive(report.get("benchmark_time_seconds")),
        ),
        lengths=Lengths(_length(answered, "prompt"), _length(answered, "output")),
        throughput=Throughput(
            *(
                fields.figure(rates.get(f"{name}_per_sec"))
                for name in ("requests", "input_tokens", "output_tokens", "total_tokens")
            )
        ),
        definitions=DEFINITIONS,
    )
    return [found.with_latencies(_latencies(fields.mapping(answered.get("latency"))))]


def _latencies(source: Document) -> dict[str, Percentiles]:
    return {name: spread(source.get(theirs)) for name, theirs in _LATENCIES.items()}


def _length(answered: Document, side: str) -> Percentiles:
    """Prompt or output tokens: "prompt_len", or the names that reports of 2026 use."""
    names = (f"{side}_len", f"{side}_tokens", "input_tokens" if side == "prompt" else "")
    return spread(fields.first(answered, names))


def _of_server(answered: Document) -> ServingMeasurement:
    """The server's own metrics over a stage."""
    rate = fields.positive(answered.get("rate"))
    given, made = (fields.positive(fields.at(answered, f"{s}_len", "rate")) for s in _SIDES)
    shown = ("queue_len", "kv_cache_usage_percentage", "num_preemptions_total")
    server = {name: fields.number(fields.at(answered, name, "mean")) for name in shown}
    return ServingMeasurement(
        format=SERVER,
        subject=Subject(tool=NAME),
        load=MeasuredLoad(completed=fields.count(answered.get("count"))),
        lengths=Lengths(
            Percentiles(fields.ratio(given, rate)), Percentiles(fields.ratio(made, rate))
        ),
        throughput=Throughput(rate, given, made),
        server={name: value for name, value in server.items() if value is not None},
        notes=(
            "these are the server's own histograms over a window that may reach beyond the stage; "
            "stage_<n>_lifecycle_metrics.json has what the clients saw",
        ),
    ).with_latencies(_latencies(answered))


_SIDES = ("prompt", "output")


# ------------------------------------------------------------------------------- requests


def knows_requests(document: Any) -> bool:
    """Whether a document is a list of requests."""
    return (
        isinstance(document, list)
        and bool(document)
        and isinstance(document[0], dict)
        and {"start_time", "end_time", "info"} <= document[0].keys()
    )


def read_requests(content: Content) -> list[ServingMeasurement]:
    """The run of a file of requests; errors as `Content.documents`."""
    rows = RequestRows()
    for entry in content.first:
        if isinstance(entry, dict):
            rows.add(_request(entry))
    return [rows.run(REQUESTS, NAME, DEFINITIONS)]


def _request(entry: Document) -> Request:
    info = fields.mapping(entry.get("info"))
    start, end = fields.number(entry.get("start_time")), fields.number(entry.get("end_time"))
    answer = fields.mapping(info.get("response_metrics") or info)
    asked = fields.first(info, ("input_tokens",)) or fields.at(
        info, "request_metrics", "text", "input_tokens"
    )
    made = fields.number(answer.get("output_tokens"))
    times = fields.numbers(answer.get("output_token_times"))
    known = times is not None and len(times) > 0 and start is not None
    first, last = (float(times[0]), float(times[-1])) if known and times is not None else (0.0, 0.0)
    tokens = made or (len(times) if times is not None else 0)
    return Request(
        start_s=start,
        isl=fields.number(asked),
        osl=made,
        ttft_s=first - start if known and start is not None else None,
        tpot_s=(last - first) / (tokens - 1) if known and tokens > 1 else None,
        e2e_s=end - start if start is not None and end is not None else None,
        ok=entry.get("error") is None,
        gaps_s=np.diff(times) if known and times is not None else None,
    )

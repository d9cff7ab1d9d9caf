"""Results of Ray's LLMPerf: a list of requests, and the flattened summary of a run.

Its inter-token latency is the sum of all gaps, including the wait for the first token, over the
tokens.  TPOT is computed from E2E, TTFT and the tokens where requests are listed.
Source: ray-project/llmperf, token_benchmark_ray.py at 004d3af (2023, 2024) and
src/llmperf/common_metrics.py; `LLMPerfResults.to_dict` joins keys with underscores.
"""

from __future__ import annotations

from typing import Any

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

NAME = "llmperf"
_SUMMARY = "results_ttft_s_mean"
_DEFINITIONS = {
    "tpot_s": "(E2E - TTFT) / (OSL - 1) of each request, computed from the file's figures"
}


def knows(document: Any) -> bool:
    """Whether a document is a list of requests, or a summary."""
    if isinstance(document, list):
        return bool(document) and _is_request(document[0])
    return isinstance(document, dict) and (_SUMMARY in document or _is_request(document))


def _is_request(entry: Any) -> bool:
    return isinstance(entry, dict) and {
        "ttft_s", "end_to_end_latency_s", "number_output_tokens",
    } <= entry.keys()  # fmt: skip


def read(content: Content) -> list[ServingMeasurement]:
    """The single run of a file; errors as `Content.documents`."""
    if isinstance(content.first, dict) and _SUMMARY in content.first:
        return [_summary(content.first)]
    rows = RequestRows()
    for document in content.documents():
        for entry in document if isinstance(document, list) else [document]:
            if isinstance(entry, dict):
                rows.add(_request(entry))
    found = ServingMeasurement(
        format=NAME,
        subject=Subject(tool=NAME),
        load=MeasuredLoad(
            requests=rows.count, completed=rows.count - rows.failed, errors=rows.failed
        ),
        lengths=rows.lengths(),
        definitions=_DEFINITIONS,
        requests=rows.table(),
        notes=(*rows.notes(), "the file says neither when requests were sent nor how many at once"),
    )
    return [found.with_latencies(rows.latencies())]


def _request(entry: Document) -> Request:
    ttft = fields.number(entry.get("ttft_s"))
    e2e = fields.number(entry.get("end_to_end_latency_s"))
    made = fields.number(entry.get("number_output_tokens"))
    known = ttft is not None and e2e is not None and made is not None and made > 1
    failed = entry.get("error_code") is not None or bool(entry.get("error_msg"))
    return Request(
        start_s=fields.number(entry.get("start_time")),
        isl=fields.number(entry.get("number_input_tokens")),
        osl=made,
        ttft_s=ttft,
        tpot_s=(e2e - ttft) / (made - 1) if known and e2e and ttft and made else None,
        e2e_s=e2e,
        ok=not failed,
    )


def _summary(document: Document) -> ServingMeasurement:
    completed = fields.count(document.get("results_num_completed_requests"))
    a_minute = fields.positive(document.get("results_num_completed_requests_per_min"))
    return ServingMeasurement(
        format=NAME,
        subject=Subject(tool=NAME, model=fields.text(document.get("model"))),
        load=MeasuredLoad(
            concurrency=fields.positive(document.get("num_concurrent_requests")),
            requests=fields.count(document.get("results_num_requests_started")),
            completed=completed,
            errors=fields.count(document.get("results_number_errors")),
            duration_s=fields.ratio((completed or 0) * 60.0, a_minute) or None,
        ),
        lengths=Lengths(
            _spread(document, "number_input_tokens"),
            _spread(document, "number_output_tokens"),
            fields.positive(document.get("mean_input_tokens")),
            fields.positive(document.get("mean_output_tokens")),
        ),
        throughput=Throughput(
            fields.scaled(a_minute, 1 / 60),
            None,
            fields.positive(document.get("results_mean_output_throughput_token_per_s")),
        ),
        definitions={"tpot_s": "E2E over the tokens of each request, the first among them"},
        tpot_includes_first=True,
    ).with_latencies(
        {
            "ttft_s": _spread(document, "ttft_s"),
            "tpot_s": _spread(document, "inter_token_latency_s"),
            "e2e_s": _spread(document, "end_to_end_latency_s"),
        }
    )


def _spread(document: Document, name: str) -> Percentiles:
    stem = f"results_{name}_"
    entry = {
        str(key)[len(stem) :].removeprefix("quantiles_"): value
        for key, value in document.items()
        if str(key).startswith(stem)
    }
    return spread(entry)

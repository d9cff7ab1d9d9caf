"""Raw profiles of Triton's perf_analyzer under GenAI-Perf: `profile_export.json`.

One experiment per load, with the times at which each request was sent and each piece of its answer
arrived.  Tokens are not counted: GenAI-Perf does that afterwards.
Source: triton-inference-server/perf_analyzer, docs/inference_load_modes.md and
genai-perf/genai_perf/profile_data_parser/profile_data_parser.py (2024, 2025): nanoseconds.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from profilers.serving_results import fields
from profilers.serving_results.documents import Content
from profilers.serving_results.fields import Document
from profilers.serving_results.measurement import ServingMeasurement, Subject
from profilers.serving_results.request_rows import Request, RequestRows

NAME = "perf_analyzer profile"


def knows(document: Any) -> bool:
    """Whether a document is a profile."""
    experiments = fields.at(document, "experiments")
    return (
        isinstance(experiments, list)
        and bool(experiments)
        and isinstance(experiments[0], dict)
        and "requests" in experiments[0]
    )


def read(content: Content) -> list[ServingMeasurement]:
    """One measurement per experiment; errors as `Content.documents`."""
    return [_measurement(entry) for entry in content.first["experiments"] if "requests" in entry]


def _measurement(experiment: Document) -> ServingMeasurement:
    setting = fields.mapping(experiment.get("experiment"))
    value, mode = fields.positive(setting.get("value")), setting.get("mode")
    rows = RequestRows()
    for request in fields.sequence(experiment.get("requests")):
        if isinstance(request, dict):
            rows.add(_request(request))
    found = ServingMeasurement(
        format=NAME,
        subject=Subject(tool="perf_analyzer"),
        load=replace(
            rows.load(),
            concurrency=value if mode == "concurrency" else None,
            rate=value if mode == "request_rate" else None,
        ),
        throughput=rows.throughput(),
        definitions={"itl_s": "gaps between the pieces of an answer"},
        requests=rows.table(),
        notes=("the file counts no tokens; give GenAI-Perf's profile_export_genai_perf.json too",),
    )
    return found.with_latencies(rows.latencies())


def _request(request: Document) -> Request:
    sent = fields.number(request.get("timestamp"))
    pieces = fields.numbers(request.get("response_timestamps"))
    if sent is None or pieces is None or not len(pieces):
        return Request(ok=False)
    times = (pieces - sent) * 1e-9
    return Request(
        start_s=sent * 1e-9,
        ttft_s=float(times[0]),
        e2e_s=float(times[-1]),
        gaps_s=np.diff(times),
    )

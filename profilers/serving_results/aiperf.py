"""Results of NVIDIA's AIPerf and GenAI-Perf: the summary (JSON, CSV) and the records (JSON lines).

Both name a latency's statistics "avg", "p50", ... with a unit beside them.  Their inter-token
latency is the mean gap of a request, so it is read as TPOT; the gaps themselves are AIPerf's
inter-chunk latency.
Sources: ai-dynamo/aiperf, src/aiperf/exporters/metrics_json_exporter.py at 047d59d and
metrics_csv_exporter.py at 309c4e8 (0.1 to 2026); triton-inference-server/perf_analyzer,
genai-perf/genai_perf/export_data/json_exporter.py and csv_exporter.py at 09628cd (2024, 2025),
which write the same table with spelled-out names.
"""

from __future__ import annotations

import csv
import re
from typing import Any

from genz_core.errors import ReportError
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
from profilers.serving_results.spreads import seconds_per, spread

AIPERF, GENAI_PERF, RECORDS = "aiperf", "genai-perf", "aiperf records"
_LATENCIES = {
    "ttft_s": "time_to_first_token",
    "tpot_s": "inter_token_latency",
    "itl_s": "inter_chunk_latency",
    "e2e_s": "request_latency",
}
DEFINITIONS = {
    "tpot_s": "(E2E - TTFT) / (OSL - 1) of each request, which the tool calls inter-token latency",
    "itl_s": "gaps between the pieces of an answer, which the tool calls inter-chunk latency",
}
_OF_AIPERF = ("request_count", "aiperf_version", "benchmark_duration", "inter_chunk_latency")
_PARENTHESIS = re.compile(r"\s*\(([^()]*)\)\s*$")


def knows(document: Any) -> bool:
    """Whether a document is a summary."""
    metrics = _metrics(document)
    return isinstance(metrics.get("request_latency"), dict) and "avg" in metrics["request_latency"]


def _metrics(document: Any) -> Document:
    """The statistics of a summary: its own entries, or those under "records" (AIPerf 0.1)."""
    inner = fields.at(document, "records")
    return inner if isinstance(inner, dict) else fields.mapping(document)


def read(content: Content) -> list[ServingMeasurement]:
    """The summary in a JSON file; errors as `Content.documents`."""
    return [_summary(content.first)]


def _summary(document: Document) -> ServingMeasurement:
    metrics, config = _metrics(document), fields.mapping(document.get("input_config"))
    is_aiperf = any(name in metrics or name in document for name in _OF_AIPERF)
    name = AIPERF if is_aiperf else GENAI_PERF
    device, notes = _device(document)
    rates = Throughput(
        _mean(metrics, "request_throughput"),
        _mean(metrics, "input_token_throughput"),
        _mean(metrics, "output_token_throughput"),
        _mean(metrics, "total_token_throughput"),
    )
    return ServingMeasurement(
        format=name,
        subject=Subject(
            tool=name,
            tool_version=fields.text(document.get("aiperf_version")),
            model=_model(config),
            device=device,
            date=fields.text(document.get("start_time")),
        ),
        load=_load(metrics, config),
        lengths=_lengths(metrics, config),
        throughput=rates,
        definitions=DEFINITIONS,
        notes=notes,
    ).with_latencies(_latencies(metrics))


def _latencies(metrics: Document) -> dict[str, Percentiles]:
    entries = {name: fields.mapping(metrics.get(theirs)) for name, theirs in _LATENCIES.items()}
    return {n: spread(entry, seconds_per(entry.get("unit"), 1e-3)) for n, entry in entries.items()}


def _mean(metrics: Document, name: str) -> float | None:
    return fields.figure(fields.first(metrics.get(name), ("avg", "value")))


def _phase(config: Document) -> Document:
    """The settings of the load: of the last measured phase (AIPerf 0.12 on), otherwise the only
    ones.
    """
    phases = [entry for entry in fields.sequence(config.get("phases")) if isinstance(entry, dict)]
    measured = [entry for entry in phases if "warmup" not in str(entry.get("kind", "")).casefold()]
    return measured[-1] if measured else config


def _load(metrics: Document, config: Document) -> MeasuredLoad:
    phase = _phase(config)
    concurrency = fields.positive(fields.deep(phase, ("concurrency",)))
    rate = fields.positive(fields.deep(phase, ("request_rate", "rate")))
    arrivals = fields.text(
        fields.deep(phase, ("arrival_pattern", "request_rate_mode"))
        or fields.first(phase, ("type",))
    )
    completed = fields.positive(_mean(metrics, "request_count"))
    asked = fields.count(fields.deep(phase, ("request_count", "requests")))
    failed = fields.at(metrics, "error_request_count", "avg")
    return MeasuredLoad(
        concurrency=concurrency,
        concurrency_mean=_mean(metrics, "effective_concurrency"),
        rate=rate,
        burstiness=_burstiness(arrivals) if rate else None,
        requests=asked or (int(completed) if completed else None),
        completed=int(completed) if completed else None,
        errors=fields.count(failed),
        duration_s=_mean(metrics, "benchmark_duration"),
    )


def _burstiness(arrivals: str | None) -> float | None:
    """Burstiness of the arrivals: 1 for Poisson arrivals, infinite for constant gaps."""
    word = (arrivals or "").casefold()
    return 1.0 if "poisson" in word else float("inf") if "constant" in word else None


def _lengths(metrics: Document, config: Document) -> Lengths:
    isl_asked = fields.at(config, "input", "prompt", "input_tokens", "mean")
    osl_asked = fields.at(config, "input", "prompt", "output_tokens", "mean")
    sets = fields.sequence(config.get("datasets"))
    if len(sets) == 1 and isl_asked is None:
        isl_asked = fields.at(sets[0], "prompts", "isl", "mean")
        osl_asked = fields.at(sets[0], "prompts", "osl", "mean")
    return Lengths(
        spread(metrics.get("input_sequence_length")),
        spread(metrics.get("output_sequence_length")),
        fields.positive(isl_asked or fields.deep(config, ("synthetic_input_tokens_mean",))),
        fields.positive(osl_asked or fields.deep(config, ("output_tokens_mean",))),
    )


def _model(config: Document) -> str | None:
    names = fields.first(config.get("endpoint"), ("model_names",)) or fields.first(
        config, ("model_names", "model", "models")
    )
    if isinstance(names, dict):
        names = fields.first(names, ("items", "names", "name"))
    if isinstance(names, list) and names:
        names = fields.first(names[0], ("name",)) if isinstance(names[0], dict) else names[0]
    return fields.text(names) or fields.text(fields.deep(config, ("formatted_model_name",)))


def _device(document: Document) -> tuple[str | None, tuple[str, ...]]:
    """The GPUs that the tool's telemetry saw, with a note that others may have served."""
    endpoints = fields.mapping(fields.at(document, "telemetry_data", "endpoints"))
    names = [
        fields.text(gpu.get("gpu_name"))
        for endpoint in endpoints.values()
        for gpu in fields.mapping(fields.at(endpoint, "gpus")).values()
        if isinstance(gpu, dict)
    ]
    return _named(names)


def _named(names: list[str | None]) -> tuple[str | None, tuple[str, ...]]:
    different = {name for name in names if name}
    if len(different) != 1:
        return None, ()
    note = f"the telemetry saw {len(names)} GPUs of this name; how many of them served is not said"
    return different.pop(), (note,)


# ------------------------------------------------------------------------------- CSV


def knows_text(head: str) -> bool:
    """Whether a text is a summary's CSV."""
    lines = [line.strip().strip('"') for line in head.splitlines()[:4]]
    is_table = any(re.match(r'"?Metric"?,"?(avg|min)', line) for line in lines)
    return is_table and "request latency" in head.casefold()


def read_text(content: Content) -> list[ServingMeasurement]:
    """The summary in a CSV file.

    Raises:
        ReportError: see `Content.text`, or a table that is no CSV.
    """
    metrics: dict[str, Any] = {}
    header: list[str] = []
    gpus: list[str | None] = []
    try:
        for row in csv.reader(content.text.splitlines()):
            if row and row[0] in ("Metric", "Endpoint"):
                header = row
            elif row and header and header[0] == "Metric" and "GPU" not in header:
                key, entry = _entry(header, row)
                metrics[key] = entry
            elif row and header and "GPU_UUID" in header:
                gpus.append(fields.text(dict(zip(header, row, strict=False)).get("GPU_Name")))
    except csv.Error as error:
        raise ReportError(f"the table is damaged ({error})") from None
    found = _summary(metrics)
    device, notes = _named(list(dict.fromkeys(gpus)))
    if device is None:
        return [found]
    from dataclasses import replace

    return [replace(found, subject=replace(found.subject, device=device), notes=notes)]


def _entry(header: list[str], row: list[str]) -> tuple[str, dict[str, Any]]:
    """A row in the form of the JSON: its key, and its statistics with their unit."""
    unit = _PARENTHESIS.search(row[0])
    name = _PARENTHESIS.sub("", row[0]).strip().casefold().replace(" ", "_")
    cells: dict[str, Any] = dict(zip(header[1:], row[1:], strict=False))
    if "Value" in cells:
        cells["avg"] = cells.pop("Value")
    return name, {"unit": unit[1] if unit else "", **cells}


# ------------------------------------------------------------------------------- records


def knows_record(document: Any) -> bool:
    """Whether a document is a record of one request."""
    return (
        isinstance(document, dict)
        and isinstance(document.get("metadata"), dict)
        and isinstance(document.get("metrics"), dict)
        and ("request_start_ns" in document["metadata"] or "request_latency" in document["metrics"])
    )


def read_records(content: Content) -> list[ServingMeasurement]:
    """The requests of a file of records, warm-up left out; errors as `Content.documents`."""
    rows = RequestRows()
    for document in content.documents():
        if knows_record(document) and (document["metadata"].get("benchmark_phase") != "warmup"):
            rows.add(_request(document))
    return [
        rows.run(RECORDS, AIPERF, DEFINITIONS, "the rates are those of the requests in the file")
    ]


def _request(document: Document) -> Request:
    metadata, metrics = document["metadata"], document["metrics"]
    start = fields.number(metadata.get("request_start_ns"))
    gaps = fields.mapping(metrics.get("inter_chunk_latency"))
    listed = fields.numbers(gaps.get("value"))
    failed = document.get("error") is not None or bool(metadata.get("was_cancelled"))
    return Request(
        start_s=fields.scaled(start, 1e-9),
        isl=_value(metrics, "input_sequence_length"),
        osl=_value(metrics, "output_sequence_length"),
        ttft_s=_seconds(metrics, "time_to_first_token"),
        tpot_s=_seconds(metrics, "inter_token_latency"),
        e2e_s=_seconds(metrics, "request_latency"),
        ok=not failed,
        gaps_s=None if listed is None else listed * seconds_per(gaps.get("unit"), 1e-3),
    )


def _value(metrics: Document, name: str) -> float | None:
    return fields.number(fields.at(metrics, name, "value"))


def _seconds(metrics: Document, name: str) -> float | None:
    unit = seconds_per(fields.at(metrics, name, "unit"), 1e-3)
    return fields.scaled(_value(metrics, name), unit)

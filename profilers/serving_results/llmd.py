"""Benchmark reports of llm-d, an interchange format of several clients: YAML or JSON.

Every figure carries its units.  Version 0.1 has `metrics`, 0.2 and later
`results.request_performance`.  The components of the stack are described separately; only engines
are read.
Sources: llm-d/llm-d-benchmark, llmdbenchmark/analysis/benchmark_report/schema_v0_2_1.py at
dc48906, schema_v0_2.py at 32445ce and native_to_br0_1.py at ce751ee (2025, 2026).
"""

from __future__ import annotations

import re
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
from profilers.serving_results.spreads import seconds_per, spread

NAME = "llm-d benchmark report"
_LATENCIES = {
    "ttft_s": "time_to_first_token",
    "tpot_s": "time_per_output_token",
    "itl_s": "inter_token_latency",
    "e2e_s": "request_latency",
}
_DURATION = re.compile(r"P(?:(\d+)D)?T?(?:(\d+)H)?(?:(\d+)M)?(?:([\d.]+)S)?")
#: Names of rates by version: from 0.2 on they are distributions, in 0.1 plain numbers.
_RATES = (
    ("request_rate", "requests_per_sec"),
    ("input_token_rate", "input_tokens_per_sec"),
    ("output_token_rate", "output_tokens_per_sec"),
    ("total_token_rate", "total_tokens_per_sec"),
)


def knows(document: Any) -> bool:
    """Whether a document is a report."""
    if not isinstance(document, dict) or "scenario" not in document:
        return False
    return "results" in document or isinstance(fields.at(document, "metrics", "latency"), dict)


def read(content: Content) -> list[ServingMeasurement]:
    """The single run of a JSON report; errors as `Content.documents`."""
    return read_document(content.first)


def read_document(report: Document) -> list[ServingMeasurement]:
    """The single run of a report."""
    found = fields.mapping(fields.at(report, "results", "request_performance", "aggregate"))
    found = found or fields.mapping(report.get("metrics"))
    requests = fields.mapping(found.get("requests"))
    asked = fields.mapping(fields.at(report, "scenario", "load", "standardized"))
    version = fields.text(str(report.get("version") or ""))
    measurement = ServingMeasurement(
        format=NAME,
        subject=_subject(report, asked),
        load=_load(report, requests, asked),
        lengths=Lengths(
            spread(requests.get("input_length")),
            spread(requests.get("output_length")),
            fields.positive(fields.at(asked, "input_seq_len", "value")),
            fields.positive(fields.at(asked, "output_seq_len", "value")),
        ),
        throughput=_rates(fields.mapping(found.get("throughput"))),
        notes=(f"version {version} of the report",) if version else (),
    )
    return [measurement.with_latencies(_latencies(fields.mapping(found.get("latency"))))]


def _latencies(source: Document) -> dict[str, Percentiles]:
    entries = {name: fields.mapping(source.get(theirs)) for name, theirs in _LATENCIES.items()}
    return {name: spread(entry, seconds_per(entry.get("units"))) for name, entry in entries.items()}


def _rates(source: Document) -> Throughput:
    values = []
    for new, old in _RATES:
        entry = source.get(new, source.get(old))
        if isinstance(entry, dict) and "mean" in entry:
            entry = entry["mean"]
        values.append(fields.figure(entry))
    return Throughput(*values)


def _load(report: Document, requests: Document, asked: Document) -> MeasuredLoad:
    total, failed = fields.count(requests.get("total")), fields.count(requests.get("failures"))
    seconds = fields.first(report.get("run"), ("time",)) or fields.at(report, "metrics", "time")
    return MeasuredLoad(
        concurrency=fields.positive(asked.get("concurrency")),
        rate=fields.positive(asked.get("rate_qps")),
        requests=total,
        completed=total - failed if total is not None and failed is not None else None,
        errors=failed,
        duration_s=_seconds(fields.at(seconds, "duration")),
    )


def _seconds(value: Any) -> float | None:
    """Seconds of a number, or of an ISO 8601 duration."""
    number = fields.positive(value)
    match = _DURATION.fullmatch(value) if isinstance(value, str) and number is None else None
    if not match:
        return number
    parts = zip((86400, 3600, 60, 1), match.groups(), strict=True)
    return sum(unit * float(part or 0) for unit, part in parts) or None


def _subject(report: Document, asked: Document) -> Subject:
    engines = [
        part for entry in fields.sequence(fields.at(report, "scenario", "stack"))
        if (part := fields.mapping(fields.at(entry, "standardized"))).get("kind")
        == "inference_engine"
    ]  # fmt: skip
    engine = engines[0] if engines else _engine_of_first_version(report)
    accelerator = fields.mapping(engine.get("accelerator"))
    parallel = fields.mapping(accelerator.get("parallelism"))
    tool = fields.text(asked.get("tool"))
    return Subject(
        tool=f"{NAME} of {tool}" if tool else NAME,
        tool_version=fields.text(asked.get("tool_version")),
        engine=_engine(fields.text(engine.get("tool"))) or _engine(_server_type(report)),
        engine_version=fields.text(engine.get("tool_version")),
        model=fields.text(fields.at(engine, "model", "name")),
        device=fields.text(accelerator.get("model")),
        devices=fields.count(accelerator.get("count")),
        degrees=fields.degrees(parallel, {n: (n,) for n in ("tp", "pp", "dp", "ep")}),
        precision=fields.text(fields.at(engine, "model", "quantization")),
        date=fields.text(fields.at(report, "run", "time", "start")),
    )


def _engine_of_first_version(report: Document) -> Document:
    """The engine of a report of version 0.1, in the form of later versions."""
    scenario = fields.mapping(report.get("scenario"))
    hosts = fields.sequence(fields.at(scenario, "host", "accelerator"))
    engines = fields.sequence(fields.at(scenario, "platform", "engine"))
    first = fields.mapping(engines[0] if engines else None)
    return {
        "accelerator": hosts[0] if hosts else None,
        "model": scenario.get("model"),
        "tool": first.get("name"),
        "tool_version": first.get("version"),
    }


def _server_type(report: Document) -> str | None:
    """The kind of server that the client was configured for."""
    config = fields.at(report, "scenario", "load", "native", "config")
    return fields.text(fields.at(config, "server", "type"))


def _engine(tool: str | None) -> str | None:
    word = (tool or "").casefold()
    return "vllm" if "vllm" in word else "sglang" if "sglang" in word else None

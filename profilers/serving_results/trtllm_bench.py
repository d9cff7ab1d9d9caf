"""Reports of TensorRT-LLM's `trtllm-bench`: `--report_json`, and what it prints.

Sources: NVIDIA/TensorRT-LLM, tensorrt_llm/bench/dataclasses/reporting.py at 0249976 (1.0 to 1.2;
`get_statistics_dict`, `report_statistics`), statistics.py; earlier versions (0.13 on) print the
same labels without the breakdowns.
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
from profilers.serving_results.spreads import spread

NAME = "trtllm-bench"
_MS = 1e-3
_DEFINITIONS = {
    "tpot_s": "(E2E - TTFT) / (OSL - 1) of each request: the first token does not count"
}


def knows(document: Any) -> bool:
    """Whether a document is a report."""
    return (
        isinstance(document, dict)
        and isinstance(document.get("performance"), dict)
        and isinstance(document.get("engine"), dict)
        and ("request_info" in document or "world_info" in document)
    )


def read(content: Content) -> list[ServingMeasurement]:
    """The single run of a report; errors as `Content.documents`."""
    return [_measurement(content.first)]


def _measurement(report: Document) -> ServingMeasurement:
    performance = fields.mapping(report.get("performance"))
    requests = fields.mapping(report.get("request_info"))
    count = fields.count(requests.get("num_requests"))
    output = fields.first(
        performance, ("system_output_throughput_tok_s", "output_throughput_tok_s")
    )
    return ServingMeasurement(
        format=NAME,
        subject=_subject(report),
        stated=fields.limits(fields.mapping(report.get("world_info"))),
        load=MeasuredLoad(
            concurrency_mean=fields.positive(requests.get("avg_num_concurrent_requests")),
            rate_achieved=fields.positive(fields.at(report, "world_info", "issue_rate")),
            requests=count,
            completed=count,
            duration_s=fields.scaled(fields.positive(performance.get("total_latency_ms")), _MS),
        ),
        lengths=Lengths(
            Percentiles(fields.positive(requests.get("avg_input_length"))),
            Percentiles(fields.positive(requests.get("avg_output_length"))),
        ),
        throughput=Throughput(
            fields.figure(performance.get("request_throughput_req_s")),
            None,
            fields.figure(output),
            fields.figure(performance.get("system_total_throughput_tok_s")),
        ),
        definitions=_DEFINITIONS,
    ).with_latencies(_latencies(report))


def _latencies(report: Document) -> dict[str, Percentiles]:
    performance = fields.mapping(report.get("performance"))
    streaming = fields.mapping(report.get("streaming_metrics"))
    sources = {
        "ttft_s": (streaming, "ttft_percentiles", "avg_ttft_ms"),
        "tpot_s": (streaming, "tpot_percentiles", "avg_tpot_ms"),
        "e2e_s": (performance, "request_latency_percentiles_ms", "avg_request_latency_ms"),
    }
    return {
        name: spread(source.get(many), _MS) or spread({"mean": source.get(mean)}, _MS)
        for name, (source, many, mean) in sources.items()
    }


def _subject(report: Document) -> Subject:
    engine, world = fields.mapping(report.get("engine")), fields.mapping(report.get("world_info"))
    return Subject(
        tool=NAME,
        tool_version=fields.text(engine.get("version")),
        engine="trtllm",
        engine_version=fields.text(engine.get("version")),
        model=fields.text(engine.get("model")),
        device=fields.text(fields.at(report, "machine", "name")),
        devices=fields.count(world.get("world_size")),
        degrees=fields.degrees(world, {n: (f"{n}_size",) for n in ("tp", "pp", "ep")}),
        precision=_stated(engine.get("quantization")) or _stated(engine.get("dtype")),
        kv_precision=_stated(engine.get("kv_cache_dtype")),
    )


def _stated(value: Any) -> str | None:
    stated = fields.text(value)
    return None if stated in (None, "None", "auto") else stated


# ------------------------------------------------------------------------------- console

_LINE = re.compile(r"^\s*(?:\[[^\]]*\]\s*)*([A-Z][^:]{2,60}?):\s+(\S.*?)\s*$")
_BREAKDOWN = re.compile(r"\[(TTFT|TPOT|Latency|ITL)\]\s+(\w+)\s*:\s*([\d.eE+]+)")
_PRINTED = {
    "Model": ("engine", "model"), "TensorRT-LLM Version": ("engine", "version"),
    "TensorRT LLM Version": ("engine", "version"), "Dtype": ("engine", "dtype"),
    "KV Cache Dtype": ("engine", "kv_cache_dtype"), "Quantization": ("engine", "quantization"),
    "TP Size": ("world_info", "tp_size"), "PP Size": ("world_info", "pp_size"),
    "EP Size": ("world_info", "ep_size"), "Issue Rate (req/sec)": ("world_info", "issue_rate"),
    "Number of requests": ("request_info", "num_requests"),
    "Number of concurrent requests": ("request_info", "avg_num_concurrent_requests"),
    "Average Input Length (tokens)": ("request_info", "avg_input_length"),
    "Average Output Length (tokens)": ("request_info", "avg_output_length"),
    "Request Throughput (req/sec)": ("performance", "request_throughput_req_s"),
    "Total Output Throughput (tokens/sec)": ("performance", "system_output_throughput_tok_s"),
    "Token Throughput (tokens/sec)": ("performance", "system_output_throughput_tok_s"),
    "Total Token Throughput (tokens/sec)": ("performance", "system_total_throughput_tok_s"),
    "Total Latency (ms)": ("performance", "total_latency_ms"),
    "Average request latency (ms)": ("performance", "avg_request_latency_ms"),
    "Average time-to-first-token [TTFT] (ms)": ("streaming_metrics", "avg_ttft_ms"),
    "Average time-per-output-token [TPOT] (ms)": ("streaming_metrics", "avg_tpot_ms"),
}  # fmt: skip
_SPREADS = {
    "TTFT": ("streaming_metrics", "ttft_percentiles"),
    "TPOT": ("streaming_metrics", "tpot_percentiles"),
    "ITL": ("streaming_metrics", "tpot_percentiles"),
    "Latency": ("performance", "request_latency_percentiles_ms"),
}


def knows_text(head: str) -> bool:
    """Whether a text holds the tool's output."""
    return "= PERFORMANCE OVERVIEW" in head or ("= PYTORCH BACKEND" in head and "TensorRT" in head)


def read_text(content: Content) -> list[ServingMeasurement]:
    """The runs in a log; errors as `Content.text`."""
    found = []
    report: dict[str, Any] = {}
    for line in content.text.splitlines():
        if "= ENGINE DETAILS" in line or "= PYTORCH BACKEND" in line:
            found += [_measurement(report)] if "performance" in report else []
            report = {"engine": {}}
        elif match := _BREAKDOWN.search(line):
            section, key = _SPREADS[match[1]]
            report.setdefault(section, {}).setdefault(key, {})[match[2].casefold()] = match[3]
        elif (match := _LINE.match(line)) and match[1].strip() in _PRINTED:
            section, key = _PRINTED[match[1].strip()]
            report.setdefault(section, {})[key] = match[2]
    return [*found, *([_measurement(report)] if "performance" in report else [])]

"""Files that accompany results but hold none: what they are, and which file to give instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from profilers.serving_results import fields

Refusal = tuple[Callable[[Any], bool], str]
_REQUESTS = (
    "this is a trace of requests, which is a load and not a result: type trace as the load in the "
    "form and upload it there, or give it to ridgeline simulate --trace"
)


def _has(*names: str) -> Callable[[Any], bool]:
    return lambda document: isinstance(document, dict) and set(names) <= document.keys()


def _is_inputs(document: Any) -> bool:
    data = fields.at(document, "data")
    first = data[0] if isinstance(data, list) and data else None
    return isinstance(first, dict) and ("payloads" in first or "payload" in first)


def _is_raw(document: Any) -> bool:
    return (
        isinstance(document, dict)
        and "metrics" not in document
        and "x_request_id" in fields.mapping(document.get("metadata"))
    )


_AIPERF = "give profile_export_aiperf.json, or profile_export.jsonl for its requests"

#: First document of a file -> the message that refuses it.
_JSON: tuple[Refusal, ...] = (
    (_has("dcgm_url", "telemetry_data"), f"this is aiperf's GPU telemetry export; {_AIPERF}"),
    (
        _has("endpoint_url", "metrics", "timestamp_ns"),
        f"this is aiperf's server metrics; {_AIPERF}",
    ),
    (_has("summary", "metrics", "schema_version"), f"this is aiperf's server metrics; {_AIPERF}"),
    (_has("timeslices"), f"this is aiperf's export by time slices; {_AIPERF}"),
    (
        lambda d: "aggregation_type" in fields.mapping(fields.at(d, "metadata")),
        "this is aiperf's aggregate over several runs; give profile_export_aiperf.json of each run",
    ),
    (_is_inputs, f"these are the inputs of aiperf or genai-perf, not their results; {_AIPERF}"),
    (_is_raw, f"this is aiperf's raw export of requests and answers; {_AIPERF}"),
    (
        _has("gpu_power_usage", "gpu_utilization"),
        "this is genai-perf's telemetry export; give profile_export_genai_perf.json",
    ),
    (
        _has("benchmark", "metric"),
        "this is vLLM's result in PyTorch's form; give the JSON beside it without .pytorch",
    ),
    (
        _has("run_number", "error_type"),
        "this is the record of a failed run of vllm bench sweep; give summary.json",
    ),
    (
        _has("spec", "metadata"),
        "this is the configuration of GuideLLM; give benchmarks.json",
    ),
    (
        lambda d: _has("api", "load", "server")(d) and "successes" not in d,
        "this is the configuration of inference-perf; give stage_<n>_lifecycle_metrics.json",
    ),
    (
        _has("sessions", "load_summary"),
        "this is inference-perf's report by sessions; give stage_<n>_lifecycle_metrics.json",
    ),
    (
        _has("traceEvents"),
        "this is a trace of a profiler, not a benchmark's result: ridgeline import reads it as one",
    ),
    (_has("timestamp", "input_length", "output_length"), _REQUESTS),
    (
        _has("key", "value", "metadata"),
        "this is MLPerf's detailed log; give mlperf_log_summary.txt",
    ),
)


def refusal_of(document: Any) -> str | None:
    """The message that refuses a JSON or YAML document, None where it may be a result."""
    first = document[0] if isinstance(document, list) and document else document
    return next((words for knows, words in _JSON if knows(first)), None)


def refusal_of_text(head: str) -> str | None:
    """The message that refuses a text, None where it may be a result."""
    start = head.lstrip()
    lines = head.splitlines()
    if start.startswith(":::MLLOG"):
        return "this is MLPerf's detailed log; give mlperf_log_summary.txt"
    if start.startswith("TIMESTAMP,ContextTokens,GeneratedTokens"):
        return _REQUESTS
    if lines and "GPU_UUID" in lines[0]:
        return f"this is aiperf's GPU telemetry; {_AIPERF}"
    if start.startswith("Metric,GPU,"):
        return "this is genai-perf's telemetry; give profile_export_genai_perf.csv"
    families = [line for line in lines if line.startswith(("vllm:", "sglang:"))]
    if families and all(line.split()[-1] in _TYPES for line in families):
        return (
            "these are names and types of a server's metrics without a value; save its /metrics "
            "page while it serves"
        )
    if "<!DOCTYPE html" in head[:1000] or "<html" in head[:1000]:
        return "this is a page for a browser; give the tool's JSON or CSV"
    return None


_TYPES = frozenset({"gauge", "counter", "histogram", "summary"})

"""Results of vLLM's serving benchmark: `vllm bench serve --save-result`, a JSON record or several.

Files of `--save-detailed` add values per request and per token, those of `--append-result` have one
record per line, and a run of `vllm bench sweep serve` writes a list of records.
Sources: vllm-project/vllm, benchmarks/benchmark_serving.py (2024 to mid 2025);
vllm/benchmarks/serve.py at 009e6d4 (2026), `main_async`; vllm/benchmarks/sweep/serve.py at
4fa9174, `run_benchmark`: the settings of the sweep are merged into each record.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from profilers.serving_results import bench_record, fields
from profilers.serving_results.documents import Content
from profilers.serving_results.fields import Document
from profilers.serving_results.measurement import ServingMeasurement, Subject

NAME = "vllm bench serve"
_MODEL = ("model_id", "model")
_DATE = re.compile(r"(\d{4})(\d\d)(\d\d)-(\d\d)(\d\d)(\d\d)")
#: Degrees under the names of vLLM's own options, as sweeps and `--metadata` carry them.
_DEGREES = {
    "tp": ("tensor_parallel_size", "tensor-parallel-size", "tp"),
    "pp": ("pipeline_parallel_size", "pipeline-parallel-size", "pp"),
    "dp": ("data_parallel_size", "data-parallel-size", "dp"),
    "ep": ("expert_parallel_size", "ep"),
}
#: Engine of the server implied by a client's backend; "openai" implies none.
ENGINES = {
    "vllm": "vllm", "vllm-chat": "vllm", "sglang": "sglang", "sglang-native": "sglang",
    "sglang-oai": "sglang", "sglang-oai-chat": "sglang", "tensorrt-llm": "trtllm", "trt": "trtllm",
    "llama.cpp": "llama.cpp", "tgi": "tgi", "deepspeed-mii": "deepspeed-mii",
    "lmdeploy": "lmdeploy", "lmdeploy-chat": "lmdeploy",
}  # fmt: skip


def knows(document: Any) -> bool:
    """Whether a document is a record, or a list of records, of this benchmark."""
    if isinstance(document, list):
        return bool(document) and is_record(document[0])
    return is_record(document)


def is_record(document: Any) -> bool:
    """Whether a mapping has the fields of every record of the benchmark."""
    if not isinstance(document, dict) or not {"duration", "completed"} <= document.keys():
        return False
    return "request_throughput" in document or any(
        isinstance(name, str) and name.endswith("_ms") and bench_record.is_statistic(name)
        for name in document
    )


def read(content: Content) -> list[ServingMeasurement]:
    """Every record of a file.

    Raises:
        ReportError: see `Content.documents`.
    """
    return [measurement(record) for record in content.records(is_record)]


def measurement(record: Document, name: str = NAME) -> ServingMeasurement:
    """One record.  name: name of its format."""
    return replace(bench_record.measurement(record, name, subject(record)), server=_server(record))


def subject(record: Document) -> Subject:
    """Who ran, as far as a record states it and what a sweep or `--metadata` added to it."""
    backend = fields.text(record.get("backend")) or fields.text(record.get("endpoint_type"))
    return Subject(
        tool=fields.text(record.get("client")) or NAME,
        tool_version=None,
        engine=ENGINES.get((backend or "").casefold()),
        engine_version=fields.text(fields.first(record, ("vllm_version", "engine_version"))),
        model=fields.text(fields.first(record, _MODEL)),
        device=fields.text(fields.first(record, ("gpu", "gpu_name", "device", "hardware"))),
        degrees=fields.degrees(record, _DEGREES),
        precision=fields.text(fields.first(record, ("quantization", "precision", "dtype"))),
        kv_precision=fields.text(fields.first(record, ("kv_cache_dtype", "kv-cache-dtype"))),
        date=date(record.get("date")),
        label=fields.text(record.get("label")),
    )


def date(value: Any) -> str | None:
    """A date as vLLM writes it (20241109-150547) in ISO 8601; other texts unchanged."""
    stated = fields.text(value)
    match = _DATE.fullmatch(stated) if stated else None
    return "{}-{}-{}T{}:{}:{}".format(*match.groups()) if match else stated


_SERVER = (
    "max_output_tokens_per_s", "max_concurrent_requests", "request_goodput",
    "spec_decode_acceptance_rate", "spec_decode_acceptance_length",
)  # fmt: skip


def _server(record: Document) -> dict[str, float]:
    found = {name: fields.number(record.get(name)) for name in _SERVER}
    return {name: value for name, value in found.items() if value is not None}

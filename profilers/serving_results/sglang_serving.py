"""Results of `sglang.bench_serving --output-file`: a JSON record a line.

Records of 2024 have eighteen fields and neither model nor hardware; later ones have more
statistics, `--output-details` lists, `server_info` (the server's own arguments) and a tag.
Source: sgl-project/sglang, python/sglang/bench_serving.py at 0033168 (2025), `benchmark`, and
its successors up to 0.5.18 (2026), which add `server_info`, `total_throughput` and percentiles.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from profilers.serving_results import bench_record, fields, vllm_serve
from profilers.serving_results.documents import Content
from profilers.serving_results.fields import Document
from profilers.serving_results.measurement import ServingMeasurement, Subject

NAME = "sglang.bench_serving"
#: Fields that SGLang's record has and vLLM's lacks.
_OWN = (
    "total_output_tokens_retokenized", "mean_e2e_latency_ms", "median_e2e_latency_ms",
    "sharegpt_output_len", "accept_length",
)  # fmt: skip
_DEGREES = {
    "tp": ("tp_size", "tensor_parallel_size"),
    "pp": ("pp_size", "pipeline_parallel_size"),
    "dp": ("dp_size", "data_parallel_size"),
    "ep": ("ep_size", "expert_parallel_size"),
}


def knows(document: Any) -> bool:
    """Whether a document is a record of this benchmark."""
    return (
        isinstance(document, dict)
        and "completed" in document
        and any(name in document for name in _OWN)
    )


def read(content: Content) -> list[ServingMeasurement]:
    """Every record of a file.

    Raises:
        ReportError: see `Content.documents`.
    """
    return [_measurement(record) for record in content.records(knows)]


def _measurement(record: Document) -> ServingMeasurement:
    accepted = fields.number(record.get("accept_length"))
    return replace(
        bench_record.measurement(record, NAME, _subject(record)),
        server={} if accepted is None else {"accept_length": accepted},
        stated=fields.limits(fields.mapping(record.get("server_info"))),
    )


def _subject(record: Document) -> Subject:
    server = fields.mapping(record.get("server_info"))
    backend = (fields.text(record.get("backend")) or "").casefold()
    return Subject(
        tool=NAME,
        engine=vllm_serve.ENGINES.get(backend),
        engine_version=fields.text(server.get("version")),
        model=fields.text(
            fields.first(server, ("model_path", "served_model_name"))
            or fields.first(record, ("model_id", "model"))
        ),
        devices=None,
        degrees=fields.degrees(server, _DEGREES),
        precision=fields.text(fields.first(server, ("quantization",))),
        kv_precision=fields.text(fields.first(server, ("kv_cache_dtype",))),
        date=vllm_serve.date(record.get("date")),
        label=fields.text(record.get("tag")),
    )

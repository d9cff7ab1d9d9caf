"""Results that serving benchmarks print: blocks of labels by vLLM, SGLang and TensorRT-LLM, in any
log.

A block starts with "Serving Benchmark Result".  What the client printed before it (its arguments,
the request rate, the limit of open requests) belongs to that block.
Sources: vllm-project/vllm, vllm/benchmarks/serve.py at 009e6d4 and benchmarks/benchmark_serving.py
(2023 on), vllm/benchmarks/throughput.py at 0202831; sgl-project/sglang,
python/sglang/bench_serving.py at 0033168; NVIDIA/TensorRT-LLM uses vLLM's block.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from profilers.serving_results import bench_record, fields, vllm_serve
from profilers.serving_results.documents import Content
from profilers.serving_results.measurement import (
    Lengths,
    MeasuredLoad,
    ServingMeasurement,
    Subject,
    Throughput,
)

NAME = "serving benchmark console"
_START = "Serving Benchmark Result"
_STATISTIC = re.compile(
    r"(Mean|Median|Std|Max|Min|P\d{1,2}(?:\.\d+)?)\s+(TTFT|TPOT|ITL|E2EL|E2E Latency)\s*\(ms\):\s*"
    r"([\d.,]+|inf|nan)"
)
_ENDS = {"TTFT": "ttft", "TPOT": "tpot", "ITL": "itl", "E2EL": "e2el", "E2E Latency": "e2el"}
#: Labels of a block and of the lines before it, in lower case -> fields of a record.
_LABELS = {
    "backend": "backend",
    "traffic request rate": "request_rate",
    "request rate configured (rps)": "request_rate",
    "burstiness factor": "burstiness",
    "max request concurrency": "max_concurrency",
    "maximum request concurrency": "max_concurrency",
    "max reqeuest concurrency": "max_concurrency",
    "successful requests": "completed",
    "failed requests": "failed",
    "benchmark duration (s)": "duration",
    "total input tokens": "total_input_tokens",
    "total generated tokens": "total_output_tokens",
    "request throughput (req/s)": "request_throughput",
    "input token throughput (tok/s)": "input_throughput",
    "output token throughput (tok/s)": "output_throughput",
    "total token throughput (tok/s)": "total_token_throughput",
    "concurrency": "concurrency",
    "accept length": "accept_length",
}
_LABEL = re.compile(r"([A-Za-z][A-Za-z0-9 ()/_-]{3,60}?):\s+(\S+)")
_ARGUMENT = re.compile(r"\b(\w+)=('[^']*'|\"[^\"]*\"|[^,()\s]+)")
#: Arguments of the client that are also fields of a record.
_ARGUMENTS = (
    "backend", "model", "request_rate", "max_concurrency", "num_prompts", "burstiness",
    "dataset_name", "random_input_len", "random_output_len", "random_range_ratio",
)  # fmt: skip
_THROUGHPUT = re.compile(
    r"Throughput:\s*([\d.]+) requests/s,\s*([\d.]+) (?:total )?tokens/s"
    r"(?:,\s*([\d.]+) output tokens/s)?"
)
#: Escape sequences of a terminal.
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def knows_text(head: str) -> bool:
    """Whether a text holds a block, or the line of vLLM's throughput benchmark."""
    return _START in head or bool(_THROUGHPUT.search(head))


def read_text(content: Content) -> list[ServingMeasurement]:
    """One measurement per block; errors as `Content.text`."""
    text = _ESCAPES.sub("", content.text)
    found = [_measurement(record) for record in _records(text.splitlines())]
    return found or [_throughput(match) for match in _THROUGHPUT.finditer(text)]


def _records(lines: list[str]) -> Iterator[dict[str, Any]]:
    """The blocks of a log as records."""
    above: dict[str, Any] = {}
    record: dict[str, Any] | None = None
    engine: dict[str, Any] = {}
    for line in lines:
        if line.strip() in vllm_serve.ENGINES:
            engine = {"backend": line.strip()}
        if _START in line:
            if record is not None:
                yield record
            record, above = engine | above, {}
        elif record is not None and set(line.strip()) == {"="} and "completed" in record:
            yield record
            record = None
        elif record is None:
            above |= _arguments(line) | _labels(line)
        else:
            record |= _labels(line) | _statistics(line)
    if record is not None:
        yield record


def _labels(line: str) -> dict[str, Any]:
    match = _LABEL.search(line)
    name = _LABELS.get(match[1].strip().casefold()) if match else None
    if match is None or name is None or match[2].rstrip(".") in ("None", "not"):
        return {}
    return {name: match[2].rstrip(".") if name == "request_rate" else match[2]}


def _statistics(line: str) -> dict[str, Any]:
    match = _STATISTIC.search(line)
    return {f"{match[1].casefold()}_{_ENDS[match[2]]}_ms": match[3]} if match else {}


def _arguments(line: str) -> dict[str, Any]:
    """The arguments in a line such as "Namespace(backend='vllm', ...)"."""
    if "Namespace(" not in line:
        return {}
    pairs = {match[1]: match[2].strip("'\"") for match in _ARGUMENT.finditer(line[:20_000])}
    named = {name: pairs[name] for name in _ARGUMENTS if pairs.get(name) not in (None, "None")}
    if "model" in named:
        named["model_id"] = named.pop("model")
    return named


def _measurement(record: dict[str, Any]) -> ServingMeasurement:
    lengths = bench_record.lengths(record, None)
    if "dataset_name" not in record:
        lengths = Lengths(lengths.isl, lengths.osl)
    subject = vllm_serve.subject(record)
    completed = fields.count(record.get("completed"))
    load = bench_record.load(record)
    sent = None if completed is None else completed + (load.errors or 0)
    return ServingMeasurement(
        format=NAME,
        subject=replace(subject, tool=NAME),
        load=replace(load, requests=load.requests or sent),
        lengths=lengths,
        throughput=bench_record.throughput(record),
        definitions={"tpot_s": bench_record.TPOT_DEFINITION, "itl_s": bench_record.ITL_DEFINITION},
    ).with_latencies(bench_record.statistics(record))


def _throughput(match: re.Match[str]) -> ServingMeasurement:
    """The line of `vllm bench throughput`."""
    return ServingMeasurement(
        format="vllm bench throughput",
        subject=Subject(tool="vllm bench throughput"),
        load=MeasuredLoad(rate=float("inf")),
        throughput=Throughput(
            fields.positive(match[1]), None, fields.positive(match[3]), fields.positive(match[2])
        ),
        notes=("all requests were given to the engine at once",),
    )

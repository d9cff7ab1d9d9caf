"""Results of vLLM's offline benchmarks: `vllm bench throughput` and `vllm bench latency`.

Neither file states the model, the hardware or the lengths.  Lengths in a file name (in2048_out2048)
are used if they match the tokens that the file counts.
Sources: vllm-project/vllm, vllm/benchmarks/throughput.py at 0202831 and latency.py at 00cae07
(2025, 2026; before: benchmarks/benchmark_throughput.py, benchmark_latency.py).
"""

from __future__ import annotations

from typing import Any

from profilers.serving_results import fields
from profilers.serving_results.documents import Content
from profilers.serving_results.fields import Document
from profilers.serving_results.file_name import NameFacts, facts_of
from profilers.serving_results.measurement import (
    Lengths,
    MeasuredLoad,
    Percentiles,
    ServingMeasurement,
    Subject,
    Throughput,
)
from profilers.serving_results.samples import distribution
from profilers.serving_results.spreads import spread

THROUGHPUT, LATENCY = "vllm bench throughput", "vllm bench latency"


def knows_throughput(document: Any) -> bool:
    """Whether a document is a result of `vllm bench throughput`."""
    return isinstance(document, dict) and {
        "elapsed_time", "num_requests", "requests_per_second",
    } <= document.keys()  # fmt: skip


def knows_latency(document: Any) -> bool:
    """Whether a document is a result of `vllm bench latency`."""
    return isinstance(document, dict) and {"avg_latency", "latencies"} <= document.keys()


def read_throughput(content: Content) -> list[ServingMeasurement]:
    """The single run of a file; errors as `Content.documents`."""
    record: Document = content.first
    seconds, requests = (
        fields.positive(record.get("elapsed_time")),
        fields.count(record.get("num_requests")),
    )
    tokens = fields.positive(record.get("total_num_tokens"))
    named = facts_of(content.name)
    isl, osl = _lengths(named, requests, tokens)
    notes: tuple[str, ...] = ("all requests were given to the engine at once",)
    if isl:
        notes = (
            *notes,
            "the lengths are taken from the file name; they match the tokens in the file",
        )
    made = None if osl is None or requests is None else osl * requests
    given = None if isl is None or requests is None else isl * requests
    found = ServingMeasurement(
        format=THROUGHPUT,
        subject=Subject(tool=THROUGHPUT, engine="vllm"),
        load=MeasuredLoad(
            rate=float("inf"), requests=requests, completed=requests, duration_s=seconds
        ),
        lengths=Lengths(Percentiles(isl), Percentiles(osl)),
        throughput=Throughput(
            fields.figure(record.get("requests_per_second")),
            fields.ratio(given, seconds),
            fields.ratio(made, seconds),
            fields.figure(record.get("tokens_per_second")),
        ),
        notes=notes,
    )
    return [found]


def _lengths(
    named: NameFacts, requests: int | None, tokens: float | None
) -> tuple[float | None, float | None]:
    """(ISL, OSL) from the file name, if they add up to the tokens of the file."""
    if not named.isl or not named.osl or not requests or not tokens:
        return None, None
    if (named.isl + named.osl) * requests != tokens:
        return None, None
    return float(named.isl), float(named.osl)


def read_latency(content: Content) -> list[ServingMeasurement]:
    """The single batch of a file; errors as `Content.documents`."""
    record: Document = content.first
    each = distribution(fields.numbers(record.get("latencies")))
    stated = {
        f"p{name}": value for name, value in fields.mapping(record.get("percentiles")).items()
    }
    e2e = each or spread({"mean": record.get("avg_latency"), **stated})
    found = ServingMeasurement(
        format=LATENCY,
        subject=Subject(tool=LATENCY, engine="vllm"),
        e2e_s=e2e,
        definitions={"e2e_s": "one batch from its prompts to its last tokens, the engine alone"},
        notes=("the file says neither the batch nor the lengths",),
    )
    return [found]

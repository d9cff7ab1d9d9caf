"""Reports of GuideLLM: `benchmarks.json` (also as YAML) and `benchmarks.csv`, with several loads
each.

Its time per output token is the whole request over all its tokens; its inter-token latency,
(last token - first token) / (tokens - 1) of each request, is what others call TPOT.
Sources: vllm-project/guidellm (before: neuralmagic/guidellm), src/guidellm/benchmark/schemas/
generative (0.4 to 0.8, report versions 1 and 2), src/guidellm/benchmark/benchmark.py at 47ce292
(0.2, 0.3), outputs/csv.py at 00f110c (three rows of header) and output.py at 0d8c8bf (one row).
"""

from __future__ import annotations

import csv
import json
import math
import re
from typing import Any

from genz_core.errors import ReportError
from profilers.readers.csv_tables import without_cut_row
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

NAME = "guidellm"
DEFINITIONS = {
    "tpot_s": "the whole request over all its tokens, the first among them",
    "itl_s": "(last token - first token) / (OSL - 1) of each request, which others call TPOT",
}
_LATENCIES = {
    "ttft_s": ("time_to_first_token_ms", 1e-3),
    "tpot_s": ("time_per_output_token_ms", 1e-3),
    "itl_s": ("inter_token_latency_ms", 1e-3),
    "e2e_s": ("request_latency", 1.0),
}


def knows(document: Any) -> bool:
    """Whether a document is a report."""
    benchmarks = fields.at(document, "benchmarks")
    return (
        isinstance(benchmarks, list)
        and bool(benchmarks)
        and isinstance(fields.at(benchmarks[0], "metrics"), dict)
    )


def read(content: Content) -> list[ServingMeasurement]:
    """One measurement per benchmark of a JSON report; errors as `Content.documents`."""
    return read_document(content.first)


def read_document(report: Document) -> list[ServingMeasurement]:
    """One measurement per benchmark of a report."""
    benchmarks = [entry for entry in report["benchmarks"] if isinstance(entry, dict)]
    return [_measurement(entry, report) for entry in benchmarks]


def _measurement(benchmark: Document, report: Document) -> ServingMeasurement:
    metrics = fields.mapping(benchmark.get("metrics"))
    rows = _rows(benchmark)
    lengths = Lengths(
        spread(_successful(metrics, "prompt_token_count")),
        spread(_successful(metrics, "output_token_count")),
        _asked(benchmark, report, "prompt_tokens"),
        _asked(benchmark, report, "output_tokens"),
    )
    rates = Throughput(
        _mean(metrics, "requests_per_second"),
        _mean(metrics, "prompt_tokens_per_second"),
        _mean(metrics, "output_tokens_per_second"),
        _mean(metrics, "tokens_per_second"),
    )
    return ServingMeasurement(
        format=NAME,
        subject=_subject(benchmark, report),
        load=_load(benchmark, metrics),
        lengths=lengths,
        throughput=rates,
        definitions=DEFINITIONS,
        tpot_includes_first=True,
        requests=rows.table() if rows else None,
    ).with_latencies(_latencies(metrics))


def _successful(metrics: Document, name: str) -> Document:
    """Statistics of the requests that succeeded; older reports have no others."""
    entry = fields.mapping(metrics.get(name))
    return fields.mapping(entry.get("successful", entry))


def _mean(metrics: Document, name: str) -> float | None:
    return fields.figure(_successful(metrics, name).get("mean"))


def _latencies(metrics: Document) -> dict[str, Percentiles]:
    return {
        name: spread(_successful(metrics, theirs), unit)
        for name, (theirs, unit) in _LATENCIES.items()
    }


def _strategy(benchmark: Document) -> Document:
    for path in (("config", "strategy"), ("scheduler", "strategy"), ("args", "strategy")):
        found = fields.at(benchmark, *path)
        if isinstance(found, dict):
            return found
    return {}


def _load(benchmark: Document, metrics: Document) -> MeasuredLoad:
    concurrency, rate, burstiness = _arrivals(_strategy(benchmark))
    totals = fields.first(metrics, ("request_totals",)) or fields.first(
        benchmark, ("request_totals",)
    ) or fields.at(benchmark, "run_stats", "requests_made")  # fmt: skip
    seconds = fields.positive(fields.first(benchmark, ("duration",)))
    return MeasuredLoad(
        concurrency=concurrency,
        concurrency_mean=_mean(metrics, "request_concurrency"),
        rate=rate,
        burstiness=burstiness,
        requests=fields.count(fields.at(totals, "total")),
        completed=fields.count(fields.at(totals, "successful")),
        errors=fields.count(fields.at(totals, "errored")),
        duration_s=seconds,
    )


def _arrivals(strategy: Document) -> tuple[float | None, float | None, float | None]:
    """(concurrency, rate, burstiness) of a strategy."""
    kind = str(fields.first(strategy, ("type_", "kind", "type")) or "")
    rate = fields.positive(strategy.get("rate"))
    if kind == "synchronous":
        return 1.0, None, None
    if kind == "concurrent":
        streams = fields.first(strategy, ("streams", "concurrency", "max_concurrency"))
        return fields.positive(streams), None, None
    if kind == "throughput":
        return fields.positive(strategy.get("max_concurrency")), math.inf, None
    if kind in ("constant", "poisson", "async"):
        shape = 1.0 if kind == "poisson" else math.inf if kind == "constant" else None
        return None, rate, shape
    return None, rate, None


def _asked(benchmark: Document, report: Document, name: str) -> float | None:
    """Number of tokens that the synthetic data was configured for."""
    for source in (fields.at(report, "config", "spec"), report.get("args"), benchmark.get("args")):
        data = fields.at(source, "data")
        for entry in data if isinstance(data, list) else [data]:
            text = _json_or_none(entry) if isinstance(entry, str) else entry
            value = fields.positive(fields.at(text, name))
            if value:
                return value
    return None


def _json_or_none(text: str) -> Any:
    """A mapping parsed from JSON, or from "prompt_tokens=256,output_tokens=128"."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pairs = (part.partition("=") for part in text[:2000].split(",") if "=" in part)
        return {key.strip(): value.strip() for key, _, value in pairs}


def _subject(benchmark: Document, report: Document) -> Subject:
    model = None
    places = (
        fields.at(benchmark, "config", "backend"),
        fields.at(benchmark, "benchmarker", "backend"),
        benchmark.get("worker"),
        fields.at(report, "config", "spec", "backend"),
        report.get("args"),
        benchmark.get("args"),
    )
    for place in places:
        model = model or fields.text(fields.deep(place, ("model", "backend_model"), depth=2))
    return Subject(
        tool=NAME,
        tool_version=fields.text(fields.at(report, "metadata", "guidellm_version")),
        model=model,
        label=fields.text(fields.first(_strategy(benchmark), ("type_", "kind", "type"))),
    )


# ------------------------------------------------------------------------------- requests


def _rows(benchmark: Document) -> RequestRows | None:
    """The requests that a report lists, None where it lists none."""
    listed = fields.first(benchmark, ("requests",))
    if not isinstance(listed, dict):
        return None
    rows = RequestRows()
    for status, ok in (("successful", True), ("errored", False), ("incomplete", False)):
        for entry in fields.sequence(listed.get(status)):
            if isinstance(entry, dict):
                rows.add(_request(entry, ok))
    return rows if rows.count else None


def _request(entry: Document, ok: bool) -> Request:
    start = fields.first(entry, ("request_start_time", "start_time"))
    if start is None:
        start = fields.deep(entry, ("request_start", "request_start_time"), depth=4)
    return Request(
        start_s=fields.number(start),
        isl=fields.number(fields.first(entry, ("prompt_tokens", "prompt_token_count"))),
        osl=fields.number(fields.first(entry, ("output_tokens", "output_token_count"))),
        ttft_s=_milliseconds(entry, "time_to_first_token_ms"),
        tpot_s=_milliseconds(entry, "inter_token_latency_ms"),
        e2e_s=fields.number(entry.get("request_latency")),
        ok=ok,
    )


def _milliseconds(entry: Document, name: str) -> float | None:
    return fields.scaled(fields.number(entry.get(name)), 1e-3)


# ------------------------------------------------------------------------------- CSV

_PERCENTS = ("p0.1", "p1", "p5", "p10", "p25", "p75", "p90", "p95", "p99")
#: Metrics by the words of a column's header, which has one row or three.
_COLUMNS = {
    "time to first token ms": "time_to_first_token_ms",
    "time per output token ms": "time_per_output_token_ms",
    "inter token latency ms": "inter_token_latency_ms",
    "request latency": "request_latency",
    "request latency sec": "request_latency",
    "requests per second": "requests_per_second",
    "server throughput requests/sec": "requests_per_second",
    "request concurrency": "request_concurrency",
    "server throughput concurrency": "request_concurrency",
    "prompt token count": "prompt_token_count",
    "token metrics input tokens": "prompt_token_count",
    "output token count": "output_token_count",
    "token metrics output tokens": "output_token_count",
    "prompt tokens per second": "prompt_tokens_per_second",
    "token throughput input tokens/sec": "prompt_tokens_per_second",
    "output tokens per second": "output_tokens_per_second",
    "token throughput output tokens/sec": "output_tokens_per_second",
    "tokens per second": "tokens_per_second",
    "token throughput total tokens/sec": "tokens_per_second",
}
_STATISTIC = re.compile(r"(.*?)\s*(mean|median|std dev|\[min, 0\.1.*|percentiles)$")


def knows_text(head: str) -> bool:
    """Whether a text is a report's CSV."""
    start = head[:20_000]
    return start.startswith(("Type,Run Id,Id,Name", "Run Info,")) or (
        "Successful Requests" in start and "time to first token ms mean" in start.casefold()
    )


def read_text(content: Content) -> list[ServingMeasurement]:
    """One measurement per row of a CSV report.

    Raises:
        ReportError: see `Content.text`, or the table is not a CSV.
    """
    try:
        rows = list(csv.reader(without_cut_row(content.text).splitlines()))
    except csv.Error as error:
        raise ReportError(f"the table is damaged ({error})") from None
    depth = 3 if rows and rows[0][:1] == ["Run Info"] else 1
    if len(rows) <= depth:
        raise ReportError("the table holds no benchmark")
    columns = [" ".join(filter(None, parts)) for parts in zip(*rows[:depth], strict=False)]
    return [_of_row(dict(zip(columns, row, strict=False))) for row in rows[depth:] if row]


def _of_row(row: dict[str, str]) -> ServingMeasurement:
    """A CSV row in the structure of the JSON report."""
    metrics: dict[str, Any] = {}
    for column, cell in row.items():
        match = _STATISTIC.match(column.casefold())
        words = match[1].replace("successful ", "") if match else ""
        if match and words in _COLUMNS and "successful" in match[1]:
            entry = metrics.setdefault(_COLUMNS[words], {})
            entry |= _statistics(match[2], cell)
    known = {column.casefold(): cell for column, cell in row.items()}
    strategy = _json_or_none(known.get("run info profile") or known.get("profile") or "")
    name = known.get("benchmark strategy") or known.get("name") or ""
    benchmark = {
        "metrics": metrics,
        "duration": known.get("timings duration sec") or known.get("duration"),
        "request_totals": {
            status: known.get(f"request counts {status}") or known.get(f"{status} requests")
            for status in ("successful", "errored", "total")
        },
        "config": {
            "strategy": _strategy_of(name, fields.mapping(strategy)),
            "backend": _json_or_none(known.get("run info backend") or known.get("backend") or ""),
        },
    }
    return _measurement(benchmark, {})


def _statistics(what: str, cell: str) -> dict[str, Any]:
    if what in ("mean", "median"):
        return {what: cell}
    if what == "std dev":
        return {"std_dev": cell}
    listed = [part.strip() for part in cell.strip("[] ").split(",")]
    names = ("min", *_PERCENTS, "max")
    return dict(zip(names, listed, strict=False)) if len(listed) == len(names) else {}


def _strategy_of(name: str, profile: Document) -> dict[str, Any]:
    """A strategy parsed from its name ("constant@2.00", "concurrent@8") and the profile."""
    kind, _, value = name.partition("@")
    strategy = {**profile, "type_": kind.strip() or profile.get("kind") or profile.get("type_")}
    if value:
        strategy |= {"rate": value, "streams": value}
    return strategy

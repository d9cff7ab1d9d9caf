"""Read results of serving benchmarks; the format is chosen by content: `read_results`."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from genz_core.errors import ReportError, file_problem
from profilers.readers import sentence
from profilers.readers.csv_tables import breaks_off
from profilers.serving_results import (
    aiperf,
    console,
    guidellm,
    inference_perf,
    inferencex,
    llama_batched,
    llama_bench,
    llmd,
    llmperf,
    mlperf,
    perf_analyzer,
    prometheus,
    request_logs,
    sglang_serving,
    tables,
    trtllm_bench,
    vllm_offline,
    vllm_serve,
)
from profilers.serving_results.documents import Content
from profilers.serving_results.file_name import with_name
from profilers.serving_results.impossible import without_impossible
from profilers.serving_results.measurement import ServingMeasurement
from profilers.serving_results.refusals import refusal_of, refusal_of_text

Read = Callable[[Content], list[ServingMeasurement]]


@dataclass(frozen=True, slots=True)
class Format:
    """A format.

    knows: whether the first JSON document of a file, or its first 64 KiB of text, has this format.
    marks: words near the start of its files, by which a damaged file is identified.
    """

    name: str
    knows: Callable[[Any], bool]
    read: Read
    marks: tuple[str, ...] = ()


#: JSON formats, recognised by their first document, the most specific first.
_JSON = (
    Format(
        request_logs.LINES,
        request_logs.knows_line,
        request_logs.read_lines,
        ('"input_toks"', '"first_token_ts"'),
    ),
    Format(
        request_logs.SPANS,
        request_logs.knows_spans,
        request_logs.read_spans,
        ('"resourceSpans"', '"llm_request"'),
    ),
    Format(aiperf.RECORDS, aiperf.knows_record, aiperf.read_records, ('"request_start_ns"',)),
    Format(aiperf.AIPERF, aiperf.knows, aiperf.read, ('"request_latency"', '"unit"')),
    Format(perf_analyzer.NAME, perf_analyzer.knows, perf_analyzer.read, ('"experiments"',)),
    Format(guidellm.NAME, guidellm.knows, guidellm.read, ("guidellm",)),
    Format(llmd.NAME, llmd.knows, llmd.read, ('"scenario"',)),
    Format(trtllm_bench.NAME, trtllm_bench.knows, trtllm_bench.read, ('"world_info"',)),
    Format(inference_perf.NAME, inference_perf.knows, inference_perf.read, ('"load_summary"',)),
    Format(
        inference_perf.REQUESTS,
        inference_perf.knows_requests,
        inference_perf.read_requests,
        ('"start_time"', '"info"'),
    ),
    Format(llmperf.NAME, llmperf.knows, llmperf.read, ('"end_to_end_latency_s"',)),
    Format(llama_bench.NAME, llama_bench.knows, llama_bench.read, ('"build_commit"',)),
    Format(llama_batched.NAME, llama_batched.knows, llama_batched.read, ('"t_pp"',)),
    Format(inferencex.NAME, inferencex.knows, inferencex.read, ('"tput_per_gpu"',)),
    Format(
        sglang_serving.NAME,
        sglang_serving.knows,
        sglang_serving.read,
        ('"backend"', '"total_output_tokens_retokenized"'),
    ),
    Format(vllm_serve.NAME, vllm_serve.knows, vllm_serve.read, ('"num_prompts"',)),
    Format(
        vllm_offline.THROUGHPUT,
        vllm_offline.knows_throughput,
        vllm_offline.read_throughput,
        ('"elapsed_time"',),
    ),
    Format(
        vllm_offline.LATENCY,
        vllm_offline.knows_latency,
        vllm_offline.read_latency,
        ('"avg_latency"',),
    ),
)
_TEXT = (
    Format(prometheus.NAME, prometheus.knows_text, prometheus.read_text, ("_bucket{",)),
    Format(request_logs.TABLE, request_logs.knows_text, request_logs.read_text, ()),
    Format(mlperf.NAME, mlperf.knows_text, mlperf.read_text, ("MLPerf",)),
    Format(trtllm_bench.NAME, trtllm_bench.knows_text, trtllm_bench.read_text, ()),
    Format(guidellm.NAME, guidellm.knows_text, guidellm.read_text, ("Run Info",)),
    Format(aiperf.AIPERF, aiperf.knows_text, aiperf.read_text, ("Metric,avg",)),
    Format(llama_bench.NAME, llama_bench.knows_text, llama_bench.read_text, ("build_commit",)),
    Format(llama_batched.NAME, llama_batched.knows_text, llama_batched.read_text, ("T_PP s",)),
    Format(tables.RECORDS, tables.knows_text, tables.read_text, ("request_throughput",)),
    Format(console.NAME, console.knows_text, console.read_text, ()),
)
_YAML = (
    Format(guidellm.NAME, guidellm.knows, lambda content: guidellm.read_document(content.yaml)),
    Format(llmd.NAME, llmd.knows, lambda content: llmd.read_document(content.yaml)),
    Format(
        inference_perf.NAME,
        inference_perf.knows,
        lambda content: inference_perf.read_document(content.yaml),
    ),
)
#: Keys by which a text is recognised as YAML of one of these.
_YAML_KEYS = (
    "benchmarks:", "scenario:", "successes:", "load_summary:", "results:", "failures:",
    "benchmark_time_seconds:", "metadata:",
)  # fmt: skip
#: Formats that are read, for messages and upload forms.
ACCEPTED = (
    "vLLM (bench serve, throughput, latency, sweeps), SGLang (bench_serving), llama-bench, aiperf, "
    "genai-perf, GuideLLM, InferenceX, trtllm-bench, inference-perf, llm-d's report, llmperf, "
    "MLPerf's summary, logs of requests, /metrics pages of vLLM and SGLang, and CSV with columns "
    "such as ttft_p99_s"
)
#: Words near the start of a profiler's trace, so that the whole file need not be read to recognise
#: it.
_TRACES = ('"traceEvents"', '"ph":', '"ph" :')
#: Errors of damaged files that no reader anticipates: an upload must never end a server.
_UNFORESEEN = (ValueError, TypeError, LookupError, ArithmeticError, AttributeError, RecursionError)


def is_result(path: str | os.PathLike[str]) -> bool:
    """Whether a file looks like a benchmark's result, or like a file that accompanies one, rather
    than a profiler report; damaged files are judged by their appearance.
    """
    content = Content(Path(path))
    try:
        if content.is_json and any(mark in content.head for mark in _TRACES):
            return False
        if _named(content) is not None:
            return True
        return bool(content.is_json and refusal_of(content.first)) or bool(
            refusal_of_text(content.head)
        )
    except (ReportError, OSError, MemoryError, *_UNFORESEEN):
        return _by_marks(content) is not None


def read_results(
    path: str | os.PathLike[str], *, label: str | None = None
) -> list[ServingMeasurement]:
    """Read the result of a serving benchmark: one measurement, or those of a sweep.

    Args:
        path: the file; its format is recognised by content.
        label: name of the file where `path` is a temporary one.

    Raises:
        ReportError: the file cannot be read, in one sentence.
    """
    file = Path(path)
    called = label or file.name
    content = Content(file, called)
    try:
        found = _read(content)
    except ReportError as error:
        raise ReportError(sentence(called, _with_name(content, str(error)))) from None
    except MemoryError:
        raise ReportError(sentence(called, "the result is too large for memory")) from None
    except OSError as error:
        raise ReportError(sentence(called, file_problem(error))) from None
    except _UNFORESEEN as error:
        problem = f"the result is damaged in a way that no reader foresaw ({type(error).__name__})"
        raise ReportError(sentence(called, _with_name(content, problem))) from error
    cut = _breaks_off(content)
    named = [with_name(entry, called) for entry in found]
    return [
        dataclasses.replace(entry, file=called, truncated=cut, notes=(*entry.notes, *_lost(entry)))
        for entry in named
    ]


def _lost(measurement: ServingMeasurement) -> tuple[str, ...]:
    """A note on requests that were not answered, where there are any."""
    failure = measurement.load.failure
    return (f"{failure} and count in no latency",) if failure else ()


def _breaks_off(content: Content) -> str:
    """Where a table is truncated, "" where it is complete; any other truncated file is refused."""
    knows = (tables.knows_text, guidellm.knows_text, request_logs.knows_text)
    if content.is_json or not any(known(content.head) for known in knows):
        return ""
    return breaks_off(content.text)


def read_many(paths: Iterable[str | os.PathLike[str]]) -> list[ServingMeasurement]:
    """The measurements of several files, in the order of the files.  Errors as `read_results`."""
    return [measurement for path in paths for measurement in read_results(path)]


def _read(content: Content) -> list[ServingMeasurement]:
    file = content.path
    if file.exists() and not file.is_file():
        raise ReportError("not a file")
    if not content.head.strip():
        raise ReportError("the file is empty")
    chosen = _named(content)
    if chosen is None:
        raise ReportError(_unknown(content))
    found = [without_impossible(entry) for entry in chosen.read(content)]
    if not any(map(_has_figures, found)):
        failed = max((entry.load.errors or 0 for entry in found), default=0)
        why = f": all {failed:,} requests failed" if failed else ""
        raise ReportError(f"this {chosen.name} file holds no measured figure{why}")
    return found


def _unknown(content: Content) -> str:
    refusal = refusal_of(content.first) if content.is_json else refusal_of_text(content.head)
    if refusal is None and _looks_like_yaml(content.head):
        refusal = refusal_of(content.yaml)
    return refusal or f"this is not a benchmark result that can be read; readable are: {ACCEPTED}"


def _has_figures(measurement: ServingMeasurement) -> bool:
    rates = measurement.throughput
    known = (rates.requests_per_s, rates.input_tokens_per_s, rates.output_tokens_per_s)
    return bool(measurement.latencies() or measurement.server) or any(
        rate is not None for rate in (*known, rates.total_tokens_per_s)
    )


def _named(content: Content) -> Format | None:
    """The format of a file, None where no reader recognises it; errors as `Content`."""
    if content.is_json:
        return next((entry for entry in _JSON if entry.knows(content.first)), None)
    if _looks_like_yaml(content.head):
        document = content.yaml
        for entry in _YAML:
            if entry.knows(document):
                return entry
    return next((entry for entry in _TEXT if entry.knows(content.head)), None)


def _looks_like_yaml(head: str) -> bool:
    return any(line.startswith(_YAML_KEYS) for line in head.splitlines())


def _by_marks(content: Content) -> Format | None:
    """The format whose marks occur at the start of a file; tells what a damaged file would have
    been.
    """
    try:
        head = content.head
    except (ReportError, OSError):
        return None
    formats = [entry for entry in (*_JSON, *_TEXT) if entry.marks]
    return next((e for e in formats if all(mark in head for mark in e.marks)), None)


def _with_name(content: Content, problem: str) -> str:
    """A problem, completed with the format that the file would have had where its start
    shows it.
    """
    found = _by_marks(content)
    damage = ("damaged", "cut off", "is no JSON", "no benchmark's")
    if found is None or found.name in problem or not any(word in problem for word in damage):
        return problem
    return f"this starts as a result of {found.name}, but {problem}"

"""Summaries of MLPerf Inference's load generator: `mlperf_log_summary.txt`.

The text states neither lengths nor hardware nor model; those are in a submission's folders.
Source: mlcommons/inference, loadgen/results.cc at 05a9cec (2026, and the labels since 2019),
`PerformanceSummary::LogSummary`: nanoseconds.
"""

from __future__ import annotations

import math
import re

from profilers.serving_results import fields
from profilers.serving_results.documents import Content
from profilers.serving_results.measurement import (
    MeasuredLoad,
    Percentiles,
    ServingMeasurement,
    Subject,
    Throughput,
)
from profilers.serving_results.spreads import spread

NAME = "MLPerf summary"
_LINE = re.compile(r"^\s*([^:]+?)\s*:\s*(\S.*?)\s*$")
_NS = 1e-9
_GROUPS = {
    "ttft_s": ("first token latency (ns)",),
    "tpot_s": ("time to output token (ns)",),
    "e2e_s": ("latency (ns)",),
}


def knows_text(head: str) -> bool:
    """Whether a text is a summary."""
    return "MLPerf Results Summary" in head


def read_text(content: Content) -> list[ServingMeasurement]:
    """The single run of a summary; errors as `Content.text`."""
    matches = (_LINE.match(line) for line in content.text.splitlines())
    stated = {match[1].casefold(): match[2] for match in matches if match}
    scenario = stated.get("scenario", "")
    samples = _rate(stated, "samples per second", "completed samples per second", "qps w/o")
    tokens = _rate(stated, "tokens per second", "completed tokens per second", "tps w/o")
    rate = fields.positive(stated.get("target_qps")) if scenario == "Server" else None
    valid = stated.get("result is", "")
    found = ServingMeasurement(
        format=NAME,
        subject=Subject(tool="MLPerf loadgen", label=fields.text(scenario)),
        load=MeasuredLoad(
            concurrency=1.0 if scenario == "SingleStream" else None,
            rate=math.inf if scenario == "Offline" else rate,
            rate_achieved=_rate(stated, "scheduled samples per second"),
            burstiness=1.0 if scenario == "Server" else None,
        ),
        throughput=Throughput(samples, None, tokens),
        definitions={"tpot_s": "(E2E - TTFT) / (OSL - 1) of each sample"},
        notes=(f"the run is {valid}",) if valid and valid != "VALID" else (),
    )
    return [found.with_latencies(_latencies(stated))]


def _rate(stated: dict[str, str], *starts: str) -> float | None:
    values = (stated[key] for start in starts for key in stated if key.startswith(start))
    return next((value for value in map(fields.positive, values) if value), None)


def _latencies(stated: dict[str, str]) -> dict[str, Percentiles]:
    found = {}
    for name, (tail,) in _GROUPS.items():
        entry = {}
        for key, value in stated.items():
            word = _word(key.removesuffix(tail).strip()) if key.endswith(tail) else None
            if word:
                entry[word] = value
        found[name] = spread(entry, _NS)
    return found


def _word(start: str) -> str | None:
    """The statistic that a label starts with: "99.90 percentile" is p99.9."""
    if start in ("min", "max", "mean"):
        return start
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(?:th)? percentile", start)
    return f"p{float(match[1]):g}" if match else None

"""The record format of vLLM's serving benchmark, and of the tools that adopted its field names.

One flat mapping: counts, totals, rates, and statistics named "<statistic>_<latency>_<unit>".
Sources: vllm-project/vllm, benchmarks/benchmark_serving.py (2024 to mid 2025) and
vllm/benchmarks/serve.py at 009e6d4 (2026), functions benchmark, calculate_metrics and
main_async; sgl-project/sglang, python/sglang/bench_serving.py at 0033168 (2025) and later.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profilers.serving_results import fields
from profilers.serving_results.fields import Document
from profilers.serving_results.measurement import (
    Lengths,
    MeasuredLoad,
    Percentiles,
    ServingMeasurement,
    Subject,
    Throughput,
)
from profilers.serving_results.samples import Samples, distribution
from profilers.serving_results.spreads import spread

Floats = NDArray[np.float64]

#: Names of latencies in records -> fields of a measurement.
_LATENCY = {
    "ttft": "ttft_s", "tpot": "tpot_s", "itl": "itl_s",
    "e2el": "e2e_s", "e2e_latency": "e2e_s", "e2e": "e2e_s", "latency": "e2e_s",
}  # fmt: skip
_UNIT = {"_ms": 1e-3, "_s": 1.0, "_us": 1e-6, "": 1.0}
_STATISTIC = re.compile(
    r"(mean|avg|median|std|min|max|p\d{1,2}(?:\.\d+)?)_"
    r"(ttft|tpot|itl|e2el|e2e_latency|e2e|latency)(_ms|_us|_s|)"
)

TPOT_DEFINITION = "(E2E - TTFT) / (OSL - 1) of each request: the first token does not count"
ITL_DEFINITION = "gaps between the pieces that the client received, over all requests"


def measurement(record: Document, name: str, subject: Subject) -> ServingMeasurement:
    """The part of a record that both benchmarks write.  name: of its format."""
    found = details(record)
    requests = found.requests if found else None
    return ServingMeasurement(
        format=name,
        subject=subject,
        load=load(record),
        lengths=lengths(record, requests),
        throughput=throughput(record),
        definitions={"tpot_s": TPOT_DEFINITION, "itl_s": ITL_DEFINITION},
        requests=requests,
        notes=_empty_answers(record, found),
    ).with_latencies(_filled(record, found))


def statistics(record: Document) -> dict[str, Percentiles]:
    """The latencies of the records by field of a measurement, in seconds.

    Zeros are left out: a client that got the whole answer in one piece writes 0 for what it could
    not measure.
    """
    found: dict[str, dict[str, float]] = {}
    for key, raw in record.items():
        match = _STATISTIC.fullmatch(key) if isinstance(key, str) else None
        value = fields.figure(raw) if match else None
        if match and value is not None:
            entry = found.setdefault(_LATENCY[match[2]], {})
            entry[match[1]] = value * _UNIT[match[3]]
    return {name: spread(entry) for name, entry in found.items()}


def is_statistic(name: str) -> bool:
    """Whether a field is a statistic of a latency."""
    return bool(_STATISTIC.fullmatch(name))


def load(record: Document) -> MeasuredLoad:
    """The load that a record states."""
    failed = fields.count(record.get("failed"))
    return MeasuredLoad(
        concurrency=fields.figure(record.get("max_concurrency")),
        concurrency_mean=fields.figure(record.get("concurrency")),
        rate=_rate(record.get("request_rate")),
        burstiness=fields.positive(record.get("burstiness")),
        requests=fields.count(fields.first(record, ("num_prompts", "total_requests"))),
        completed=fields.count(record.get("completed")),
        errors=failed if failed is not None else _errors(record.get("errors")),
        duration_s=fields.figure(record.get("duration")),
        dataset=fields.text(record.get("dataset_name")),
    )


def _rate(value: Any) -> float | None:
    rate = fields.number_or_infinity(value)
    return rate if rate is not None and rate > 0 else None


def _errors(value: Any) -> int | None:
    """Number of error texts that are not empty."""
    texts = fields.sequence(value)
    return sum(bool(text) for text in texts) if texts else None


def lengths(record: Document, requests: pd.DataFrame | None) -> Lengths:
    """Tokens of a request that a record states, actual and requested."""
    completed = fields.count(record.get("completed"))
    sides = {}
    for side, total in (("isl", "total_input_tokens"), ("osl", "total_output_tokens")):
        mean = fields.ratio(fields.figure(record.get(total)) or None, completed)
        spread = Percentiles()
        if requests is not None:
            spread = distribution(requests.loc[requests["ok"], side])
        sides[side] = replace(spread, mean=spread.mean if mean is None else mean)
    random = {
        side: fields.positive(record.get(f"random_{side}_len")) for side in ("input", "output")
    }
    is_random = str(record.get("dataset_name") or "random").startswith("random")
    return Lengths(
        sides["isl"],
        sides["osl"],
        random["input"] if is_random else None,
        random["output"] if is_random else None,
        fields.number(record.get("random_range_ratio")) if is_random else None,
    )


def throughput(record: Document) -> Throughput:
    """Rates of a record; those of tokens follow from totals and time where they are missing."""
    duration = fields.positive(record.get("duration"))

    def rate(names: tuple[str, ...], total: str) -> float | None:
        stated = fields.figure(fields.first(record, names))
        return stated or fields.ratio(fields.positive(record.get(total)), duration)

    given = rate(("input_throughput",), "total_input_tokens")
    made = rate(("output_throughput",), "total_output_tokens")
    total = fields.figure(fields.first(record, ("total_token_throughput", "total_throughput")))
    if total is None and given is not None and made is not None:
        total = given + made
    return Throughput(rate(("request_throughput",), "completed"), given, made, total)


# ------------------------------------------------------------------------------- details


@dataclass(frozen=True, slots=True)
class Details:
    """The lists of a record: a table of requests, and every gap between pieces."""

    requests: pd.DataFrame
    itl_s: Percentiles


def details(record: Document) -> Details | None:
    """The requests of a record, None where it lists none.

    TPOT and E2E of a request come from its latency where that is listed, otherwise from its gaps.
    A request without a first token counts as failed.
    """
    columns = {
        name: fields.numbers(record.get(key))
        for name, key in (("isl", "input_lens"), ("osl", "output_lens"), ("ttft_s", "ttfts"))
    }
    known = {name: column for name, column in columns.items() if column is not None}
    if "ttft_s" not in known and not {"isl", "osl"} <= known.keys():
        return None
    size = len(next(iter(known.values())))
    if any(len(column) != size for column in known.values()):
        return None
    unknown = np.full(size, math.nan)
    isl, osl, ttft = (known.get(name, unknown) for name in columns)
    gaps = _gaps(record.get("itls"), size)
    arrivals = fields.numbers(record.get("start_times"))
    ok = np.asarray(ttft > 0) if np.any(ttft > 0) else np.asarray(osl > 0)
    decode = _decode_s(record, ttft, gaps)
    with np.errstate(all="ignore"):
        tpot = np.where(osl > 1, decode / (osl - 1), math.nan)
    table = {
        "arrival_s": _since_first(arrivals, size), "isl": isl, "osl": osl,
        "ttft_s": np.where(ok & (ttft > 0), ttft, math.nan), "tpot_s": np.where(ok, tpot, math.nan),
        "e2e_s": np.where(ok & (ttft > 0), ttft + decode, math.nan), "ok": ok,
    }  # fmt: skip
    return Details(pd.DataFrame(table), gaps[1] if gaps else Percentiles())


def _decode_s(
    record: Document,
    ttft: Floats,
    gaps: tuple[Floats, Percentiles] | None,
) -> Floats:
    """Seconds from the first to the last token of each request, NaN where it is unknown."""
    whole = fields.numbers(record.get("latencies"))
    if whole is not None and len(whole) == len(ttft):
        return np.asarray(whole - ttft)
    return gaps[0] if gaps else np.full(len(ttft), math.nan)


def _gaps(value: Any, size: int) -> tuple[Floats, Percentiles] | None:
    """(sum of the gaps of each request, all gaps), None where they are not listed."""
    lists = fields.sequence(value)
    if len(lists) != size or not size:
        return None
    sums, samples = np.zeros(size), Samples()
    for index, entry in enumerate(lists):
        gaps = fields.numbers(entry)
        if gaps is not None and len(gaps):
            sums[index] = gaps.sum()
            samples.add(gaps)
    return sums, samples.percentiles()


def _since_first(times: Floats | None, size: int) -> Floats:
    if times is None or len(times) != size or not np.isfinite(times).any():
        return np.full(size, math.nan)
    return np.asarray(times - np.nanmin(times))


def _empty_answers(record: Document, found: Details | None) -> tuple[str, ...]:
    """A note where answers without any token were counted as completed, with a TTFT of 0."""
    completed = fields.count(record.get("completed"))
    if found is None or not completed or len(found.requests) < completed:
        return ()
    answered = int(found.requests["ok"].sum())
    if not 0 < answered < completed:
        return ()
    true = distribution(found.requests["ttft_s"]).mean
    also = f"; over the others the mean TTFT is {true:.4g} s" if true else ""
    return (
        f"{completed - answered:,} of {completed:,} requests returned no token but count in the "
        f"file's means and percentiles as answered at once{also}",
    )


def _filled(record: Document, found: Details | None) -> dict[str, Percentiles]:
    """Statistics of a record; those that it does not state are computed from its requests if it
    lists all.
    """
    stated, completed = statistics(record), fields.count(record.get("completed")) or 0
    if found is None or len(found.requests) < completed:
        return stated
    ok = found.requests[found.requests["ok"]]
    own = {name: distribution(ok[name]) for name in ("ttft_s", "tpot_s", "e2e_s")}
    own["itl_s"] = found.itl_s
    return own | {name: entry for name, entry in stated.items() if entry}

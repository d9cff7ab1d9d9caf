"""Result files of serving benchmarks: the measured figures, and the load that gave them.

Read are our own `measure serving` and vLLM's `bench serve --save-result` (JSON, the same form),
SGLang's `bench_serving --output-file` (JSON lines, the last one) and GenAI-Perf's or AIPerf's
profile export (JSON).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from genz_core.errors import InvalidValue

_MOST_BYTES = 200_000_000
_LATENCIES = {"ttft": "ttft", "tpot": "tpot", "itl": "itl", "e2e": "e2el", "e2e_": "e2e_latency"}
_STATISTICS = {"mean": "mean", "p50": "median", "p90": "p90", "p95": "p95", "p99": "p99"}
#: GenAI-Perf's names: its inter-token latency is the mean gap of a request, which is a TPOT.
_GENAI_PERF = {
    "ttft": "time_to_first_token",
    "tpot": "inter_token_latency",
    "e2e": "request_latency",
}
_RATES = {"requests_per_s": "request_throughput", "output_tokens_per_s": "output_throughput"}
_SECONDS = {"ms": 1e-3, "us": 1e-6, "ns": 1e-9, "s": 1.0, "sec": 1.0}


@dataclass(frozen=True, slots=True)
class BenchmarkResult:
    """One measured run.

    tpot_s: mean.  figures: all that were measured, by the names of a simulation's figures, SI.
    load: fields of `OfferedLoad` that the file names.
    """

    tpot_s: float
    figures: Mapping[str, float]
    load: Mapping[str, Any]


def read(path: Path) -> BenchmarkResult:
    """Read a result file.

    Raises:
        InvalidValue: it cannot be read, or it holds no mean TPOT.
    """
    document = _document(path)
    genai_perf = isinstance(document.get("request_latency"), Mapping)
    figures = dict(_of_genai_perf(document) if genai_perf else _of_bench(document))
    tpot = figures.get("tpot_mean_s", math.nan)
    if not 0 < tpot < math.inf:
        raise InvalidValue(
            f"{path.name} has no mean TPOT (mean_tpot_ms, or inter_token_latency): is it the "
            "result of vllm bench serve, sglang.bench_serving or genai-perf?"
        )
    load = _load_of_genai_perf(document) if genai_perf else _load_of_bench(document, path.name)
    return BenchmarkResult(tpot, figures, load)


def _document(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise InvalidValue(f"{path.name} has more than {_MOST_BYTES:,} bytes: no result file")
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InvalidValue(f"{path}: cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise InvalidValue(f"{path.name} is no text: give the JSON of a benchmark") from None
    for candidate in (text, text.strip().rpartition("\n")[2]):
        try:
            document = json.loads(candidate)
        except (ValueError, RecursionError):
            continue
        if isinstance(document, dict):
            return document
    raise InvalidValue(f"{path.name} is no JSON object: give the result of a benchmark")


# ------------------------------------------------------------------------------- vLLM, SGLang


def _of_bench(document: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    for name, theirs in _LATENCIES.items():
        for what, word in _STATISTICS.items():
            value = _number(document.get(f"{word}_{theirs}_ms"))
            if math.isfinite(value):
                yield f"{name.rstrip('_')}_{what}_s", value / 1e3
    for name, theirs in _RATES.items():
        value = _number(document.get(theirs))
        if math.isfinite(value):
            yield name, value


def _load_of_bench(document: Mapping[str, Any], name: str) -> dict[str, Any]:
    completed = _number(document.get("completed"))
    requests = int(completed) if completed >= 1 else 0
    load: dict[str, Any] = {"requests": requests} if requests else {}
    load |= _arrivals(document, requests, name)
    return load | _lengths(document, requests)


def _arrivals(document: Mapping[str, Any], requests: int, name: str) -> dict[str, Any]:
    """What the file says of arrivals: a rate, or a closed loop.

    Raises:
        InvalidValue: a rate that a concurrency held back.
    """
    rate, most = _number(document.get("request_rate")), _number(document.get("max_concurrency"))
    if 0 < rate < math.inf:
        if most >= 1:
            raise InvalidValue(
                f"{name} was measured at {rate:g} requests/s held back to {most:g} open ones: say "
                "which of the two held, with --rate or --concurrency"
            )
        burstiness = _number(document.get("burstiness"))
        return {"rate": rate, "burstiness": burstiness if burstiness > 0 else 1.0}
    if most >= 1 or requests:
        return {"concurrency": int(most) if most >= 1 else requests}
    return {}


def _lengths(document: Mapping[str, Any], requests: int) -> dict[str, Any]:
    """Lengths of every request where they were saved, those that were asked for, or the means."""
    each = [document.get(f"{side}_lens") for side in ("input", "output")]
    if all(isinstance(lengths, list) and lengths for lengths in each):
        pairs = np.array(list(zip(*each, strict=False)), dtype=float)
        return {"lengths": pairs[(pairs >= 1).all(axis=1)]}
    ratio = _number(document.get("random_range_ratio"))
    asked = [_number(document.get(f"random_{side}_len")) for side in ("input", "output")]
    if document.get("dataset_name") == "random" and 0 < ratio <= 1 and min(asked) >= 1:
        return {"isl": int(asked[0]), "osl": int(asked[1]), "length_ratio": ratio}
    totals = [_number(document.get(f"total_{side}_tokens")) for side in ("input", "output")]
    if requests and min(totals) >= requests:
        return {"isl": round(totals[0] / requests), "osl": round(totals[1] / requests)}
    return {}


# ------------------------------------------------------------------------------- GenAI-Perf


def _of_genai_perf(document: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    for name, theirs in _GENAI_PERF.items():
        entry = document.get(theirs)
        if not isinstance(entry, Mapping):
            continue
        unit = _SECONDS.get(str(entry.get("unit", "ms")), 1e-3)
        for what in _STATISTICS:
            value = _number(entry.get("avg" if what == "mean" else what))
            if math.isfinite(value):
                yield f"{name}_{what}_s", value * unit


def _load_of_genai_perf(document: Mapping[str, Any]) -> dict[str, Any]:
    load: dict[str, Any] = {}
    for name, theirs in (("isl", "input_sequence_length"), ("osl", "output_sequence_length")):
        entry = document.get(theirs)
        mean = _number(entry.get("avg")) if isinstance(entry, Mapping) else math.nan
        if mean >= 1:
            load[name] = round(mean)
    config = document.get("input_config")
    for name, theirs in (("concurrency", "concurrency"), ("rate", "request_rate")):
        value = _number(_deep(config, theirs))
        if 0 < value < math.inf:
            return load | {name: int(value) if name == "concurrency" else value}
    return load


def _deep(value: Any, name: str) -> Any:
    """The first entry of that name that holds a number, at any depth of a document."""
    if not isinstance(value, Mapping):
        return None
    if isinstance(value.get(name), (int, float)):
        return value[name]
    found = (_deep(inner, name) for inner in value.values())
    return next((entry for entry in found if entry is not None), None)


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return math.nan

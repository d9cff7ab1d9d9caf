"""Result files of vLLM's serving benchmark with chosen fields."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from profilers.serving_results import ServingMeasurement, read_results

#: A closed loop of eight users on one H100, in the field names of `vllm bench serve`.
RUN: dict[str, Any] = {
    "date": "20261101-120000", "endpoint_type": "vllm", "backend": "vllm",
    "model_id": "meta-llama/Llama-3.1-8B", "num_prompts": 80, "request_rate": "inf",
    "max_concurrency": 8, "duration": 92.0, "completed": 80, "failed": 0,
    "total_input_tokens": 81920, "total_output_tokens": 81920, "request_throughput": 0.87,
    "output_throughput": 890.0, "total_token_throughput": 1780.0,
    "mean_ttft_ms": 90.0, "median_ttft_ms": 85.0, "std_ttft_ms": 12.0, "p99_ttft_ms": 150.0,
    "mean_tpot_ms": 8.9, "median_tpot_ms": 8.9, "std_tpot_ms": 0.2, "p99_tpot_ms": 9.6,
    "mean_itl_ms": 8.9, "mean_e2el_ms": 9200.0, "p99_e2el_ms": 9500.0,
}  # fmt: skip
#: Parameters that the file does not state.
HARDWARE = {"system": "h100", "tp": 1, "weights": "bf16"}


#: Times of single requests [s], as vLLM's client lists them.
_LISTS = ("ttfts", "itls", "start_times", "latencies")


def _longer(seconds: Any, factor: float) -> Any:
    if isinstance(seconds, list):
        return [_longer(one, factor) for one in seconds]
    return seconds * factor


def slower(run: dict[str, Any], factor: float) -> dict[str, Any]:
    """The same run with latencies multiplied and rates divided by a factor."""
    changed = {
        name: value * factor
        for name, value in run.items()
        if name.endswith("_ms") or name == "duration"
    }
    changed |= {name: run[name] / factor for name in run if name.endswith("_throughput")}
    changed |= {name: _longer(run[name], factor) for name in _LISTS if name in run}
    return {**run, **changed}


def halved_gaps(run: dict[str, Any]) -> dict[str, Any]:
    """The same run by a client that counts two stream chunks per token."""
    gaps = ("_tpot_ms", "_itl_ms")
    return {**run, **{name: run[name] / 2 for name in run if name.endswith(gaps)}}


def measured_as(run: dict[str, Any], ttft_s: float, tpot_s: float) -> dict[str, Any]:
    """The same closed loop with other mean latencies; percentiles, E2E, duration and rates are
    derived from them.
    """
    requests, tokens = run["completed"], run["total_output_tokens"]
    e2e_s = ttft_s + (tokens / requests - 1) * tpot_s
    duration = requests * e2e_s / min(run["max_concurrency"], requests)
    means = {"ttft": ttft_s, "tpot": tpot_s, "itl": tpot_s, "e2el": e2e_s}
    changed = {
        name: value * means[name.split("_")[1]] * 1e3 / run[f"mean_{name.split('_')[1]}_ms"]
        for name, value in run.items()
        if name.endswith("_ms")
    }
    changed |= {"duration": duration}
    changed |= {"request_throughput": requests / duration, "output_throughput": tokens / duration}
    return {**run, **changed, "total_token_throughput": 2 * tokens / duration}


@pytest.fixture
def result(tmp_path: Path) -> Callable[..., Path]:
    """Writes a record to a file."""

    def write(record: dict[str, Any], name: str = "result.json") -> Path:
        path = tmp_path / name
        path.write_text(json.dumps(record), encoding="utf-8")
        return path

    return write


@pytest.fixture
def read(result: Callable[..., Path]) -> Callable[..., ServingMeasurement]:
    """Reads a record back."""

    def measured(record: dict[str, Any]) -> ServingMeasurement:
        [found] = read_results(result(record))
        return found

    return measured

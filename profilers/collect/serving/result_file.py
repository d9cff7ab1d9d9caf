"""A served load as figures, and as the document that `vllm bench serve --save-result` writes.

The names and definitions are vLLM's (vllm/benchmarks/serve.py, `calculate_metrics`): TPOT is the
time after the first token over the tokens after the first, ITL the gaps between pieces.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from genz_core.types import Array
from profilers.collect.serving.client import Server
from profilers.collect.serving.closed_loop import ServedLoad

PERCENTILES = (50, 90, 95, 99)


def lengths(served: ServedLoad) -> tuple[Array, Array]:
    """Prompt and output tokens, [requests]: as counted by the server, otherwise as requested."""
    pairs = zip(served.answers, served.asked, strict=True)
    counted = [
        (answer.prompt_tokens or isl, answer.output_tokens or len(answer.chunks_s))
        for answer, (isl, _) in pairs
    ]
    read, written = np.array(counted, dtype=float).T
    return read, written


def latencies(served: ServedLoad) -> dict[str, Array]:
    """ttft_s, tpot_s, itl_s and e2e_s of a load; tpot_s only of requests with at least two
    tokens.
    """
    answers = served.answers
    ttft = np.array([answer.ttft_s for answer in answers])
    e2e = np.array([answer.e2e_s for answer in answers])
    _, written = lengths(served)
    several = written > 1
    gaps = [np.diff(answer.chunks_s) for answer in answers]
    return {
        "ttft_s": ttft,
        "tpot_s": (e2e - ttft)[several] / (written - 1)[several],
        "itl_s": np.concatenate(gaps),
        "e2e_s": e2e,
    }


def figures(served: ServedLoad) -> dict[str, float]:
    """Figures under the names that a simulation uses: mean and percentiles of each latency, and
    rates.
    """
    read, written = lengths(served)
    named = {
        "requests": float(len(served.answers)),
        "seconds": served.seconds,
        "requests_per_s": len(served.answers) / served.seconds,
        "input_tokens_per_s": float(read.sum()) / served.seconds,
        "output_tokens_per_s": float(written.sum()) / served.seconds,
    }
    for name, values in latencies(served).items():
        for what, value in _statistics(values):
            named[f"{name.removesuffix('_s')}_{what}_s"] = value
    return named


def document(served: ServedLoad, server: Server, facts: Mapping[str, Any]) -> dict[str, Any]:
    """The result file of a load.

    facts: entries of its own beside vLLM's: the engine and its version, the machine.
    """
    load, named = served.load, figures(served)
    read, written = lengths(served)
    parts = {"ttft": "ttft", "tpot": "tpot", "itl": "itl", "e2e": "e2el"}
    words = {"mean": "mean", "p50": "median", **{f"p{p}": f"p{p}" for p in PERCENTILES[1:]}}
    milliseconds = {
        f"{word}_{theirs}_ms": named[f"{ours}_{what}_s"] * 1e3
        for ours, theirs in parts.items()
        for what, word in words.items()
    }
    return {
        "client": "ridgeline",
        "date": datetime.datetime.now().strftime("%Y%m%d-%H%M%S"),
        "backend": "openai",
        "model_id": server.model,
        "num_prompts": len(served.answers),
        "request_rate": "inf",
        "max_concurrency": load.concurrency,
        "random_range_ratio": load.length_ratio,
        "seed": load.seed,
        "ignore_eos": bool(server.body.get("ignore_eos")),
        "prompt_tokens_counted": served.counted,
        **facts,
        "duration": served.seconds,
        "completed": len(served.answers),
        "total_input_tokens": int(read.sum()),
        "total_output_tokens": int(written.sum()),
        "request_throughput": named["requests_per_s"],
        "output_throughput": named["output_tokens_per_s"],
        "total_token_throughput": named["input_tokens_per_s"] + named["output_tokens_per_s"],
        **milliseconds,
        "start_times": [answer.sent_s - served.started_s for answer in served.answers],
        "input_lens": read.astype(int).tolist(),
        "output_lens": written.astype(int).tolist(),
        "ttfts": [answer.ttft_s for answer in served.answers],
        "itls": [np.diff(answer.chunks_s).tolist() for answer in served.answers],
    }


def _statistics(values: Array) -> Iterator[tuple[str, float]]:
    """Mean and percentiles by name; NaN where there are no values."""
    yield "mean", float(values.mean()) if values.size else float("nan")
    for percent in PERCENTILES:
        yield f"p{percent}", float(np.percentile(values, percent)) if values.size else float("nan")


def table(loads: Sequence[ServedLoad]) -> list[dict[str, Any]]:
    """A row a load: mean and percentiles of TTFT and TPOT [s], and rates."""
    rows = []
    for served in loads:
        named = figures(served)
        columns = [
            f"{name}_{what}_s" for name in ("ttft", "tpot") for what in ("mean", "p50", "p99")
        ]
        rates = ("requests_per_s", "output_tokens_per_s")
        rows.append(
            {
                "concurrency": served.load.concurrency,
                "requests": len(served.answers),
                **{name: named[name] for name in (*columns, *rates)},
            }
        )
    return rows

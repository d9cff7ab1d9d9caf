"""Results of benchmarks that a visitor uploads, and samples."""

from __future__ import annotations

from collections.abc import Mapping

import streamlit as st

from app.benchmarks.reading import SentResult, read_sent, size_of
from app.dashboard import uploads
from app.wording.markdown import plain
from profilers.serving_results import ServingMeasurement, server_log

#: Samples by title: files in `app/samples`.
SAMPLES: Mapping[str, str] = {
    "Llama 3.1 405B, SGLang, six loads": "sglang_llama-3.1-405b.jsonl",
    "Qwen3-0.6B, ten requests (AIPerf)": "aiperf_qwen3-0.6b_concurrency1.jsonl",
}
#: Files as they came with their runs, by name.
Files = dict[str, tuple[SentResult, list[ServingMeasurement]]]
#: A server says what it is before its first request.
_LOG_BYTES = 4_000_000
_RESULTS = uploads.Reader(read_sent, size_of, most_bytes=128 << 20)


def picker() -> Files:
    """Draw the upload box and the samples; returns the files that can be read, by name."""
    own, sampled = uploads.box(
        "Results of benchmarks", "benchmark", SAMPLES,
        help="vLLM, SGLang, llama-bench, AIPerf, GenAI-Perf, GuideLLM, trtllm-bench, "
        "inference-perf and more, or a CSV, and the log of the server that ran beside them. What a "
        "file holds decides how it is read.",
    )  # fmt: skip
    texts = {at: content[:_LOG_BYTES].decode("utf-8", "replace") for at, _, content in own}
    logs = {
        at: server_log.parse(text, at) for at, text in texts.items() if server_log.is_text(text)
    }
    results = [one for one in (*own, *sampled) if one[0] not in logs]
    found = _RESULTS.read_all((at, SentResult(name, text)) for at, name, text in results)
    for log in logs.values():
        st.caption(f"A log of {log.engine}: {plain('; '.join(log.sentences))}.")
    told = list(logs.values())
    return {name: (sent, server_log.with_logs(runs, told)) for name, (sent, runs) in found.items()}

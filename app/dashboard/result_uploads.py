"""Results of benchmarks that a visitor uploads, and samples."""

from __future__ import annotations

from collections.abc import Mapping

from app.benchmarks.reading import SentResult, read_sent, size_of
from app.dashboard import uploads
from profilers.serving_results import ServingMeasurement

#: Samples by title: files in `app/samples`.
SAMPLES: Mapping[str, str] = {
    "Llama 3.1 405B, SGLang, six loads": "sglang_llama-3.1-405b.jsonl",
    "Qwen3-0.6B, ten requests (AIPerf)": "aiperf_qwen3-0.6b_concurrency1.jsonl",
}
#: Files as they came with their runs, by name.
Files = dict[str, tuple[SentResult, list[ServingMeasurement]]]
_RESULTS = uploads.Reader(read_sent, size_of, most_bytes=128 << 20)


def picker() -> Files:
    """Draw the upload box and the samples; returns the files that can be read, by name."""
    own, sampled = uploads.box(
        "Results of benchmarks", "benchmark", SAMPLES,
        help="vLLM, SGLang, llama-bench, AIPerf, GenAI-Perf, GuideLLM, trtllm-bench, "
        "inference-perf and more, or a CSV. What a file holds decides how it is read.",
    )  # fmt: skip
    return _RESULTS.read_all((at, SentResult(name, text)) for at, name, text in (*own, *sampled))

"""Results of benchmarks that a visitor uploads, and samples: read once, large ones by a job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import streamlit as st

from app.benchmarks.reading import SentResult, read_sent, size_of
from app.dashboard.byte_cache import ByteCache
from app.dashboard.uploads import digest, read_by_job, unlike
from app.jobs import READING
from app.measuring.report_reading import reads_quickly
from app.wording.markdown import plain
from genz_core.errors import RidgelineError
from profilers.serving_results import ServingMeasurement

MAX_UPLOAD_MB = 200
#: Samples by title: files in `app/samples`.
SAMPLES: Mapping[str, str] = {
    "Llama 3.1 405B, SGLang, six loads": "sglang_llama-3.1-405b.jsonl",
    "Qwen3-0.6B, ten requests (AIPerf)": "aiperf_qwen3-0.6b_concurrency1.jsonl",
}
#: Files as they came with their runs, by name.
Files = dict[str, tuple[SentResult, list[ServingMeasurement]]]
_FOLDER = Path(__file__).parents[1] / "samples"
_RESULTS = ByteCache[list[ServingMeasurement]](most_bytes=128 << 20, ttl_s=3600.0)
_LANE = replace(READING, result_bytes=_RESULTS.most_bytes // 2)


def picker() -> Files:
    """Draw the upload box and the samples; returns the files that can be read, by name.

    One that cannot be read is shown as its error, a large one as its progress until it is there.
    """
    files = st.file_uploader(
        "Results of benchmarks",
        accept_multiple_files=True,
        max_upload_size=MAX_UPLOAD_MB,
        key="benchmark_files",
        help="vLLM, SGLang, llama-bench, AIPerf, GenAI-Perf, GuideLLM, trtllm-bench, "
        "inference-perf and more, or a CSV. What a file holds decides how it is read.",
    )
    chosen = st.pills(
        "Or try a sample", list(SAMPLES), selection_mode="multi", key="benchmark_samples"
    )
    sent = [(file.file_id, SentResult(file.name, file.getvalue())) for file in files]
    sent += [(name, SentResult(SAMPLES[name], _sample(name))) for name in chosen]
    found: Files = {}
    for file_id, one in sent:
        try:
            measurements = _read(digest(file_id, one.content), one)
        except RidgelineError as error:
            st.error(plain(error), icon=":material/error:")
            continue
        if measurements is not None:
            found[unlike(one.name, found)] = one, measurements
    return found


def _sample(name: str) -> bytes:
    return (_FOLDER / SAMPLES[name]).read_bytes()


def _read(digest: str, sent: SentResult) -> list[ServingMeasurement] | None:
    """The runs of a file, shared and not to be changed; None while a job reads them.

    Raises:
        RidgelineError: it cannot be read.
    """
    key = (digest, sent.name)
    found = _RESULTS.get(key)
    if found is None:
        quick = reads_quickly(sent.content)
        job = f"result {hash(key):x}"
        found = read_sent(sent) if quick else read_by_job(job, read_sent, sent, _LANE)
        if found is not None:
            _RESULTS.put(key, found, size_of(found))
    return found

"""Real results: the reader finds the figures that each file states.

RIDGELINE_RESULTS names a folder with the uncut files and facts.json, if there is one.
"""

import json
import math
import os
from pathlib import Path
from typing import Any

import pytest

from genz_core.errors import ReportError
from profilers.serving_results import is_result, missing, read_results, table

#: File -> its number of measurements, and figures of one of them as the file states them.
FACTS: dict[str, tuple[int, int, dict[str, Any]]] = {
    "vllm/llama405b_16qps_first40.json": (1, 0, {
        "model": "meta-llama/Llama-3.1-405B-FP8", "engine": "vllm", "rate": 16.0,
        "requests": 1000, "duration_s": 100.66741408899998, "isl": 215.196, "osl": 120.689,
        "ttft_p99_s": 9.912536467760054, "tpot_p50_s": 0.11245452213559826,
        "output_tokens_per_s": 1198.8884495761356,
    }),
    "vllm/mi300x_console.txt": (23, 5, {
        "duration_s": 8.49, "requests": 32, "isl": 81.0625, "osl": 58.03125,
        "ttft_mean_s": 1.546, "tpot_p99_s": 0.11837, "output_tokens_per_s": 218.64,
        "engine": "vllm", "concurrency": None,
    }),
    "vllm/h100x8_ip128_op2048_np32.json": (1, 0, {
        "duration_s": 78.370050558, "isl": 128, "osl": 2048, "requests": 32,
        "output_tokens_per_s": 836.237817040812, "requests_per_s": 0.408319246601959,
        "device": "H100", "devices": 8,
    }),
    "vllm/pd_ratio_first8.csv": (8, 0, {
        "concurrency": 128, "model": "openai/gpt-oss-120b", "engine": None,
        "tpot_mean_s": 0.010361619411763392, "ttft_mean_s": 0.33578628439001477,
        "output_tokens_per_s": 9204.001909951025, "label": "prefill 1 x decode 1",
    }),
    "sglang/llama_405b_online_output.jsonl": (6, 3, {
        "rate": 8.0, "completed": 2400, "e2e_mean_s": 245.3577226617783,
        "itl_p50_s": 0.18974614795297384, "output_tokens_per_s": 1820.6538850305435,
    }),
    "aiperf/profile_export_aiperf.json": (1, 0, {
        "concurrency": 1, "duration_s": 255.56017270100003, "isl": 100, "osl": 199.984375,
        "tpot_mean_s": 0.01819909533160138, "ttft_p99_s": 0.034344268879999994,
        "requests_per_s": 0.2504302580624667, "model": "Qwen/Qwen3-0.6B",
        "device": "NVIDIA RTX 6000 Ada Generation", "devices": None,
    }),
    "aiperf/profile_export.jsonl": (1, 0, {"requests": 4, "osl": 200, "errors": 0}),
    "guidellm/report_v2.json": (2, 1, {
        "rate": 4.0, "concurrency_mean": 0.014002883804198177, "isl": 65.5, "osl": 8.0,
        "itl_mean_s": 0.0010904414313180105, "tpot_p99_s": 0.0023833811283111572,
        "ttft_p50_s": 0.009419918060302734, "output_tokens_per_s": 6.377131566888984,
        "model": "e2e-mock-model", "tool_version": "0.8.0.dev18",
    }),
    "guidellm/guidellm_0.8.1.csv": (1, 0, {
        "concurrency": 3, "completed": 12, "isl": 63.0, "osl": 16.0, "model": "m",
        "label": "concurrent",
    }),
    "aiperf/aiperf_0.13_poisson.json": (1, 0, {
        "rate": 8.0, "burstiness": 1.0, "concurrency": None, "requests": 20, "model": "m",
        "tool_version": "0.13.0", "ttft_p99_s": 0.09378267518999991, "isl": 32.0,
    }),
    "inference_perf/stage_3_lifecycle_metrics.json": (1, 0, {
        "rate": 111.92, "rate_achieved": 111.92445601750451, "requests": 6715,
        "e2e_p99_s": 2.056480849154759, "itl_p50_s": 4.83350595459342e-05,
        "tpot_mean_s": 0.012019587185668208, "osl": 62.80029784065525,
    }),
    "inference_perf/lifecycle.yaml": (1, 0, {"rate": 1.0, "rate_achieved": 1.5, "requests": 3}),
    "inference_perf/stage_3_prometheus_metrics.json": (1, 0, {
        "ttft_p99_s": 0.485227, "requests_per_s": 167.527364, "isl": 33840.097857 / 167.527364,
    }),
    "inferencex/minimax_m25_vllm_tep8_isl8192_osl128_conc32.json": (1, 0, {
        "concurrency": 32, "isl": 8192, "osl": 128, "ttft_p50_s": 6.681569178588688,
        "tpot_p99_s": 0.11419872175066138, "degrees": "tp 8, ep 8", "engine": "vllm",
        "device": None,
    }),
    "llama_bench/llama-bench_rtx4080.json": (2, 1, {
        "label": "tg128", "phase": "decode", "output_tokens_per_s": 118.881588,
        "tpot_mean_s": 1.07676788 / 128, "device": "NVIDIA GeForce RTX 4080", "devices": 1,
        "model": "Qwen2.5-7B-Instruct-Q4_K_M.gguf", "precision": "Q4_K - Medium",
        "tool_version": "b5163 8cf427ff",
    }),
    "llama_bench/llama-bench_rtx4080.csv": (2, 0, {
        "label": "pp512", "phase": "prefill", "input_tokens_per_s": 7285.676949,
        "ttft_mean_s": 0.070285660,
    }),
    "llama_bench/llama-bench_qwen2_7b.md": (4, 2, {
        "label": "pp512 @ d512", "context": 512, "input_tokens_per_s": 6425.91,
        "model": "qwen2 7B Q4_K - Medium", "device": None,
    }),
    "llama_bench/rx7900xtx_vulkan_benchmark_20251211_072744.txt": (12, 8, {
        "label": "pp512", "input_tokens_per_s": 828.43, "devices": 2,
        "device": "AMD Radeon RX 7900 XTX (RADV NAVI31)", "tool_version": "b7356 34ce48d97",
    }),
    "llmd/br_v0_2_1_example.yaml": (1, 0, {
        "model": "Qwen/Qwen3-0.6B", "device": "NVIDIA-H100-80GB-HBM3", "devices": 8,
        "rate": 10.0, "requests": 500, "ttft_p50_s": 0.03622930939309299, "engine": "vllm",
        "duration_s": 49.97206788184121, "date": "2025-11-05T18:00:42Z",
    }),
    "llmperf/anyscale_70b_first30.json": (1, 0, {"requests": 30, "isl": 550, "model": None}),
}  # fmt: skip


@pytest.mark.parametrize("name", FACTS)
def test_the_figures_of_a_real_file_are_found(results: Path, name: str) -> None:
    count, index, facts = FACTS[name]
    found = read_results(results / name)
    assert len(found) == count
    row = table(found)[index]
    for column, value in facts.items():
        expected = pytest.approx(value, rel=1e-9) if isinstance(value, float) else value
        assert row[column] == expected, column


@pytest.mark.parametrize("name", FACTS)
def test_a_real_result_is_told_from_a_profilers_report(results: Path, name: str) -> None:
    assert is_result(results / name)


def test_what_no_file_says_is_asked(results: Path) -> None:
    [summary] = read_results(results / "aiperf" / "profile_export_aiperf.json")
    assert missing(summary) == ("devices", "engine", "precision")
    llama = read_results(results / "llama_bench" / "llama-bench_rtx4080.json")
    assert missing(llama[0]) == ()


def test_guidellms_tpot_holds_the_first_token_and_is_not_taken_for_the_gap(results: Path) -> None:
    found = read_results(results / "guidellm" / "report_v2.json")[0]
    assert found.tpot_includes_first
    assert found.decode_tpot_s.mean == found.itl_s.mean < found.tpot_s.mean


def test_records_give_a_row_a_request_and_every_gap(results: Path) -> None:
    [found] = read_results(results / "aiperf" / "profile_export.jsonl")
    assert found.requests is not None and len(found.requests) == 4
    assert found.requests["arrival_s"][0] == 0 and found.requests["ttft_s"][0] == 0.031742934
    assert found.itl_s.count == 4 * 199


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("aiperf/gpu_telemetry_export.jsonl", "GPU telemetry export; give profile_export_aiperf"),
        ("prometheus/vllm_v0.26.0_families.txt", "without a value; save its /metrics page"),
    ],
)
def test_a_file_beside_results_is_refused_by_its_name(results: Path, name: str, words: str) -> None:
    assert is_result(results / name)
    with pytest.raises(ReportError, match=words):
        read_results(results / name)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("azure.csv", "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03,4808,10\n"),
        ("mooncake.jsonl", '{"timestamp": 0, "input_length": 9, "output_length": 6}\n' * 2),
    ],
)
def test_a_trace_of_requests_is_refused_with_where_it_is_taken(
    tmp_path: Path, name: str, text: str
) -> None:
    (tmp_path / name).write_text(text)
    assert is_result(tmp_path / name)
    with pytest.raises(ReportError, match="a load and not a result"):
        read_results(tmp_path / name)


# ------------------------------------------------------------------------------- the originals

_SAME = {
    "isl_mean": "isl", "osl_mean": "osl", "request_rate_per_s": "rate", "model": None,
    "requested_rate_per_s": "rate", "achieved_rate_per_s": "rate_achieved",
    "max_concurrency": "concurrency",
}  # fmt: skip


def test_every_fact_of_the_uncut_files_is_found() -> None:
    folder = Path(os.environ.get("RIDGELINE_RESULTS", ""))
    if not (folder / "facts.json").is_file():
        pytest.skip("RIDGELINE_RESULTS names no folder with the uncut results and facts.json")
    checked = 0
    for name, facts in json.loads((folder / "facts.json").read_text()).items():
        if name.startswith(("rocprofv3", "unitrace", "prometheus")) or "telemetry" in name:
            continue
        rows = table(read_results(folder / name))
        assert len(rows) == len(facts.get("each", rows)), name
        for row, own in zip(rows, facts.get("each", [facts]), strict=False):
            checked += _compare(row, own, name)
    assert checked > 500


def _compare(row: dict[str, Any], facts: dict[str, Any], name: str) -> int:
    checked = 0
    for key, stated in facts.items():
        column = _SAME.get(key, key.replace("_median_s", "_p50_s"))
        value = math.inf if stated == "inf" else stated
        if column in row and isinstance(value, int | float):
            assert row[column] == pytest.approx(value, rel=1e-9), (name, key)
            checked += 1
    return checked

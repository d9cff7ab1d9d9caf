"""Result files of vLLM, SGLang and GenAI-Perf; other files are refused in one sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from app.benchmarks import benchmark_result
from app.question.query import ask
from genz_core.errors import InvalidValue

VLLM: dict[str, Any] = {
    "date": "20261101-120000", "endpoint_type": "vllm", "model_id": "m", "num_prompts": 320,
    "request_rate": "inf", "burstiness": 1.0, "max_concurrency": 32, "duration": 195.0,
    "completed": 320, "total_input_tokens": 320 * 1000, "total_output_tokens": 320 * 900,
    "mean_ttft_ms": 250.0, "median_ttft_ms": 200.0, "std_ttft_ms": 120.0, "p99_ttft_ms": 900.0,
    "mean_tpot_ms": 21.3, "median_tpot_ms": 21.0, "p99_tpot_ms": 25.0, "mean_itl_ms": 21.2,
    "mean_e2el_ms": 19_000.0,
}  # fmt: skip
SGLANG: dict[str, Any] = {
    "backend": "sglang", "dataset_name": "random", "request_rate": 4.0, "max_concurrency": None,
    "random_input_len": 1024, "random_output_len": 512, "random_range_ratio": 0.5,
    "completed": 1000, "total_input_tokens": 768_000, "total_output_tokens": 384_000,
    "mean_e2e_latency_ms": 4_680.0, "mean_ttft_ms": 80.0, "mean_tpot_ms": 12.0, "p95_itl_ms": 30.0,
}  # fmt: skip
GENAI_PERF: dict[str, Any] = {
    "request_latency": {"unit": "ms", "avg": 5000.0, "p99": 6000.0},
    "time_to_first_token": {"unit": "ms", "avg": 120.0, "p50": 100.0, "p99": 300.0},
    "inter_token_latency": {"unit": "ms", "avg": 15.0, "p99": 20.0},
    "input_sequence_length": {"unit": "tokens", "avg": 550.2},
    "output_sequence_length": {"unit": "tokens", "avg": 256.0},
    "input_config": {"perf_analyzer": {"stimulus": {"concurrency": 10}}},
}


def read(tmp_path: Path, document: Any, name: str = "result.json"):
    path = tmp_path / name
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return benchmark_result.read(path)


def test_vllms_result(tmp_path):
    result = read(tmp_path, VLLM)
    assert result.tpot_s == pytest.approx(0.0213)
    assert result.load == {
        "requests": 320, "concurrency": 32, "burst_start": True, "isl": 1000, "osl": 900,
    }  # fmt: skip
    assert result.figures["ttft_p50_s"] == pytest.approx(0.2)
    assert result.figures["e2e_mean_s"] == pytest.approx(19.0)


def test_lengths_of_every_request_are_taken_where_they_were_saved(tmp_path):
    detailed = {**VLLM, "input_lens": [10, 20, 0], "output_lens": [1, 2, 0]}
    assert read(tmp_path, detailed).load["lengths"].tolist() == [[10, 1], [20, 2]]


def test_sglangs_last_line(tmp_path):
    lines = [json.dumps({**SGLANG, "mean_tpot_ms": 99.0}), json.dumps(SGLANG)]
    result = read(tmp_path, "\n".join(lines) + "\n", "result.jsonl")
    assert result.tpot_s == pytest.approx(0.012)
    assert result.load == {
        "requests": 1000, "rate": 4.0, "burstiness": 1.0,
        "isl": 1024, "osl": 512, "length_ratio": 0.5,
    }  # fmt: skip
    assert result.figures["e2e_mean_s"] == pytest.approx(4.68)
    assert result.figures["itl_p95_s"] == pytest.approx(0.03)


def test_genai_perfs_inter_token_latency_is_a_tpot(tmp_path):
    result = read(tmp_path, GENAI_PERF)
    assert result.tpot_s == pytest.approx(0.015)
    assert result.load == {"isl": 550, "osl": 256, "concurrency": 10, "burst_start": True}
    assert result.figures["tpot_p99_s"] == pytest.approx(0.02)


def test_all_at_once_is_a_closed_loop_of_all(tmp_path):
    assert read(tmp_path, {**VLLM, "max_concurrency": None}).load["concurrency"] == 320


def test_a_rate_that_open_requests_held_back_is_a_closed_loop(tmp_path):
    """By Little's law, as in `compare`."""
    held = read(tmp_path, {**VLLM, "request_rate": 4.0, "request_throughput": 1.7}).load
    assert held["concurrency"] == 32 and "rate" not in held
    few = {"request_rate": 0.1, "request_throughput": 0.1, "duration": 3200.0}
    light = read(tmp_path, {**VLLM, **few}).load
    assert light["rate"] == 0.1 and "concurrency" not in light


def test_what_is_given_goes_before_what_the_file_says(tmp_path):
    result = read(tmp_path, VLLM)
    asked = result.asked({"model": "m", "rate": 2.0, "isl": 500, "osl": None})
    assert asked == {"model": "m", "rate": 2.0, "isl": 500, "osl": 900, "requests": 320}
    listed = read(tmp_path, {**VLLM, "input_lens": [10], "output_lens": [1]})
    assert "lengths" in listed.asked({}) and "lengths" not in listed.asked({"length_ratio": 0.8})
    model = {"model": "meta-llama/Llama-3.1-8B"}
    assert ask("simulate", listed.asked(model)).objects["lengths"].tolist() == [[10, 1]]
    assert ask("simulate", result.asked(model)).question.burst_start


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ("", "the file is empty"),
        ("[1, 2]", "not a benchmark result"),
        ({"mean_ttft_ms": 3.0}, "not a benchmark result"),
        ({**VLLM, "mean_tpot_ms": 0.0}, "has no mean TPOT"),
        ({**VLLM, "mean_tpot_ms": "fast"}, "has no mean TPOT"),
    ],
)
def test_what_is_no_result_is_one_sentence(tmp_path, document, words):
    with pytest.raises(InvalidValue, match=words):
        read(tmp_path, document)


def test_a_file_that_cannot_be_read_is_one_sentence(tmp_path):
    with pytest.raises(InvalidValue, match="no such file"):
        benchmark_result.read(tmp_path / "absent.json")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00" * 9)
    with pytest.raises(InvalidValue, match=r"binary data|not a benchmark result"):
        benchmark_result.read(tmp_path / "binary")

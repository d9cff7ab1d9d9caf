"""Records of vLLM's and SGLang's serving benchmarks."""

import json
from pathlib import Path
from typing import Any

import pytest

from genz_core.errors import ReportError
from profilers.serving_results import ServingMeasurement, missing, read_results, table

RESULTS = Path(__file__).parents[2] / "fixtures" / "results"
VLLM: dict[str, Any] = {
    "date": "20261101-120000", "endpoint_type": "openai", "backend": "openai", "label": None,
    "model_id": "some/model", "num_prompts": 3, "request_rate": "inf", "burstiness": 1.0,
    "max_concurrency": 2, "duration": 10.0, "completed": 3, "failed": 0,
    "total_input_tokens": 300, "total_output_tokens": 12, "request_throughput": 0.3,
    "output_throughput": 1.2, "total_token_throughput": 31.2,
    "mean_ttft_ms": 100.0, "median_ttft_ms": 100.0, "std_ttft_ms": 0.0, "p99.9_ttft_ms": 100.0,
    "mean_tpot_ms": 20.0, "p90_tpot_ms": 30.0, "mean_e2el_ms": 180.0, "p95_e2el_ms": 200.0,
}  # fmt: skip


def read(folder: Path, *records: Any) -> list[ServingMeasurement]:
    path = folder / "result"
    path.write_text("\n".join(json.dumps(record) for record in records), encoding="utf-8")
    return read_results(path)


def test_a_record_of_vllm_is_read_in_seconds(tmp_path: Path) -> None:
    [found] = read(tmp_path, VLLM)
    assert found.ttft_s.mean == pytest.approx(0.1)
    assert found.ttft_s.at[99.9] == pytest.approx(0.1)
    assert found.tpot_s.at[90] == pytest.approx(0.03)
    assert found.e2e_s.at[95] == pytest.approx(0.2)
    assert found.load.concurrency == 2 and found.load.rate == float("inf")
    assert found.lengths.isl.mean == 100 and found.lengths.osl.mean == 4
    assert found.subject.date == "2026-11-01T12:00:00"


def test_a_client_that_speaks_openai_says_nothing_of_the_engine(tmp_path: Path) -> None:
    [found] = read(tmp_path, VLLM)
    assert found.subject.engine is None
    assert missing(found) == ("device", "devices", "engine", "precision")


def test_what_a_sweep_or_metadata_adds_is_taken(tmp_path: Path) -> None:
    added = {"tensor_parallel_size": "4", "gpu": "H100", "quantization": "fp8", "backend": "vllm"}
    [found] = read(tmp_path, VLLM | added)
    assert found.subject.degrees == {"tp": 4}
    assert missing(found) == ()


def test_a_sweeps_list_and_appended_lines_are_several_measurements(tmp_path: Path) -> None:
    faster = VLLM | {"max_concurrency": 1}
    assert [m.load.concurrency for m in read(tmp_path, [VLLM, faster])] == [2, 1]
    assert [m.load.concurrency for m in read(tmp_path, VLLM, faster)] == [2, 1]


def test_details_give_a_row_a_request(tmp_path: Path) -> None:
    lists = {
        "input_lens": [100, 100, 100], "output_lens": [3, 1, 0], "ttfts": [0.1, 0.2, 0.0],
        "itls": [[0.02, 0.04], [], []], "start_times": [1000.5, 1000.0, 1001.0],
        "errors": ["", "", "timeout"],
    }  # fmt: skip
    plain = {key: value for key, value in VLLM.items() if "e2el" not in key and key != "failed"}
    [found] = read(tmp_path, plain | lists | {"completed": 2})
    assert found.requests is not None
    assert found.requests["arrival_s"].tolist() == [0.5, 0.0, 1.0]
    assert found.requests["ok"].tolist() == [True, True, False]
    assert found.requests["tpot_s"][0] == pytest.approx(0.03)
    assert found.requests["e2e_s"].tolist()[:2] == pytest.approx([0.16, 0.2])
    assert found.e2e_s.mean == pytest.approx(0.18)
    assert found.itl_s.count == 2 and found.load.errors == 1


def test_a_latency_that_is_written_as_zero_comes_from_the_requests(tmp_path: Path) -> None:
    lists = {"input_lens": [100] * 3, "output_lens": [3] * 3, "ttfts": [0.1, 0.2, 0.3],
             "itls": [[0.02, 0.04]] * 3}  # fmt: skip
    [found] = read(tmp_path, VLLM | lists | {"mean_tpot_ms": 0.0, "p90_tpot_ms": 0.0})
    assert found.tpot_s.mean == pytest.approx(0.03)
    [none] = read(tmp_path, VLLM | {"mean_tpot_ms": 0.0, "p90_tpot_ms": 0.0})
    assert not none.tpot_s


def test_requests_without_a_token_that_count_as_answered_are_said(tmp_path: Path) -> None:
    lists = {"input_lens": [9, 9, 9], "output_lens": [5, 0, 0], "ttfts": [0.3, 0.0, 0.0]}
    [found] = read(tmp_path, VLLM | lists)
    assert "2 of 3 requests returned no token" in found.notes[0]
    assert "the mean TTFT is 0.3 s" in found.notes[0]
    assert found.ttft_s.mean == pytest.approx(0.1)


def test_lists_that_were_cut_give_rows_but_no_figures_of_the_run() -> None:
    [found] = read_results(RESULTS / "vllm" / "llama405b_16qps_first40.json")
    assert found.requests is not None and len(found.requests) == 40
    assert found.ttft_s.mean == pytest.approx(1.4863937409630161)
    assert not found.e2e_s and not found.notes


def test_a_client_that_did_not_stream_measured_no_ttft(tmp_path: Path) -> None:
    zeros = {key: 0.0 for key in VLLM if "ttft" in key or "tpot" in key}
    [found] = read(tmp_path, VLLM | zeros)
    assert set(found.latencies()) == {"e2e_s"}


def test_each_line_of_sglang_is_a_measurement() -> None:
    found = read_results(RESULTS / "sglang" / "llama_405b_online_output.jsonl")
    assert [m.load.rate for m in found] == [1, 2, 4, 8, 4, 8]
    assert found[0].e2e_s.mean == pytest.approx(24.370785914754183)
    assert found[0].ttft_s.p50 == pytest.approx(0.21880842198152095)
    assert found[0].lengths.isl_asked == 1024 and found[4].lengths.isl_asked is None
    assert found[0].subject.engine == "sglang"
    assert missing(found[0]) == ("model", "device", "devices", "precision")


def test_infinity_that_json_does_not_know_is_read(tmp_path: Path) -> None:
    [found] = read(tmp_path, VLLM | {"request_rate": float("inf"), "mean_itl_ms": float("nan")})
    assert found.load.rate == float("inf") and not found.itl_s


def test_a_server_that_lists_its_arguments_names_model_and_degrees(tmp_path: Path) -> None:
    server = {"model_path": "a/b", "tp_size": 8, "quantization": "fp8", "version": "0.5.3"}
    record = {**VLLM, "backend": "sglang", "accept_length": None, "server_info": server}
    [found] = read(tmp_path, record)
    assert found.format == "sglang.bench_serving"
    assert found.subject.model == "a/b" and found.subject.degrees == {"tp": 8}
    assert found.subject.engine_version == "0.5.3"


def test_every_row_of_the_table_has_the_same_columns(tmp_path: Path) -> None:
    rows = table(
        [
            *read(tmp_path, VLLM),
            *read_results(RESULTS / "sglang" / "llama_405b_online_output.jsonl"),
        ]
    )
    assert len({tuple(row) for row in rows}) == 1
    assert rows[0]["ttft_mean_s"] == pytest.approx(0.1) and rows[0]["itl_mean_s"] is None


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "the file is empty"),
        ('{"a": 1}', "not a benchmark result"),
        (json.dumps(VLLM)[:-40], "damaged or cut off"),
        ("\x00\x01\x02", "binary data"),
        (
            '{"duration": 1, "completed": 0, "model_id": "m", "request_throughput": 0}',
            "no measured",
        ),
    ],
)
def test_what_is_no_result_is_refused_in_a_sentence(
    tmp_path: Path, content: str, words: str
) -> None:
    path = tmp_path / "result.json"
    path.write_text(content)
    with pytest.raises(ReportError, match=words):
        read_results(path)


@pytest.mark.parametrize("value, words", [
    (-5.0, "mean TTFT -0.005 s"), (float("nan"), "mean TTFT nan s"),
    (float("inf"), "mean TTFT inf s"), ("-5", "mean TTFT -0.005 s"),
])  # fmt: skip
def test_a_figure_that_cannot_be_is_left_out_and_named(
    tmp_path: Path, value: Any, words: str
) -> None:
    [found] = read(tmp_path, {**VLLM, "mean_ttft_ms": value})
    assert found.ttft_s.mean is None and found.ttft_s.p50 == pytest.approx(0.1)
    assert found.notes == (f"figures that cannot be are left out: {words}",)


def test_rates_loads_and_lengths_that_cannot_be_are_named_too(tmp_path: Path) -> None:
    [found] = read(
        tmp_path,
        {**VLLM, "output_throughput": -1.2, "duration": float("nan"), "max_concurrency": -2,
         "total_input_tokens": -300, "p90_tpot_ms": -30.0},
    )  # fmt: skip
    [note] = found.notes
    assert note.partition(": ")[2].split(", ") == [
        "p90 TPOT -0.03 s", "mean ISL -100 tokens", "output_tokens_per_s -1.2", "concurrency -2",
        "duration_s nan",
    ]  # fmt: skip
    assert found.throughput.output_tokens_per_s is None and found.load.duration_s is None
    assert found.load.concurrency is None and not found.lengths.isl


def test_zeros_and_nulls_state_nothing_and_are_not_noted(tmp_path: Path) -> None:
    [found] = read(
        tmp_path, {**VLLM, "mean_tpot_ms": 0.0, "p90_tpot_ms": 0.0, "max_concurrency": None,
                   "output_throughput": None, "request_throughput": 0.0},
    )  # fmt: skip
    assert not found.tpot_s and not found.notes
    assert found.throughput.requests_per_s == pytest.approx(0.3)


def test_a_file_with_impossible_figures_only_holds_none(tmp_path: Path) -> None:
    record = {name: VLLM[name] for name in ("duration", "completed")} | {"mean_ttft_ms": -1.0}
    with pytest.raises(ReportError, match="no measured figure"):
        read(tmp_path, {**record, "completed": 0})

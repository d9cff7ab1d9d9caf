"""ridgeline import: real reports become JSON; other files are refused in one sentence."""

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from app import cli
from app.measuring.device_by_size import devices_words
from genz_core.errors import InvalidValue, ReportError
from tests.app.pages import DECODE, PREFILL, REPORTS

QWEN = REPORTS / "torch" / "h100_Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz"
NCU = REPORTS / "ncu" / "a100_pcie_extrap.ncu-rep"
PROMISED = {
    "format", "tool_version", "devices", "kernel_count", "kernel_time_ns", "busy_time_ns",
    "top_kernel", "phases", "unattributed_share", "unclassified_share",
}  # fmt: skip


@pytest.fixture
def imported(answer) -> Callable[..., list[dict]]:
    """The figures of reports as the command prints them with --json."""
    return lambda *arguments: answer("import", *arguments)


def test_one_file_is_a_list_of_one_object_with_every_promised_key(imported):
    (summary,) = imported(QWEN)
    assert set(summary) >= PROMISED
    assert summary["devices"] == ["NVIDIA H100 80GB HBM3"]
    assert summary["kernel_count"] == 1465
    assert summary["kernel_time_ns"] == 45_432_698
    assert set(summary["top_kernel"]) == {"name", "time_ns", "count"}


def test_several_files_of_several_tools_come_in_the_order_given(imported):
    summaries = imported(DECODE, NCU, PREFILL)
    assert [summary["format"] for summary in summaries] == ["nsys-csv", "ncu-rep", "nsys-csv"]
    assert [summary["kernel_count"] for summary in summaries] == [78_016, 6, 6_660]
    assert round(summaries[0]["kernel_time_ns"] / 1e6, 2) == 179.07
    assert list(summaries[0]["phases"]) == ["decode"]


def test_a_pattern_of_the_user_tells_the_phase_before_the_usual_ones(imported):
    (summary,) = imported(QWEN, "--phase", "decode=ProfilerStep")
    assert list(summary["phases"]) == ["decode"]
    assert list(imported(QWEN)[0]["phases"]) == []


def test_a_device_without_a_name_is_said_to_be_unknown():
    assert devices_words([]) == devices_words([""]) == "unknown device"
    assert devices_words(["NVIDIA H100 80GB HBM3", ""]) == "NVIDIA H100 80GB HBM3, unknown device"


def test_a_report_that_names_no_device_prints_so(printed, tmp_path):
    report = tmp_path / "run_cuda_gpu_kern_sum.csv"
    report.write_text(
        "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name\n"
        "100.0,1000,1,1000.0,1000.0,1000,1000,0.0,gemm\n"
    )
    rows = [line.split() for line in printed("import", report).splitlines()]
    assert ["devices", "unknown", "device"] in rows


def test_the_text_names_the_longest_kernel_first(imported, printed):
    (figures,) = imported(NCU)
    text = printed("import", NCU, "--kernels", "2")
    assert text.startswith(f"{NCU.name}\n")
    rows = [line.split() for line in text.splitlines()]
    assert ["devices", "A100-PCIE-40GB"] in rows
    assert ["kernel_time_ns", str(figures["kernel_time_ns"])] in rows
    head = next(at for at, row in enumerate(rows) if row[:2] == ["name", "operator_class"])
    assert rows[head + 1][0] == figures["top_kernel"]["name"]
    assert [row[0] for row in rows[head + 1 : head + 4]] == ["vector_dot", "vector_add", "note:"]


@pytest.mark.parametrize("content", [b"", b"not a report", b'{"traceEvents": ['])
def test_what_is_no_report_is_refused_in_one_sentence(ridgeline, tmp_path: Path, content: bytes):
    file = tmp_path / "upload.json"
    file.write_bytes(content)
    refused = ridgeline("import", file).exception
    assert isinstance(refused, ReportError)
    assert str(refused).startswith("upload") and "\n" not in str(refused)


def test_a_report_cut_in_half_is_refused(ridgeline, tmp_path: Path):
    half = tmp_path / "half.ncu-rep"
    half.write_bytes(NCU.read_bytes()[: NCU.stat().st_size // 2])
    refused = ridgeline("import", half).exception
    assert isinstance(refused, ReportError) and str(refused).startswith("half")


def test_a_trace_that_breaks_off_is_read_up_to_there(imported, tmp_path: Path):
    whole = gzip.decompress(QWEN.read_bytes())
    half = tmp_path / "half.json"
    half.write_bytes(whole[: len(whole) * 3 // 4])
    (summary,) = imported(half)
    assert summary["notes"][0].startswith("the trace is cut off after event ")


def test_a_folder_of_ranks_is_compared(answer, tmp_path: Path):
    for rank in (0, 1):
        (tmp_path / f"trace_rank{rank}.json.gz").write_bytes(QWEN.read_bytes())
    (tmp_path / "run.log").write_text("hello")
    found = answer("import", tmp_path)
    assert [report["kernel_count"] for report in found["reports"]] == [1465, 1465]
    assert [row["rank"] for row in found["ranks"]] == [0, 1]
    assert list(found["left_out"]) == ["run.log"]


def test_one_bad_file_among_good_ones_ends_with_code_2(capsys, monkeypatch, tmp_path):
    (tmp_path / "empty.csv").touch()
    arguments = ["ridgeline", "import", str(NCU), str(tmp_path / "empty.csv"), "--json"]
    monkeypatch.setattr("sys.argv", arguments)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    out, err = capsys.readouterr()
    assert (ended.value.code, out) == (2, "")
    assert err.count("\n") == 1 and err.startswith("ridgeline: empty.csv")


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("decode", "--phase is 'decode'; write decode=REGEX"),
        ("=x", "--phase is '=x'; write decode=REGEX"),
        ("decode=(", "missing )"),
    ],
)
def test_a_phase_pattern_that_does_not_read_is_refused(ridgeline, pattern: str, words: str):
    refused = ridgeline("import", NCU, "--phase", pattern).exception
    assert isinstance(refused, InvalidValue) and words in str(refused)


RESULTS = REPORTS.parent / "results"


def test_a_benchmarks_result_is_read_beside_reports(imported):
    result = RESULTS / "aiperf" / "profile_export_aiperf.json"
    summary, row = imported(NCU, result)
    assert summary["format"] == "ncu-rep"
    assert row["kind"] == "benchmark result" and row["format"] == "aiperf"
    assert row["ttft_p99_s"] == pytest.approx(0.034344268879999994)
    assert row["missing"] == ["devices", "engine", "precision"]


def test_the_text_of_a_result_says_who_ran_and_what_is_not_known(printed):
    text = printed("import", RESULTS / "llama_bench" / "llama-bench_qwen2_7b.md")
    assert text.startswith("llama-bench_qwen2_7b.md: llama-bench; model qwen2 7B Q4_K - Medium")
    assert "note: the file does not say the hardware and how many devices" in text


def test_a_result_as_csv_is_read_again(printed, imported, tmp_path: Path):
    source = RESULTS / "sglang" / "llama_405b_online_output.jsonl"
    copy = tmp_path / "table.csv"
    copy.write_text(printed("import", source, "--format", "csv"))
    first, again = imported(source), imported(copy)
    assert [row["ttft_p50_s"] for row in again] == [row["ttft_p50_s"] for row in first]


def test_a_file_beside_results_is_refused_with_the_one_to_give(ridgeline):
    refused = ridgeline("import", RESULTS / "aiperf" / "gpu_telemetry_export.jsonl").exception
    assert isinstance(refused, ReportError) and "give profile_export_aiperf.json" in str(refused)

"""ridgeline import: real reports in, figures as JSON out; what is no report ends in a sentence."""

import gzip
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from app import cli
from genz_core.errors import RidgelineError

REPORTS = Path(__file__).parents[1] / "fixtures" / "reports"
DECODE = REPORTS / "csv" / "llm-perf-opt" / "decode_cuda_gpu_kern_sum.csv"
PREFILL = REPORTS / "csv" / "llm-perf-opt" / "prefill_cuda_gpu_kern_sum.csv"
QWEN = REPORTS / "torch" / "h100_Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz"
NCU = REPORTS / "ncu" / "a100_pcie_extrap.ncu-rep"
PROMISED = {
    "format", "tool_version", "devices", "kernel_count", "kernel_time_ns", "busy_time_ns",
    "top_kernel", "phases", "unattributed_share", "unclassified_share",
}  # fmt: skip


def ridgeline(*arguments: object) -> str:
    result = CliRunner().invoke(cli.cli, [str(argument) for argument in arguments])
    if result.exception is not None:
        raise result.exception
    return result.output


def imported(*arguments: object) -> list[dict]:
    return json.loads(ridgeline("import", *arguments, "--json"))


def test_one_file_is_a_list_of_one_object_with_all_that_was_promised():
    (one,) = imported(QWEN)
    assert set(one) >= PROMISED
    assert one["devices"] == ["NVIDIA H100 80GB HBM3"]
    assert one["kernel_count"] == 1465
    assert one["kernel_time_ns"] == 45_432_698
    assert set(one["top_kernel"]) == {"name", "time_ns", "count"}


def test_several_files_of_several_tools_come_in_the_order_given():
    found = imported(DECODE, NCU, PREFILL)
    assert [one["format"] for one in found] == ["nsys-csv", "ncu-rep", "nsys-csv"]
    assert [one["kernel_count"] for one in found] == [78_016, 6, 6_660]
    assert round(found[0]["kernel_time_ns"] / 1e6, 2) == 179.07
    assert list(found[0]["phases"]) == ["decode"]


def test_a_pattern_of_the_user_tells_the_phase_before_the_usual_ones():
    (one,) = imported(QWEN, "--phase", "decode=ProfilerStep")
    assert list(one["phases"]) == ["decode"]
    assert list(imported(QWEN)[0]["phases"]) == []


def test_the_text_names_the_longest_kernel_first():
    (figures,) = imported(NCU)
    printed = ridgeline("import", NCU, "--kernels", "2")
    assert printed.startswith(f"{NCU.name}\n")
    rows = [line.split() for line in printed.splitlines()]
    assert ["devices", "A100-PCIE-40GB"] in rows
    assert ["kernel_time_ns", str(figures["kernel_time_ns"])] in rows
    head = next(at for at, row in enumerate(rows) if row[:2] == ["name", "operator_class"])
    assert rows[head + 1][0] == figures["top_kernel"]["name"]
    assert [row[0] for row in rows[head + 1 : head + 4]] == ["vector_dot", "vector_add", "note:"]


@pytest.mark.parametrize("content", [b"", b"not a report", b'{"traceEvents": ['])
def test_what_is_no_report_is_refused_in_one_sentence(tmp_path: Path, content: bytes):
    file = tmp_path / "upload.json"
    file.write_bytes(content)
    with pytest.raises(RidgelineError, match="upload") as refused:
        imported(file)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("path", [QWEN, NCU], ids=lambda path: path.suffix)
def test_a_report_cut_in_half_is_refused(tmp_path: Path, path: Path):
    whole = path.read_bytes()
    if path.suffix == ".gz":  # a cut trace, not only a cut archive
        whole = gzip.decompress(whole)
    half = tmp_path / f"half{path.suffix}"
    half.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(RidgelineError):
        imported(half)


def test_one_bad_file_among_good_ones_ends_with_code_2(capsys, monkeypatch, tmp_path):
    (tmp_path / "empty.csv").touch()
    arguments = ["ridgeline", "import", str(NCU), str(tmp_path / "empty.csv"), "--json"]
    monkeypatch.setattr("sys.argv", arguments)
    with pytest.raises(SystemExit) as left:
        cli.main()
    out, err = capsys.readouterr()
    assert (left.value.code, out) == (2, "")
    assert err.count("\n") == 1 and err.startswith("ridgeline: empty.csv")


@pytest.mark.parametrize("pattern", ["decode", "=x", "decode=("])
def test_a_phase_pattern_that_does_not_read_is_refused(pattern: str):
    with pytest.raises(RidgelineError):
        imported(NCU, "--phase", pattern)

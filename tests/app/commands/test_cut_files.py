"""Truncated files: this is reported first everywhere; without a kernel they are refused."""

import gzip
from pathlib import Path

import pytest

import profilers
from app.api.errors import of_error
from app.api.uploads import Sent, imported
from genz_core.errors import ReportError
from profilers.serving_results import read_results

REPORTS = Path(__file__).parents[2] / "fixtures" / "reports"
SGLANG = "torch/inference_sglang_decode_sglang_Qwen3-8B_decode.json.gz"
H100 = "torch/h100_Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz"
KERNELS = "csv/llm-perf-opt/prefill_cuda_gpu_kern_sum.csv"


def cut(tmp_path, name, share):
    """A report without its end."""
    content = (REPORTS / name).read_bytes()
    path = tmp_path / name.rpartition("/")[2]
    path.write_bytes(content[: int(len(content) * share)])
    return path


@pytest.mark.slow
def test_a_cut_trace_says_so_first_in_text_and_json(tmp_path, own_data, printed, answer):
    path = cut(tmp_path, H100, 0.61)
    [document] = answer("import", path)
    assert "is cut off after event" in document["truncated"]
    assert document["notes"][0] == document["truncated"]
    assert printed("import", path).startswith(f"cut: {path.name}: the trace is cut off")
    assert printed("import", path).count("cut off") == 1
    given = ("--model", "Qwen/Qwen1.5-0.5B", "--system", "h100", "--as", "prefill")
    assert printed("compare", path, *given).startswith("cut: ")
    compared = answer("compare", path, *given)
    assert "is cut off after event" in compared["truncated"][0]
    assert compared["notes"][0] == compared["truncated"][0]


def test_a_whole_trace_is_not_cut(own_data, answer):
    [document] = answer("import", REPORTS / H100)
    assert document["truncated"] == ""


def test_a_cut_without_a_kernel_is_refused_and_names_the_cut_alone(tmp_path, ridgeline):
    path = cut(tmp_path, SGLANG, 0.61)
    for command in (("import", path), ("compare", path, "--model", "Qwen/Qwen3-8B")):
        result = ridgeline(*command)
        said = str(result.exception)
        assert isinstance(result.exception, ReportError)
        assert "is cut off after event" in said and "before its first kernel" in said
        assert "note:" not in result.stdout and "graph" not in said
    with pytest.raises(ReportError) as refused:
        imported([Sent(path.name, path.read_bytes())])
    assert of_error(refused.value)[0] == 422


def test_the_cut_row_of_a_table_is_left_out_and_said(tmp_path):
    content = (REPORTS / KERNELS).read_text()
    whole = profilers.read_report(REPORTS / KERNELS)
    path = tmp_path / "table.csv"
    lines = content.splitlines()
    path.write_text("\n".join([*lines[:20], lines[20][: len(lines[20]) // 3]]))
    report = profilers.read_report(path)
    assert "is cut off in row 21" in report.truncated
    assert report.notes[0] == report.truncated
    kept = report.kernels["duration_s"].to_numpy()
    assert (
        len(kept) and kept.tolist() == whole.kernels["duration_s"].to_numpy()[: len(kept)].tolist()
    )
    path.write_text("\n".join([*lines[:1], lines[1][:20]]))
    with pytest.raises(ReportError, match="is cut off in row 2"):
        profilers.read_report(path)


def test_a_table_that_ends_without_a_new_line_is_whole(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text((REPORTS / KERNELS).read_text().rstrip())
    report = profilers.read_report(path)
    assert report.truncated == ""
    assert len(report.kernels) == len(profilers.read_report(REPORTS / KERNELS).kernels)


def test_a_cut_table_of_results_says_so(tmp_path, printed, answer):
    rows = ["concurrency,isl,osl,ttft_mean_s,tpot_mean_s", "1,8,9,0.125,0.0625", "2,8,9,0.12"]
    path = tmp_path / "runs.csv"
    path.write_text("\n".join(rows))
    [one] = read_results(path)
    assert one.load.concurrency == 1 and "row 3" in one.truncated
    assert answer("import", path)[0]["truncated"] == one.truncated
    assert printed("import", path).startswith("cut: ")


def test_a_trace_cut_in_plain_text_is_the_same(tmp_path):
    text = gzip.decompress((REPORTS / H100).read_bytes())
    path = tmp_path / "plain.json"
    path.write_bytes(text[: len(text) * 3 // 5])
    assert "is cut off after event" in profilers.read_report(path).truncated

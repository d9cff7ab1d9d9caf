"""The reader is chosen by a file's content; an error is one sentence, without other effects."""

import gzip
import os
import shutil

import pytest

import profilers
from genz_core.errors import ReportError

KINDS = {
    "nsys/mock.sqlite": "nsys-sqlite",
    "ncu/a100_pcie_extrap.ncu-rep": "ncu-rep",
    "torch/inference_vllm_decode_full_graph_execution.json.gz": "torch-trace",
    "csv/llm-perf-opt/projector_cuda_gpu_kern_sum.csv": "nsys-csv",
    "csv/ncu/kernel_0001/ncu.details.csv": "ncu-csv",
    "rocprof/kernel_trace.csv": "rocprof-csv",
    "unitrace/dpc_gemm_t.txt": "unitrace",
}


@pytest.mark.by_day(14)
@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("ending", [".json", ".sqlite", ".csv", ".ncu-rep", ".nsys-rep", ""])
def test_a_report_is_recognised_under_a_wrong_file_ending(name, ending, report_path, tmp_path):
    renamed = tmp_path / f"file{ending}"
    shutil.copyfile(report_path(name), renamed)
    assert profilers.read_report(renamed).format == KINDS[name]


@pytest.mark.parametrize("name", KINDS)
def test_every_report_that_reads_sums_to_its_table(name, report_of):
    report = report_of(name)
    summary = profilers.summarise(report)
    assert summary["kernel_count"] == report.kernels["count"].sum()
    assert summary["kernel_time_s"] == pytest.approx(report.kernels["duration_s"].sum())
    by_class = summary["operator_classes"].values()
    assert sum(row["kernel_count"] for row in by_class) == summary["kernel_count"]
    total_s = sum(row["kernel_time_s"] for row in by_class)
    assert total_s == pytest.approx(summary["kernel_time_s"])
    assert 0 < summary["top_kernel"]["time_s"] <= summary["kernel_time_s"]


def test_busy_time_is_never_more_than_the_span_or_the_sum(report_of):
    for name in ("nsys/mfu_2gpu_before.sqlite", "nsys/saxpy-mpi-cuda_nsys_perlmutter0.sqlite"):
        summary = profilers.summarise(report_of(name))
        assert summary["kernel_busy_time_s"] <= summary["busy_time_s"] <= summary["span_s"]
        assert summary["kernel_busy_time_s"] <= summary["kernel_time_s"]
        assert summary["busy_time_s"] <= summary["kernel_time_s"] + summary["copy_time_s"]
        idle_s = summary["span_s"] - summary["busy_time_s"]
        assert summary["idle_time_s"] == pytest.approx(idle_s)
        assert summary["idle_share"] == pytest.approx(idle_s / summary["span_s"])


def test_what_is_no_file_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path, message in (
        (tmp_path, "not a file"),
        (tmp_path / "pipe", "not a file"),
        (tmp_path / "missing", "no such file"),
        ("bad\0name", "damaged|no such file|opened"),
    ):
        with pytest.raises(ReportError, match=message):
            profilers.read_report(path)


def test_a_message_is_one_printable_line_whatever_the_file_is_called(tmp_path):
    path = tmp_path / "x\x1b[31m\ny"
    path.write_text("hello")
    with pytest.raises(ReportError) as caught:
        profilers.read_report(path)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) <= 500


def test_a_label_stands_in_for_the_name_of_a_temporary_file(report_path):
    path = report_path("csv/llm-perf-opt/projector_cuda_gpu_kern_sum.csv")
    assert profilers.read_report(path, label="run 7.csv").label == "run 7"
    with pytest.raises(ReportError, match=r"^run 7\.csv: "):
        profilers.read_report(path.parent, label="run 7.csv")


def test_reports_of_several_ranks_are_read_together(report_path):
    reports = profilers.read_reports(report_path(name) for name in KINDS)
    assert [report.format for report in reports] == list(KINDS.values())


def test_a_packed_table_is_read(report_path, tmp_path):
    source = report_path("csv/llm-perf-opt/projector_cuda_gpu_kern_sum.csv")
    path = tmp_path / "table.csv.gz"
    path.write_bytes(gzip.compress(source.read_bytes()))
    assert profilers.read_report(path).kernels["count"].sum() == 2


def test_reading_leaves_the_file_and_its_folder_as_they_were(report_path, tmp_path):
    for name in KINDS:
        shutil.copyfile(report_path(name), tmp_path / "report")
        before = (tmp_path / "report").read_bytes()
        profilers.read_report(tmp_path / "report")
        assert (tmp_path / "report").read_bytes() == before
        assert os.listdir(tmp_path) == ["report"]


@pytest.mark.parametrize("name", ["nsys/mock.sqlite", "ncu/h800_torch_5_kernels.ncu-rep"])
def test_a_packed_database_is_read_as_the_plain_one(report_path, tmp_path, name):
    plain = report_path(name)
    packed = tmp_path / f"{plain.name}.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    first, second = profilers.read_report(plain), profilers.read_report(packed)
    assert first.label == second.label and len(first.kernels)
    assert first.kernels["name"].tolist() == second.kernels["name"].tolist()
    packed.write_bytes(packed.read_bytes()[: packed.stat().st_size // 2])
    with pytest.raises(ReportError, match="ends in the middle"):
        profilers.read_report(packed)

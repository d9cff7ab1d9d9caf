"""Ranks compared: parts add up to spans, and waits are found without a common clock."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import profilers
from genz_core.errors import ReportError
from profilers.operators.attribution import attribute
from profilers.readers.folders import read_folder
from profilers.schema import kernel_table
from profilers.timeline.ranks import compare_ranks, rank_of
from profilers.timeline.window import window_statistics

MFU = "nsys/mfu_2gpu_before.sqlite"
VLLM = "torch/inference_vllm_decode_full_graph_execution.json.gz"
ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL"


def rank(report_of, number, kernels):
    """A report of a rank with (name, start, duration) of its kernels [s]."""
    names, starts, durations = zip(*kernels, strict=True)
    table = kernel_table({"tool": "torch", "name": names, "device": 0, "process": 0,
                          "start_s": starts, "duration_s": durations})  # fmt: skip
    base = replace(report_of(VLLM), kernels=table, label=f"trace_rank{number}", facts={})
    return attribute(base)


def test_exposed_communication_is_what_no_other_kernel_covers(report_of):
    gemm = "ampere_sgemm_128x64_nn"
    first = rank(report_of, 0, [(gemm, 0.0, 2.0), (ALL_REDUCE, 1.0, 3.0), (gemm, 6.0, 1.0)])
    second = rank(report_of, 1, [(gemm, 50.0, 3.0), (ALL_REDUCE, 53.0, 1.0), (gemm, 56.0, 1.0)])
    compared = compare_ranks([second, first])
    rows = compared.rows.set_index("rank")
    assert rows["exposed_s"].tolist() == pytest.approx([2.0, 1.0])
    assert rows["communication_s"].tolist() == pytest.approx([3.0, 1.0])
    assert rows["overlap_share"].tolist() == pytest.approx([1 / 3, 0.0])
    assert rows["compute_s"].tolist() == pytest.approx([3.0, 4.0])
    assert rows["idle_s"].tolist() == pytest.approx([2.0, 2.0])
    assert rows["waiting_s"].tolist() == pytest.approx([2.0, 0.0]), "rank 0 came first"
    assert rows["last_share"].tolist() == [0.0, 1.0]
    assert compared.collectives == 1
    assert any("Rank 1 computes for 4.00 s" in sentence for sentence in compared.sentences)
    assert any("Rank 1 arrives last at 100 %" in sentence for sentence in compared.sentences)


def test_parts_of_a_rank_sum_to_its_span(report_of):
    rows = compare_ranks([report_of(MFU)]).rows
    assert len(rows) == 2, "two processes on two devices"
    parts = rows["compute_s"] + rows["exposed_s"] + rows["copying_s"] + rows["idle_s"]
    assert parts.tolist() == pytest.approx(rows["span_s"].tolist(), abs=1e-9)
    assert rows["launches"].sum() == report_of(MFU).kernels["count"].sum()


def test_a_rank_that_copies_is_not_idle(report_of):
    """Summary, timeline and ranks mean the same: a device is idle while it runs nothing."""
    report = report_of(MFU)
    rows = compare_ranks([report]).rows
    assert (rows["copying_s"] > 0.0).all()
    kernels = report.kernels.dropna(subset=["start_s", "duration_s"])
    for row, (device, of_device) in zip(rows.itertuples(), kernels.groupby("device"), strict=True):
        first, last = (
            of_device["start_s"].min(),
            (of_device["start_s"] + of_device["duration_s"]).max(),
        )
        alone = replace(
            report,
            kernels=report.kernels[report.kernels["device"] == device],
            copies=report.copies[report.copies["device"] == device],
        )
        window = window_statistics(alone, first, last)
        assert row.idle_s == pytest.approx(window.span_s - window.busy_s, abs=1e-8)


def test_the_rank_that_came_last_is_the_one_that_started_last_on_a_common_clock(report_of):
    """Both ranks of this capture share a clock, which the comparison does not use."""
    kernels = report_of(MFU).kernels
    talks = kernels[kernels["operator_class"] == "communication"].sort_values("start_s")
    starts = np.stack([rows["start_s"].to_numpy() for _, rows in talks.groupby("device")])
    rows = compare_ranks([report_of(MFU)]).rows
    share = float((starts[1] > starts[0]).mean())
    assert rows["last_share"][1] == pytest.approx(share, abs=0.07)


def test_collectives_that_do_not_correspond_are_not_matched(report_of):
    first = rank(report_of, 0, [(ALL_REDUCE, 0.0, 1.0), (ALL_REDUCE, 2.0, 1.0)])
    second = rank(report_of, 1, [(ALL_REDUCE, 0.0, 1.0)])
    compared = compare_ranks([first, second])
    assert compared.collectives == 0
    assert compared.rows["waiting_s"].isna().all()


def test_two_reports_of_something_else_are_no_ranks(report_of):
    assert compare_ranks([report_of(VLLM), report_of(MFU)]) is None
    assert compare_ranks([report_of(VLLM)]) is None
    one = rank(report_of, 0, [(ALL_REDUCE, 0.0, 1.0)])
    assert compare_ranks([one, one]) is None, "the same rank twice"


@pytest.mark.parametrize(
    ("label", "number"),
    [
        ("trace_rank3", 3),
        ("host-rank-12", 12),
        ("1751234567.89-TP-3.trace.json.gz", 3),
        ("model-TP-1", 1),
        ("worker0", 0),
        ("decode", None),
    ],
)
def test_a_file_may_name_its_rank(label, number, report_of):
    assert rank_of(replace(report_of(VLLM), facts={}), label) == number


def test_the_run_itself_names_its_rank_best(report_of):
    assert rank_of(replace(report_of(VLLM), facts={"rank": 2}), "rank7") == 2


def test_a_folder_is_read_file_by_file_and_says_what_is_no_report(report_path, tmp_path):
    import shutil

    (tmp_path / "host").mkdir()
    shutil.copyfile(report_path(VLLM), tmp_path / "rank0.json.gz")
    shutil.copyfile(report_path(VLLM), tmp_path / "host" / "rank1.json.gz")
    (tmp_path / "run.log").write_text("hello")
    (tmp_path / ".hidden").write_text("secret")
    found = read_folder(tmp_path)
    assert [path.name for path in found.paths] == ["rank1.json.gz", "rank0.json.gz"]
    assert list(found.left_out) == ["run.log"]
    assert [report.label for report in found.reports] == ["rank1", "rank0"]


def test_a_folder_without_reports_is_refused(tmp_path):
    (tmp_path / "run.log").write_text("hello")
    with pytest.raises(ReportError, match="no report in this folder"):
        read_folder(tmp_path)
    with pytest.raises(ReportError, match="no such folder"):
        read_folder(tmp_path / "missing")


def test_the_kernels_of_all_ranks_are_counted_once(report_of):
    report = report_of(MFU)
    rows = compare_ranks([report]).rows
    by_device = report.kernels.groupby("device")["duration_s"].sum()
    busy = rows["compute_s"] + rows["exposed_s"]
    assert (busy.to_numpy() <= by_device.to_numpy() + 1e-9).all()
    assert profilers.summarise(report)["kernel_count"] == rows["launches"].sum()
    assert isinstance(rows, pd.DataFrame)

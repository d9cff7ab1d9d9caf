"""Tables of a report: no kernel time is lost, and shares and changes add up."""

import pandas as pd
import pytest

from profilers.comparison.report_tables import difference, kernels_table, ranges_table
from profilers.schema import RANGE_COLUMNS, kernel_table, table

SGLANG = "torch/inference_sglang_prefilldecode_sglang_Qwen3-8B_prefilldecode.json.gz"
PREFILL = "csv/llm-perf-opt/prefill_cuda_gpu_kern_sum.csv"
DECODE = "csv/llm-perf-opt/decode_cuda_gpu_kern_sum.csv"


def test_kernels_are_summed_by_name_the_longest_first(report_of):
    kernels = report_of(SGLANG).kernels
    rows = kernels_table(kernels)
    assert rows["name"].is_unique and rows["time_s"].is_monotonic_decreasing
    assert rows["count"].sum() == kernels["count"].sum() == 527
    assert rows["time_s"].sum() == pytest.approx(kernels["duration_s"].sum())
    assert rows["share"].sum() == pytest.approx(1.0)
    assert (rows["mean_s"] * rows["count"]).tolist() == pytest.approx(rows["time_s"].tolist())


def test_the_longest_kernels_alone_keep_their_share_of_all(report_of):
    kernels = report_of(SGLANG).kernels
    pd.testing.assert_frame_equal(kernels_table(kernels, 3), kernels_table(kernels).head(3))


def test_kernels_that_took_no_time_have_no_share():
    (row,) = kernels_table(kernel_table({"name": ["k"], "duration_s": [0.0]})).to_dict("records")
    assert (row["time_s"], row["share"]) == (0.0, 0.0)


def test_ranges_hold_the_time_of_the_kernels_inside(report_of):
    report = report_of(SGLANG)
    rows = ranges_table(report)
    outer, inner = rows[rows["depth"] == 0], rows[rows["depth"] == 1]
    attributed = report.kernels.dropna(subset=["nvtx_path"])
    assert outer["gpu_s"].sum() == pytest.approx(attributed["duration_s"].sum())
    assert outer["launches"].sum() == attributed["count"].sum()
    assert inner["gpu_s"].sum() <= outer["gpu_s"].sum() + 1e-12


def test_a_range_has_the_host_time_of_its_name_where_the_report_times_it(report_of):
    from dataclasses import replace

    report = replace(
        report_of(SGLANG),
        kernels=kernel_table({"name": ["k", "k"], "nvtx_path": ["decode/mlp", "decode"],
                              "duration_s": [1.0, 2.0]}),
        ranges=table(RANGE_COLUMNS, {"name": ["decode", "decode"], "duration_s": [5.0, 6.0]}),
    )  # fmt: skip
    outer, inner = ranges_table(report).to_dict("records")
    assert (outer["path"], outer["runs"], outer["host_s"]) == ("decode", 2, 11.0)
    assert (outer["launches"], outer["gpu_s"], inner["gpu_s"]) == (2, 3.0, 1.0)
    assert (inner["name"], inner["depth"]) == ("mlp", 1)
    assert pd.isna(inner["runs"]) and pd.isna(inner["host_s"]), "no range of that name was timed"


@pytest.mark.parametrize("name", [SGLANG, "nsys/mfu_2gpu_before.sqlite"])
def test_no_range_takes_the_host_longer_than_the_one_around_it(name, report_of):
    rows = ranges_table(report_of(name), 100_000).set_index("path")
    inner = rows[rows["depth"] > 0]
    assert len(inner) and rows["host_s"].notna().any()
    for path, host_s in inner["host_s"].dropna().items():
        assert host_s <= rows["host_s"][path.rpartition("/")[0]] + 1e-9


def test_ranges_of_one_name_have_the_host_time_of_their_own_path(report_of):
    from dataclasses import replace

    report = replace(
        report_of(SGLANG),
        kernels=kernel_table({"name": ["k", "k"], "nvtx_path": ["a/mlp", "b/mlp"],
                              "duration_s": [1.0, 2.0]}),
        ranges=table(RANGE_COLUMNS, {"name": ["a", "mlp", "b", "mlp"], "parent": [-1, 0, -1, 2],
                                     "duration_s": [5.0, 4.0, 9.0, 8.0]}).assign(
            parent=pd.array([None, 0, None, 2], dtype="Int64")),
    )  # fmt: skip
    times = ranges_table(report).set_index("path")["host_s"]
    assert times.to_dict() == {"a": 5.0, "a/mlp": 4.0, "b": 9.0, "b/mlp": 8.0}


def test_a_difference_of_two_reports_sums_to_the_difference_of_their_times(report_of):
    before, after = report_of(PREFILL), report_of(DECODE)
    rows = difference(before, after)
    total = after.kernels["duration_s"].sum() - before.kernels["duration_s"].sum()
    assert rows["change_s"].sum() == pytest.approx(total)
    assert rows["change_s"].abs().is_monotonic_decreasing
    assert not difference(before, before)["change_s"].any()


def test_a_kernel_of_one_report_alone_took_no_time_in_the_other(report_of):
    before, after = report_of(PREFILL), report_of(DECODE)
    rows = difference(before, after).set_index("name")
    new = set(after.kernels["name"]) - set(before.kernels["name"])
    assert new, "the reports differ in their kernels"
    assert not rows.loc[list(new), ["before_s", "before_count"]].any(axis=None)

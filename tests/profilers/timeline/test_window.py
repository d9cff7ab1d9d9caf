"""Spans of a report: busy and idle time, kernels cut at the edges, gaps."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import profilers
from profilers.timeline.gaps import gaps
from profilers.timeline.idle import CAUSES
from profilers.timeline.window import bands, window_statistics
from tests.app.pages import QWEN


@pytest.fixture(scope="module")
def report() -> profilers.Report:
    return profilers.read_report(QWEN)


def test_the_whole_span_is_what_the_summary_says(report):
    figures = profilers.summarise(report)
    end_s = (report.kernels["start_s"] + report.kernels["duration_s"]).max()
    found = window_statistics(report, 0.0, end_s)
    assert found.launches == figures["kernel_count"]
    assert found.kernel_s == pytest.approx(figures["kernel_time_s"])
    assert found.by_name["name"].iloc[0] == figures["top_kernel"]["name"]
    assert found.by_name["time_s"].iloc[0] == pytest.approx(figures["top_kernel"]["time_s"])


def test_devices_that_take_turns_are_each_busy_half_of_the_time(report):
    """Busy and idle are means over devices, in the summary and in a span alike."""
    kernels = report.kernels.head(4).assign(
        device=pd.array([0, 1, 0, 1], dtype="Int64"), start_s=[0.0, 1.0, 2.0, 3.0], duration_s=1.0
    )
    copies = report.copies.head(1).assign(device=pd.array([pd.NA], dtype="Int64"), start_s=3.5,
                                          duration_s=0.5)  # fmt: skip
    turns = replace(report, kernels=kernels, copies=report.copies.head(0))
    figures, found = profilers.summarise(turns), window_statistics(turns, 0.0, 4.0)
    assert figures["busy_time_s"] == found.busy_s == pytest.approx(2.0)
    assert figures["busy_by_device_s"] == pytest.approx({"0": 2.0, "1": 2.0})
    assert figures["idle_share"] == found.idle_share == pytest.approx(0.5)
    unnamed = profilers.summarise(replace(turns, copies=copies))
    assert unnamed["busy_time_s"] == pytest.approx((2.5 + 2.0) / 2), "it counts on each device"


def test_two_halves_of_a_span_sum_to_it(report):
    first, second, whole = (
        window_statistics(report, *span) for span in ((0.0, 0.02), (0.02, 0.05), (0.0, 0.05))
    )
    assert first.kernel_s + second.kernel_s == pytest.approx(whole.kernel_s)
    assert first.busy_s + second.busy_s == pytest.approx(whole.busy_s, abs=1e-8)


def test_gaps_and_busy_time_fill_the_span(report):
    kernels, copies = report.kernels, report.copies
    both = pd.concat([kernels[["start_s", "duration_s"]], copies[["start_s", "duration_s"]]])
    span = both["start_s"].min(), (both["start_s"] + both["duration_s"]).max()
    idle_s = gaps(report, 100_000)["duration_s"].sum()
    busy_s = window_statistics(report, *span).busy_s
    assert idle_s + busy_s == pytest.approx(span[1] - span[0], abs=1e-7)


def test_gaps_are_sorted_have_a_cause_and_nothing_runs_in_them(report):
    found = gaps(report, 20)
    assert len(found) == 20
    assert found["duration_s"].is_monotonic_decreasing
    assert set(found["cause"]) <= set(CAUSES)
    for row in found.itertuples():
        inside = window_statistics(report, row.start_s, row.start_s + row.duration_s)
        assert inside.busy_s == pytest.approx(0, abs=2e-9)


def test_a_step_spans_what_it_launched(report):
    found = bands(report)
    step = found[found["lane"] == "steps"].iloc[0]
    launched = report.kernels[report.kernels["step"].notna()]
    assert step["start_s"] == launched["start_s"].min()
    end_s = (launched["start_s"] + launched["duration_s"]).max()
    assert step["start_s"] + step["duration_s"] == pytest.approx(end_s)


def test_phases_that_alternate_are_spans_in_turn(report):
    words = ["prefill", "decode"]
    turns = np.arange(len(report.kernels)) // 500 % 2
    ordered = report.kernels.sort_values("start_s").assign(phase=[words[turn] for turn in turns])
    found = bands(replace(report, kernels=ordered))
    phases = found[found["lane"] == "phases"]
    assert phases["phase"].tolist() == ["prefill", "decode", "prefill"]


def test_a_summary_without_times_has_neither_gaps_nor_bands(report):
    nowhere = report.kernels.assign(start_s=np.nan)
    empty = replace(report, kernels=nowhere, copies=report.copies.head(0))
    assert not len(gaps(empty)) and not len(bands(empty))
    assert window_statistics(empty, 0.0, 1.0).launches == 0

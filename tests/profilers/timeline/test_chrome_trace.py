"""A report as a Chrome trace: every event with its time, and equal when read again."""

import dataclasses
import json
from pathlib import Path

import pytest

import profilers
from profilers.timeline import chrome_trace as traces
from profilers.timeline.chrome_trace import chrome_trace, file_stem

QWEN = "torch/h100_Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz"


def events_of(report: profilers.Report) -> list[dict]:
    return json.loads(chrome_trace(report))["traceEvents"]


def test_the_trace_holds_every_kernel_with_its_times(report_of):
    kernels = [event for event in events_of(report_of(QWEN)) if event["cat"] == "kernel"]
    assert len(kernels) == 1465
    assert sum(event["dur"] for event in kernels) == pytest.approx(45432.698, rel=1e-6)
    assert all(event["ph"] == "X" and event["ts"] >= 0 for event in kernels)


def test_the_trace_is_read_back_with_the_same_kernels(report_of, tmp_path: Path):
    file = tmp_path / "again.json"
    file.write_text(chrome_trace(report_of(QWEN)))
    again = profilers.read_report(file).kernels
    assert again["count"].sum() == 1465
    kernels = report_of(QWEN).kernels
    assert again["duration_s"].sum() == pytest.approx(kernels["duration_s"].sum(), rel=1e-6)


def test_a_long_capture_is_cut_after_its_first_events(report_of, monkeypatch):
    whole = events_of(report_of(QWEN))
    monkeypatch.setattr(traces, "MAX_EVENTS", 5)
    assert events_of(report_of(QWEN)) == whole[:5]


def test_a_summary_has_no_events(report_of):
    assert events_of(report_of("csv/llm-perf-opt/decode_cuda_gpu_kern_sum.csv")) == []


@pytest.mark.parametrize(
    ("label", "stem"),
    [("run 7/8", "run-7-8"), ("../..", "report"), ("", "report"), ("a" * 99, "a" * 80)],
)
def test_a_file_is_named_after_the_label_in_plain_characters(report_of, label: str, stem: str):
    assert file_stem(dataclasses.replace(report_of(QWEN), label=label)) == stem

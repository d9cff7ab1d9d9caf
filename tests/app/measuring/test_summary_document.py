"""Figures of a report as JSON: every key of the format, times in whole nanoseconds."""

import profilers
from app.measuring.summary_document import summary_document
from tests.app.pages import DECODE, QWEN

KEYS = [
    "truncated", "format", "tool", "tool_version", "label", "devices", "kernel_count",
    "kernel_time_ns",
    "busy_time_ns", "kernel_busy_time_ns", "busy_by_device_ns", "span_ns", "idle_time_ns",
    "copy_count", "copy_time_ns", "launch_delay_ns", "host_time_ns", "top_kernel", "phases",
    "operator_classes", "attributed_by", "unattributed_share", "unclassified_share", "notes",
]  # fmt: skip


def test_a_trace_has_every_key_with_its_times_in_whole_nanoseconds():
    document = summary_document(profilers.summarise(profilers.read_report(QWEN)))
    assert list(document) == KEYS
    assert document["kernel_time_ns"] == 45_432_698
    assert document["idle_time_ns"] == document["span_ns"] - document["busy_time_ns"]
    assert document["busy_by_device_ns"] == {"0": document["busy_time_ns"]}
    times = [document[key] for key in KEYS if key.endswith("_time_ns")]
    assert len(times) == 6 and all(type(time) is int for time in times)
    assert set(document["top_kernel"]) == {"name", "time_ns", "count"}
    by_class = document["operator_classes"].values()
    assert {key for row in by_class for key in row} == {"kernel_count", "kernel_time_ns"}
    assert abs(sum(row["kernel_time_ns"] for row in by_class) - 45_432_698) < len(by_class)


def test_what_a_summary_does_not_hold_is_null():
    document = summary_document(profilers.summarise(profilers.read_report(DECODE)))
    assert list(document) == KEYS
    assert document["busy_time_ns"] is document["span_ns"] is document["idle_time_ns"] is None
    assert list(document["phases"]) == ["decode"]
    assert document["phases"]["decode"]["kernel_time_ns"] == document["kernel_time_ns"]


def test_a_phase_may_be_called_as_a_unit_is():
    patterns = (profilers.PhasePattern("warm_s", "decode"),)
    report = profilers.read_report(DECODE, phases=patterns)
    assert list(summary_document(profilers.summarise(report))["phases"]) == ["warm_s"]

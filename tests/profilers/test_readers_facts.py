"""Every real report is imported with the facts that were counted in it by other means."""

import json
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import profilers
from tests.profilers.units import whole_ns

REPORTS = Path(__file__).parents[1] / "fixtures" / "reports"
FACTS: dict[str, dict[str, Any]] = json.loads((REPORTS / "golden" / "facts.json").read_text())
NO_REPORTS = {"csv/llm-perf-opt/env.json"}
NAMES = sorted(set(FACTS) - NO_REPORTS)
COMMITTED = [n for n in NAMES if (REPORTS / n).exists() or (REPORTS / f"{n}.gz").exists()]

FORMATS = {
    "nsys": "nsys-sqlite",
    "ncu": "ncu-rep",
    "torch": "torch-trace",
    "csv/ncu": "ncu-csv",
    "csv/nsys_stats": "nsys-csv",
    "csv/llm-perf-opt": "nsys-csv",
}

Summary = Mapping[str, Any]
Check = Callable[[profilers.Report, Summary, Any], bool]


def same_count(_report: profilers.Report, summary: Summary, fact: int) -> bool:
    return summary["kernel_count"] == fact


def same_time_ns(_report: profilers.Report, summary: Summary, fact: float) -> bool:
    return whole_ns(summary["kernel_time_s"]) == fact


def same_devices(_report: profilers.Report, summary: Summary, fact: str | list[str]) -> bool:
    return summary["devices"] == ([fact] if isinstance(fact, str) else fact)


def same_top(_report: profilers.Report, summary: Summary, fact: str | list[Any]) -> bool:
    """The longest kernel by the start of its name, and by its time [us] if stated."""
    name, *time_us = [fact] if isinstance(fact, str) else fact
    top = summary["top_kernel"]
    times = [round(value * 1e3) for value in time_us]
    return top["name"].startswith(name) and times in ([], [whole_ns(top["time_s"])])


def same_first_of_three(_report: profilers.Report, summary: Summary, fact: list[Any]) -> bool:
    top = summary["top_kernel"]
    return [top["name"], whole_ns(top["time_s"]), top["count"]] == fact[0]


#: How a stated fact is compared with a report and its summary.
CHECKS: Mapping[str, Check] = {
    "kernels": same_count,
    "results": same_count,
    "instances": same_count,
    "kernel_time_ns": same_time_ns,
    "total_ns": same_time_ns,
    "dur_ns_sum": same_time_ns,
    "kernel_us": lambda report, summary, fact: same_time_ns(report, summary, round(fact * 1e3)),
    "gpu": same_devices,
    "gpus": lambda report, summary, fact: same_devices(report, summary, [gpu[0] for gpu in fact]),
    "devices": lambda _, summary, fact: len(summary["devices"]) == fact,
    "meta": lambda _, summary, fact: summary["tool_version"] == fact["EXPORT_PRODUCT_VERSION"],
    "top": same_top,
    "top3": same_first_of_three,
    "names": lambda report, _, fact: Counter(report.kernels["name"]) == fact,
    "rows": lambda report, _, fact: len(report.kernels) == fact,
    "nan_results": lambda report, _, fact: report.kernels["duration_s"].isna().sum() == fact,
}
#: For originals only: committed captures keep the ranges around their kernels.
CUT: Mapping[str, Check] = {
    "nvtx_ranges_59_60": lambda report, _, fact: len(report.ranges) == fact,
}
#: Facts of the file, or of events that an import omits.
NOT_IMPORTED = {
    "bytes", "events", "first_ns", "last_ns", "meta_table", "metrics_first", "pure_results",
}  # fmt: skip


def check(report: profilers.Report, name: str, checks: Mapping[str, Check]) -> None:
    """Asserts what `facts.json` states about a report, except for facts without an entry in
    `checks`.
    """
    facts, summary = FACTS[name], profilers.summarise(report)
    prefix = "/".join(name.split("/")[: 2 if name.startswith("csv") else 1])
    assert summary["format"] == FORMATS[prefix]
    assert any(len(t) for t in (report.kernels, report.copies, report.ranges, report.host))
    for key in set(facts) & set(checks):
        assert checks[key](report, summary, facts[key]), f"{key} is {facts[key]!r}"
    is_summary = "instances" in facts or summary["format"].startswith("ncu")
    assert (summary["busy_time_s"] is None) or not is_summary, "a summary has no timeline"


def test_some_report_of_every_kind_is_committed():
    assert {name.split("/")[0] for name in COMMITTED} == {"csv", "ncu", "nsys", "torch"}
    assert len(COMMITTED) >= 20


def test_every_kind_of_fact_is_stated_of_a_committed_report():
    stated = {key for name in COMMITTED for key in FACTS[name]}
    assert stated == {*CHECKS, *CUT, *NOT_IMPORTED}


@pytest.mark.parametrize("name", COMMITTED)
def test_committed_reports_import_with_the_facts_counted_in_the_originals(name, report_of):
    check(report_of(name), name, CHECKS)


@pytest.mark.parametrize("name", NAMES)
def test_original_reports_import_with_the_facts_counted_in_them(name, originals):
    assert (originals / name).stat().st_size == FACTS[name]["bytes"]
    check(profilers.read_report(originals / name), name, {**CHECKS, **CUT})


def test_every_original_is_read_or_known_to_be_no_report(originals):
    files = {path.relative_to(originals).as_posix() for path in originals.rglob("*.*")}
    reports = {name for name in files if "golden" not in name and "/" in name}
    assert reports == set(FACTS)


def test_device_figures_come_from_the_export(report_of):
    (device,) = report_of("nsys/mock.sqlite").devices
    name, units, bandwidth, memory, clock = FACTS["nsys/mock.sqlite"]["gpus"][0]
    assert (device.name, device.units, device.memory_bytes_per_s) == (name, units, bandwidth)
    assert (device.memory_bytes, device.clock_hz) == (memory, clock)
    assert device.compute_capability == "8.6"


def test_stage_captures_of_deepseek_ocr_give_prefill_and_decode(report_of):
    stages = [f"csv/llm-perf-opt/{s}_cuda_gpu_kern_sum.csv" for s in ("prefill", "decode")]
    summaries = [profilers.summarise(report_of(stage)) for stage in stages]
    assert [s["kernel_count"] for s in summaries] == [6_660, 78_016]
    assert [round(s["kernel_time_s"] * 1e3, 2) for s in summaries] == [65.69, 179.07]
    assert [list(s["phases"]) for s in summaries] == [["prefill"], ["decode"]]

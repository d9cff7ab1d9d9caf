"""Every real report imports with the facts that were counted in it by other means."""

import json
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


def check(path: Path, name: str) -> None:
    """Asserts on a report what `facts.json` states about it."""
    facts = FACTS[name]
    summary = profilers.summarise(profilers.read_report(path))
    prefix = "/".join(name.split("/")[: 2 if name.startswith("csv") else 1])
    assert summary["format"] == FORMATS[prefix]
    if "kernels" in facts:
        assert summary["kernel_count"] == facts["kernels"]
    if "kernel_time_ns" in facts:
        assert whole_ns(summary["kernel_time_s"]) == facts["kernel_time_ns"]
    if "kernel_us" in facts:
        assert whole_ns(summary["kernel_time_s"]) == round(facts["kernel_us"] * 1e3)
    check_tool(summary, facts)
    check_top(summary, facts)


def check_tool(summary: dict[str, Any], facts: dict[str, Any]) -> None:
    if "meta" in facts:
        assert summary["tool_version"] == facts["meta"]["EXPORT_PRODUCT_VERSION"]
    if "devices" in facts:
        assert len(summary["devices"]) == facts["devices"]
    if "gpus" in facts:
        assert summary["devices"] == [gpu[0] for gpu in facts["gpus"]]
    if isinstance(facts.get("gpu"), list):
        assert summary["devices"] == facts["gpu"]
    if isinstance(facts.get("gpu"), str):
        assert summary["devices"] == [facts["gpu"]]


def check_top(summary: dict[str, Any], facts: dict[str, Any]) -> None:
    top = summary["top_kernel"]
    if "top3" in facts:
        assert [top["name"], whole_ns(top["time_s"]), top["count"]] == facts["top3"][0]
    if isinstance(facts.get("top"), list):
        assert top["name"].startswith(facts["top"][0])
        assert whole_ns(top["time_s"]) == round(facts["top"][1] * 1e3)
    if "instances" in facts:  # a summary
        assert summary["kernel_count"] == facts["instances"]
        assert whole_ns(summary["kernel_time_s"]) == facts["total_ns"]
        assert top["name"].startswith(facts["top"])
        assert summary["busy_time_s"] is None, "a summary has no timeline"
    if "dur_ns_sum" in facts:  # ncu
        assert summary["kernel_count"] == facts["results"]
        assert whole_ns(summary["kernel_time_s"]) == facts["dur_ns_sum"]


def test_some_report_of_every_kind_is_committed():
    assert {name.split("/")[0] for name in COMMITTED} == {"csv", "ncu", "nsys", "torch"}
    assert len(COMMITTED) >= 20


@pytest.mark.parametrize("name", COMMITTED)
def test_committed_reports_import_with_the_facts_counted_in_the_originals(name, report_path):
    check(report_path(name), name)


@pytest.mark.parametrize("name", NAMES)
def test_original_reports_import_with_the_facts_counted_in_them(name, originals):
    assert (originals / name).stat().st_size == FACTS[name]["bytes"]
    check(originals / name, name)


def test_every_original_is_read_or_known_to_be_no_report(originals):
    files = {path.relative_to(originals).as_posix() for path in originals.rglob("*.*")}
    reports = {name for name in files if "golden" not in name and "/" in name}
    assert reports == set(FACTS)


def test_device_figures_come_from_the_export(report_path):
    (device,) = profilers.read_report(report_path("nsys/mock.sqlite")).devices
    name, units, bandwidth, memory, clock = FACTS["nsys/mock.sqlite"]["gpus"][0]
    assert (device.name, device.units, device.memory_bytes_per_s) == (name, units, bandwidth)
    assert (device.memory_bytes, device.clock_hz) == (memory, clock)
    assert device.compute_capability == "8.6"


def test_stage_captures_of_deepseek_ocr_give_prefill_and_decode(report_path):
    stages = [f"csv/llm-perf-opt/{s}_cuda_gpu_kern_sum.csv" for s in ("prefill", "decode")]
    summaries = [
        profilers.summarise(report)
        for report in profilers.read_reports(report_path(stage) for stage in stages)
    ]
    assert [s["kernel_count"] for s in summaries] == [6_660, 78_016]
    assert [round(s["kernel_time_s"] * 1e3, 2) for s in summaries] == [65.69, 179.07]
    assert [list(s["phases"]) for s in summaries] == [["prefill"], ["decode"]]

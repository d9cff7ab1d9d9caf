"""The files of a run give the measured values when read, and contain nothing about the host."""

import dataclasses
import json
import platform
import resource
import signal
from pathlib import Path

import pandas as pd
import pytest
import yaml

import genz_core
import profilers
from genz_core.errors import MeasurementError
from genz_core.systems import System
from genz_core.types import Workload
from profilers.runs.artifacts import write_artifacts
from profilers.runs.run_bundle import Material
from profilers.schema import OPERATOR_COLUMNS, DeviceInfo, Measurement, PhaseTiming, table

PROMISED = {
    "report.md", "operators.md", "kernels.md", "metrics.json", "static_compute.json",
    "stakeholder_summary.md", "env.json", "inputs.yaml", "assumptions.md", "kernels.parquet",
    "cmd.txt",
}  # fmt: skip


@pytest.fixture(scope="module")
def material(report_of) -> Material:
    """The committed prefill of Qwen3-8B, and its prediction on a toy GPU."""
    registry = pytest.importorskip("model_registry")
    name = "torch/inference_sglang_prefilldecode_sglang_Qwen3-8B_prefilldecode.json.gz"
    report = report_of(name)
    toy = System("toy", "Toy", "nobody", "gpu", "toy", {"bf16": 1e14}, 80e9, 1e12)
    estimate = genz_core.estimate(registry.load("Qwen/Qwen3-8B"), toy, Workload(15, 1024, 3))
    measurement = profilers.measure_from([report])
    return Material(
        measurement=measurement,
        inputs={"run": {"batch": 15, "isl": 1024}, "trace": Path("x.json")},
        comparison=profilers.compare(estimate, measurement, reports=[report]),
        static=[{"phase": "prefill", "name": "qkv", "flops": 2.0, "bytes": 3.0, "runs": 4.0}],
        kernels=report.kernels,
        assumptions=["routing is uniform"],
        commands=[["nsys", "profile", "-o", "a b"]],
        metrics={"mfu": float("nan")},
    )


@pytest.fixture(scope="module")
def folder(material, tmp_path_factory) -> Path:
    target = tmp_path_factory.mktemp("run") / "artifacts"
    assert {path.name for path in write_artifacts(target, material)} == PROMISED
    return target


def test_every_promised_artifact_is_written(folder: Path):
    assert {path.name for path in folder.iterdir()} == PROMISED
    assert all(path.stat().st_size for path in folder.iterdir())


def test_the_metrics_are_the_measurement(folder: Path, material: Material):
    metrics = json.loads((folder / "metrics.json").read_text())
    prefill = metrics["phases"]["prefill"]
    assert prefill["p50_s"] == material.measurement.phases["prefill"].median_s
    assert metrics["mfu"] is None, "what is unknown is null"
    assert metrics["comparison"]["phases"][0]["phase"] == "prefill"


def test_the_kernel_table_reads_back_launch_by_launch(folder: Path, material: Material):
    again = pd.read_parquet(folder / "kernels.parquet")
    assert len(again) == 527
    assert again["duration_s"].sum() == pytest.approx(material.kernels["duration_s"].sum())


def test_the_static_analysis_sums_runs(folder: Path):
    static = json.loads((folder / "static_compute.json").read_text())
    assert static["totals"] == {"prefill": {"flops": 8.0, "bytes": 12.0}}


def test_the_inputs_read_back(folder: Path):
    inputs = yaml.safe_load((folder / "inputs.yaml").read_text())
    assert inputs["run"] == {"batch": 15, "isl": 1024}


def test_the_report_holds_the_findings_and_the_summary_plain_words(
    folder: Path, material: Material
):
    report = (folder / "report.md").read_text()
    assert all(finding.sentence in report for finding in material.comparison.findings)
    assert (
        "first word of an answer appears after 493 ms"
        in (folder / "stakeholder_summary.md").read_text()
    )


def test_commands_are_quoted(folder: Path):
    assert (folder / "cmd.txt").read_text() == "nsys profile -o 'a b'\n"


def test_nothing_of_the_host_its_user_or_its_variables_is_written(
    material: Material, tmp_path: Path, monkeypatch
):
    for name in ("HOME", "USER", "LOGNAME", "HOSTNAME", "TOKEN"):
        monkeypatch.setenv(name, "secret-of-the-host")
    named = platform.uname()._replace(node="secret-of-the-host")
    monkeypatch.setattr(platform, "uname", lambda: named)
    assert platform.node() == "secret-of-the-host"
    facts = {"torch": "2.13.0", "cache": "/srv/secret-of-the-host/hub"}
    run = dataclasses.replace(material.measurement, facts=facts)
    paths = write_artifacts(tmp_path, dataclasses.replace(material, measurement=run))
    assert {path.name for path in paths} == PROMISED
    assert json.loads((tmp_path / "env.json").read_text())["facts"] == {"torch": "2.13.0"}
    assert not [path.name for path in paths if b"secret-of-the-host" in path.read_bytes()]


def test_the_names_of_kernels_stay_text_in_markdown(tmp_path: Path):
    rows = table(
        OPERATOR_COLUMNS,
        {"phase": ["decode"], "name": ["a<b>|c`\n# d"], "kind": ["gemm"], "time_s": [1.0]},
    )
    write_artifacts(tmp_path, Material(Measurement("live", rows)))
    (line,) = [x for x in (tmp_path / "operators.md").read_text().splitlines() if "gemm" in x]
    assert "a&lt;b&gt;\\|c' # d" in line


def test_an_empty_run_still_leaves_a_folder_that_says_so(tmp_path: Path):
    write_artifacts(tmp_path, Material(Measurement("live", table(OPERATOR_COLUMNS, {}, 0))))
    assert "Nothing was timed" in (tmp_path / "stakeholder_summary.md").read_text()
    assert "No operator was profiled" in (tmp_path / "operators.md").read_text()


def test_a_decode_run_tells_its_tokens_a_second(tmp_path: Path):
    run = Measurement(
        "live", table(OPERATOR_COLUMNS, {}, 0), {"decode": PhaseTiming("decode", (0.01,))},
        DeviceInfo(0, "Toy"), "toy/model", workload=Workload(4, 8, 4),
    )  # fmt: skip
    write_artifacts(tmp_path, Material(run))
    assert (
        "4 answers at once make 400 tokens a second"
        in (tmp_path / "stakeholder_summary.md").read_text()
    )


def test_a_full_disk_is_a_sentence(tmp_path: Path, material: Material):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, limits[1]))
    try:
        with pytest.raises(MeasurementError, match="cannot be written"):
            write_artifacts(tmp_path, material)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)


def test_a_stage_without_phases_still_reports_its_kernels(tmp_path, report_of):
    import profilers

    report = report_of("nsys/mfu_2gpu_before.sqlite")
    measured = profilers.measure_from([report])
    assert not measured.phases
    for kernels in (report.kernels, None):
        folder = tmp_path / str(kernels is None)
        write_artifacts(folder, Material(measured, kernels=kernels))
        text = (folder / "report.md").read_text(encoding="utf-8")
        assert "No phase is named" in text and "flash_fwd_kernel" in text
        assert "flash_fwd_kernel" in (folder / "operators.md").read_text(encoding="utf-8")

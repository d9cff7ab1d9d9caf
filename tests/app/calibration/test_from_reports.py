"""Calibrating a system with reports: the fit, refusals, and what is stored."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

import hardware_db
import profilers
from app.calibration import fit_tables, from_reports
from genz_core.errors import InvalidValue
from genz_core.latency.measured_operators import bound_s
from profilers.operators.operator_points import operator_timings
from tests.app.pages import REPORTS

TRACES = REPORTS / "torch"
H100 = TRACES / "h100_Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz"
MI300X = TRACES / "inference_sglang_prefilldecode_sglang_Qwen3-8B_prefilldecode.json.gz"


pytestmark = pytest.mark.usefixtures("own_data")


def read(*files: Path) -> list[profilers.Report]:
    return [profilers.read_report(file) for file in files]


@pytest.mark.parametrize(("file", "slug"), [(H100, "h100-sxm5-80gb"), (MI300X, "mi300x")])
def test_the_fit_is_nearer_to_the_report_and_keeps_what_physics_says(file: Path, slug: str):
    fitted = from_reports.fit(read(file))
    assert fitted.system.slug == f"{slug}-from-report"
    for row in fit_tables.error_rows(fitted.calibration):
        assert row["mape_after"] < row["mape_before"]
    for entry in fitted.points:
        assert (entry.measured_s > bound_s(entry, fitted.system) / 1.05).all()
    for row in fit_tables.constant_rows(fitted):
        assert row["uncertainty"] > 0


def test_what_is_kept_prices_as_what_was_fitted_and_leaves_the_rest_as_it_was():
    fitted = from_reports.fit(read(H100))
    from_reports.save(fitted)
    kept, shipped = (hardware_db.load(name).latency for name in (fitted.system.slug, "h100-sxm"))
    assert kept is not None and shipped is not None
    efficiency = fitted.calibration.profile.constants("gemm", "bf16").compute_efficiency
    assert kept.constants("gemm", "bf16").compute_efficiency == pytest.approx(efficiency, rel=1e-4)
    assert kept.constants("gemm", "bf16") != shipped.constants("gemm", "bf16")
    assert kept.constants("moe", "bf16") == shipped.constants("moe", "bf16")
    assert kept.fit("gemm", "bf16").data_set == "kernels of h100_Qwen_Qwen1"


def test_a_kept_system_can_be_calibrated_again():
    from_reports.save(from_reports.fit(read(MI300X)))
    again = from_reports.fit(read(MI300X), "mi300x-from-report", "mine")
    from_reports.save(again)
    assert hardware_db.load("mine").memory_bytes_per_s == again.system.memory_bytes_per_s


def test_a_report_of_a_faster_device_is_refused():
    with pytest.raises(InvalidValue, match=r"4 of 4 points of gemm are faster .* NVIDIA L4"):
        from_reports.fit(read(H100), "l4")


def test_a_report_that_contradicts_the_name_of_its_device_is_refused():
    (report,) = read(MI300X)
    named = replace(report.devices[0], name="NVIDIA H100 80GB HBM3")
    renamed = replace(report, devices=(named,))
    with pytest.raises(InvalidValue, match=r"304 against 132.*give --system, for example mi300x"):
        from_reports.fit([renamed])
    with pytest.raises(InvalidValue, match=r"304 against 132; .* name it with --system"):
        from_reports.fit([renamed], "h100")
    assert from_reports.fit([renamed], "mi300x").points


def test_one_point_faster_than_light_is_left_out_and_said(tmp_path: Path):
    """The longest shape of the trace with kernels that are a thousand times too fast."""
    import gzip

    document = json.loads(gzip.decompress(H100.read_bytes()))
    operators = {
        event["args"]["External id"]: event["args"]["Input Dims"]
        for event in document["traceEvents"]
        if event.get("cat") == "cpu_op" and event["name"] == "aten::mm"
    }
    for event in document["traceEvents"]:
        if event.get("cat") == "kernel":
            shape = operators.get(event["args"].get("External id"))
            event["dur"] /= 1000 if shape == [[8944, 1024], [1024, 2816]] else 1
    file = tmp_path / "fast.json"
    file.write_text(json.dumps(document), encoding="utf-8")
    fitted = from_reports.fit(read(file))
    (sentence,) = fitted.refused
    assert "n=2816" in sentence and "left out" in sentence
    reports = read(file)
    kept = [p for p in operator_timings(reports) if p.dims.get("n") != 2816]
    described = sum(point.time_s * point.calls for point in kept)
    assert fitted.share == pytest.approx(described / reports[0].kernels["duration_s"].sum(), 1e-9)
    assert fitted.calibration.after["gemm.bf16"].points == 3


@pytest.mark.parametrize(
    ("name", "words"), [("l4", "ships with"), ("Not a name", "id is 'Not a name'")]
)
def test_a_name_that_cannot_be_kept_is_refused(name: str, words: str):
    with pytest.raises(InvalidValue, match=words):
        from_reports.fit(read(MI300X), name=name)

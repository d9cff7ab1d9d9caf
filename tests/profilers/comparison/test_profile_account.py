"""Sum checks of profiler reports: every committed report satisfies them, contradictory ones
do not.
"""

import dataclasses

import pandas as pd
import pytest

import genz_core
import profilers
from genz_core.types import Workload
from profilers.comparison.account import failed
from profilers.comparison.compare import compare
from profilers.comparison.profile_account import _of_format, of_report
from profilers.matching.measured_step import MeasuredPhase
from profilers.schema import PhaseTiming
from profilers.timeline.step_launches import StepLaunches
from tests.profilers.comparison.test_compare import SYSTEM, measured_like

MI300X = "torch/inference_sglang_prefilldecode_sglang_Qwen3-8B_prefilldecode.json.gz"
QWEN = "torch/h100_Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz"
SUMMARY = "csv/llm-perf-opt/decode_cuda_gpu_kern_sum.csv"


@pytest.fixture(scope="module")
def registry():
    return pytest.importorskip("model_registry")


@pytest.fixture(scope="module")
def h100():
    return pytest.importorskip("hardware_db").load("h100")


@pytest.fixture(scope="module")
def estimate(registry):
    return genz_core.estimate(registry.load("Qwen/Qwen3-8B"), SYSTEM, Workload(1, 1024, 3))


def outcomes(checks):
    return {one.name_in_full.partition(":")[0]: one.outcome for one in checks}


@pytest.mark.parametrize(("name", "system"), [
    (QWEN, "h100"), ("torch/inference_vllm_decode_full_graph_execution.json.gz", "mi300x"),
    ("nsys/mock.sqlite", "rtx-3080-10gb"), ("ncu/h800_torch_5_kernels.ncu-rep", "h800"),
    ("rocprof/kernel_trace.csv", "mi300x"), (SUMMARY, "h100"),
])  # fmt: skip
def test_real_reports_meet_every_sum(name, system, report_of):
    known = pytest.importorskip("hardware_db").load(system)
    assert not [one.sentence for one in failed(of_report(report_of(name), known))]


@pytest.mark.parametrize(("name", "system", "sides"), [
    (MI300X, "h100", [(304, 132), (206.14, 85.9), (100, 5)]),
    (QWEN, "mi300x", [(132, 304), (85.02, 206.16), (100, 5)]),
    (SUMMARY, "mi300x", [(100, 5)]),  # only the names of its kernels show the vendor
    ("ncu/h800_torch_5_kernels.ncu-rep", "h100", []),  # the same chip
])  # fmt: skip
def test_figures_and_kernels_of_another_device_fail(name, system, sides, report_of):
    known = pytest.importorskip("hardware_db").load(system)
    apart = failed(of_report(report_of(name), known))
    assert [(round(one.left, 2), round(one.right, 2)) for one in apart] == sides
    assert all("--system" in one.sentence for one in apart)


def changed(report, **columns):
    return dataclasses.replace(report, kernels=report.kernels.assign(**columns))


def test_kernels_of_one_stream_cannot_run_beside_each_other(report_of, h100):
    report = report_of(QWEN)
    slow = changed(report, duration_s=report.kernels["duration_s"] * 2)
    [check] = failed(of_report(slow, h100))
    assert check.left > 1.1 * check.right and "different clocks" in check.sentence


def test_arithmetic_beyond_the_peak_is_another_device(report_of, h100):
    report = report_of(QWEN)
    fast = changed(report, duration_s=report.kernels["duration_s"] / 10)
    [check] = failed(of_report(fast, h100))
    assert check.unit == "TFLOP/s" and check.left > check.right
    assert "than stated was measured" in check.sentence
    assert outcomes(of_report(fast))["arithmetic <= peak"] == "not made", "no device is known"


def test_traffic_and_shares_beyond_the_memory_fail(report_of, h100):
    report = report_of("ncu/h800_torch_5_kernels.ncu-rep")
    more = changed(report, dram_bytes=1e13, dram_pct=140.0)
    names = {one.name for one in failed(of_report(more, h100))}
    assert names == {"memory traffic <= bandwidth", "shares of a peak <= 100 %"}


def test_a_step_faster_than_its_bound_draws_no_finding_but_its_cause(estimate):
    found = compare(estimate, measured_like(estimate, 0.1))
    whole = [one for one in found.failed if not one.part]
    assert [one.name for one in whole] == ["nothing faster than the hardware"]
    assert whole[0].left < whole[0].right and "another format" in whole[0].sentence
    assert {one.kind for one in found.findings} == {"not comparable"}


def test_operators_beyond_their_step_are_the_profilers_own_time(estimate):
    run = measured_like(estimate)
    half = float(run.operators["time_s"].sum()) / 2
    phases = {"decode": PhaseTiming("decode", (half,), "wall")}
    found = compare(estimate, dataclasses.replace(run, phases=phases))
    [check] = [one for one in found.failed if one.name == "operators = step"]
    assert check.left == pytest.approx(2 * check.right)
    assert outcomes(compare(estimate, run).checks)["operators = step of decode"] == "passed"


def test_launches_over_layers_are_the_steps(registry, report_of):
    report = report_of(SUMMARY)
    measurement = profilers.measure_from([report])
    right, wrong = (
        genz_core.estimate(registry.load(name), SYSTEM, Workload(1, 1024, 65))
        for name in ("deepseek-ai/DeepSeek-OCR", "Qwen/Qwen3-8B")
    )
    told = compare(right, measurement, reports=[report], steps={"decode": 64})
    assert outcomes(told.checks)["launches over layers = steps of decode"] == "passed"
    assert told.findings
    for estimate, steps in ((right, 1), (right, 640), (wrong, 64)):
        found = compare(estimate, measurement, reports=[report], steps={"decode": steps})
        [check] = [one for one in found.failed if one.name == "launches over layers = steps"]
        assert check.right == steps and "--steps" in check.sentence
        assert not [one for one in found.findings if one.kind in ("below roof", "launch-bound")]


def test_products_in_another_format_than_the_priced_one_fail(estimate):
    run = measured_like(estimate)
    rows = run.operators.copy()
    rows.loc[rows["class"] == "gemm", "name"] = "sm89_xmma_gemm_e4m3bf16_e4m3f32_f32_tn_n"
    found = compare(estimate, dataclasses.replace(run, operators=rows))
    [check] = found.failed
    assert "(bf16)" in check.name and "compute in fp8" in check.sentence
    assert (check.left, check.right) == (pytest.approx(100.0), 20.0)
    assert {one.kind for one in found.findings} <= {"precision"}


def test_bytes_of_products_tell_another_format_than_the_priced_one(estimate):
    """ncu counts the bytes that a step read: half of the parameters' bytes mean another format."""
    step = estimate.decode
    table = pd.DataFrame(step.table())
    products = table[(table["class"] == "gemm") & (table["predicted_s"] > 0)]
    stated = float((products["bytes"] * products["runs"]).sum())
    launches = pd.DataFrame({"operator_class": ["gemm", "gemv", "norm"],
                             "dram_bytes": [stated / 2, stated / 2, 1e6], "name": "k",
                             "duration_s": 1e-3})  # fmt: skip
    for factor, outcome in ((1.0, "passed"), (0.5, "failed"), (2.0, "failed")):
        mine = launches.assign(dram_bytes=launches["dram_bytes"] * factor)
        found = MeasuredPhase("decode", "kernels", 1, 1.0, pd.DataFrame(),
                              StepLaunches(mine, 1, False, 0.0))  # fmt: skip
        check = _of_format(found, estimate, 0)
        assert (check.outcome, check.unit) == (outcome, "GB")
        assert check.left == pytest.approx(factor * check.right)
        assert ("another format" in check.why) is (outcome == "failed")

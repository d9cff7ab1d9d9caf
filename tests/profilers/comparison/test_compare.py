"""Measured beside predicted: rows join, sums are complete, and large differences are named."""

import dataclasses
import math

import numpy as np
import pandas as pd
import pytest

import genz_core
import profilers
from genz_core.errors import InvalidValue
from genz_core.systems import System
from genz_core.types import Workload
from profilers.comparison.comparable import REASON
from profilers.comparison.compare import Expected, compare, in_phase, lies_inside, step_count
from profilers.operators.number_formats import type_of_name
from profilers.schema import OPERATOR_COLUMNS, DeviceInfo, Measurement, PhaseTiming, table

SYSTEM = System(
    "toy", "Toy", "nobody", "gpu", "toy", {"bf16": 100e12, "fp32": 50e12}, 80e9, 1e12,
    compute_units=100, clock_hz=1.5e9,
)  # fmt: skip


@pytest.fixture(scope="module")
def estimate():
    """Qwen3-8B of the committed traces on a toy GPU: 15 prompts of 1,024 tokens."""
    registry = pytest.importorskip("model_registry")
    model = registry.load("Qwen/Qwen3-8B")
    return genz_core.estimate(model, SYSTEM, Workload(15, 1024, 3))


@pytest.fixture(scope="module")
def prefill(report_of):
    name = "torch/inference_sglang_prefilldecode_sglang_Qwen3-8B_prefilldecode.json.gz"
    return report_of(name)


def measured_like(estimate, factor=1.0, phase="decode", **more):
    """A measurement of `factor` times the prediction, operator by operator."""
    step = pd.DataFrame(getattr(estimate, phase).table())
    step = step[step["predicted_s"] > 0]
    rows = table(
        OPERATOR_COLUMNS,
        {
            "phase": [phase] * len(step),
            "name": ["model.layers.0." + name for name in step["name"]],
            "kind": step["class"].tolist(),
            "class": step["class"].tolist(),
            "count": step["runs"].astype(int).tolist(),
            "time_s": (factor * step["predicted_s"]).tolist(),
        },
    )
    total = float(rows["time_s"].sum())
    fields = {"phases": {phase: PhaseTiming(phase, (total,), "gpu")}} | more
    return Measurement("torch-trace", rows, **fields)


def with_intervals(estimate, phase="decode", without="", **whole):
    """The step of a phase, with an interval of a factor of two for all operators but one class."""
    expected = Expected.from_step(getattr(estimate, phase))
    rows = pd.DataFrame(expected.operators)
    known = rows["class"] != without
    operators = {
        **expected.operators,
        "low_s": (rows["predicted_s"] / 2).where(known).tolist(),
        "high_s": (rows["predicted_s"] * 2).where(known).tolist(),
    }
    return {phase: dataclasses.replace(expected, operators=operators, **whole)}


def kinds(comparison) -> set[str]:
    return {finding.kind for finding in comparison.findings}


def test_operators_classes_and_the_phase_sum_to_the_same_measured_time(estimate, prefill):
    found = compare(estimate, profilers.measure_from([prefill]), reports=[prefill])
    (whole,) = found.phases.to_dict("records")
    assert whole["measured_s"] == pytest.approx(0.492773592, rel=1e-9), "kernel time of the trace"
    assert whole["busy_s"] + whole["idle_s"] == pytest.approx(whole["wall_s"])
    assert whole["busy_s"] == pytest.approx(whole["measured_s"], rel=1e-3)
    assert found.classes["measured_s"].sum() == pytest.approx(whole["measured_s"])
    assert found.classes["predicted_s"].sum() == pytest.approx(whole["predicted_s"])
    classes = found.classes.set_index("class")
    for name, rows in found.operators.groupby("class"):
        assert rows["measured_s"].sum() == pytest.approx(classes.loc[name, "measured_s"])
        assert rows["predicted_s"].sum() == pytest.approx(classes.loc[name, "predicted_s"])


def test_products_of_a_trace_meet_their_operators_by_the_modules_around_them(estimate, prefill):
    found = compare(estimate, profilers.measure_from([prefill]), reports=[prefill])
    rows = found.operators.set_index("name")
    gate = rows.loc["gate_up_proj"]
    assert (gate["matched_by"], gate["launches"]) == ("module", 36)
    assert "Cijk_" in gate["kernels"]
    # TraceLens on the same trace: 36 x 3092.376 GFLOP at 456.9 TFLOP/s.
    assert gate["measured_s"] == pytest.approx(36 * 3092.376e9 / 456.9e12, rel=1e-3)
    assert {"qkv_proj", "o_proj", "down_proj", "lm_head"} <= set(rows.index)


def test_operators_meet_by_the_module_around_their_kernels(estimate):
    found = compare(estimate, measured_like(estimate, 2.0))
    by_module = found.operators[found.operators["matched_by"] == "module"]
    assert len(by_module) == len(found.operators)
    assert np.allclose(by_module["ratio"], 2.0)


def test_a_run_as_predicted_has_no_gap(estimate):
    found = compare(estimate, measured_like(estimate))
    assert np.allclose(found.classes["gap_s"], 0.0, atol=1e-12)
    assert "below roof" not in kinds(found)


def test_shares_of_the_gap_are_signed_and_their_sizes_sum_to_one(estimate):
    found = compare(estimate, measured_like(estimate, 3.0))
    assert found.classes["gap_share"].abs().sum() == pytest.approx(1.0)
    assert (found.classes["gap_share"] >= 0).all()


def test_a_summary_of_many_steps_is_divided_by_them(report_of):
    report = report_of("csv/llm-perf-opt/decode_cuda_gpu_kern_sum.csv")
    model = pytest.importorskip("model_registry").load("deepseek-ai/DeepSeek-OCR")  # that ran
    estimate = genz_core.estimate(model, SYSTEM, Workload(1, 1024, 65))
    found = compare(estimate, profilers.measure_from([report]), steps={"decode": 64})
    assert found.phases["measured_s"][0] == pytest.approx(179.07269e-3 / 64, rel=1e-5)
    (launch,) = [f for f in found.findings if f.kind == "launch-bound"]
    assert "1,219 launches of 2.30 µs each" in launch.sentence


def test_a_live_run_profiles_one_request(estimate):
    run = Measurement("live", table(OPERATOR_COLUMNS, {}, 0), workload=Workload(1, 8, 17))
    assert (step_count(run, "prefill"), step_count(run, "decode")) == (1, 16)


def test_host_time_of_a_wall_clock_is_what_no_operator_accounts_for(estimate):
    run = measured_like(estimate)
    busy = float(run.operators["time_s"].sum())
    slow = dataclasses.replace(
        run, phases={"decode": PhaseTiming("decode", (4 * busy, 4 * busy), "wall")}
    )
    found = compare(estimate, slow, steps={"decode": 1})
    host = found.classes.set_index("class").loc["host"]
    assert host["measured_s"] == pytest.approx(3 * busy)
    assert "launch-bound" in kinds(found)


def test_a_class_far_below_its_roof_is_found_with_its_share(estimate):
    run = measured_like(estimate)
    bound = pd.DataFrame(estimate.decode.table()).groupby("class")["bound_s"].sum()["attention"]
    rows = run.operators.copy()
    rows.loc[rows["class"] == "attention", "time_s"] = bound / 0.4
    total = float(rows["time_s"].sum())
    phases = {"decode": PhaseTiming("decode", (total,), "gpu")}
    found = compare(estimate, dataclasses.replace(run, operators=rows, phases=phases))
    said = [f.sentence for f in found.findings if f.kind == "below roof"]
    assert any(s.startswith("Attention in decode reaches 40 % of the roof") for s in said)


def test_time_below_the_bound_is_not_comparable_and_says_why(estimate):
    found = compare(estimate, measured_like(estimate, 0.1))
    (said,) = [f for f in found.findings if f.kind == "not comparable"]
    assert "MFU or MBU above 1" in said.sentence and said.operator and said.kernels
    assert found.phases["not_comparable"][0] == REASON
    assert set(compare(estimate, measured_like(estimate)).operators["not_comparable"]) == {""}


def test_copies_and_clocks_are_found(estimate):
    run = measured_like(estimate, facts={"sm_clock_hz_mean": 1.0e9})
    rows = run.operators.copy()
    rows.loc[rows.index[0], "kind"] = "memory"
    rows.loc[rows.index[0], "time_s"] = float(rows["time_s"].sum())
    phases = {"decode": PhaseTiming("decode", (float(rows["time_s"].sum()),), "gpu")}
    found = compare(estimate, dataclasses.replace(run, operators=rows, phases=phases))
    assert {"copies", "clocks"} <= kinds(found)
    (clocks,) = [f.sentence for f in found.findings if f.kind == "clocks"]
    assert "1,000 MHz, 33 % below" in clocks


def test_a_run_of_another_device_fails_a_check_and_yields_no_finding(estimate):
    run = measured_like(estimate, 2.0, system=DeviceInfo(0, "Half of a Toy", units=50))
    found = compare(estimate, run)
    (check,) = found.failed
    assert (check.left, check.right) == (50, 100) and "another device than Toy" in check.sentence
    assert compare(estimate, measured_like(estimate, 2.0)).findings and not found.findings


def test_a_gap_after_a_stray_launch_is_no_idle_time_of_the_step(estimate, prefill):
    """The trace begins with one launch, half a second before the rest of its step."""
    found = compare(estimate, profilers.measure_from([prefill]), reports=[prefill])
    (whole,) = found.phases.to_dict("records")
    assert "idle" not in kinds(found)
    assert whole["idle_s"] < 0.01 * whole["wall_s"]
    assert whole["wall_s"] == pytest.approx(0.494, rel=2e-3)


def test_kernels_of_another_type_than_predicted_are_found(estimate):
    run = measured_like(estimate)
    rows = run.operators.copy()
    rows.loc[rows["class"] == "gemm", "name"] = "ampere_sgemm_128x64_nn"
    found = compare(estimate, dataclasses.replace(run, operators=rows))
    (precision,) = [f.sentence for f in found.findings if f.kind == "precision"]
    assert "compute in fp32; the prediction is for bf16" in precision


def test_operators_that_took_longer_than_their_step_are_scaled_and_said(estimate):
    """Two clocks: steps in processor time, operators under a profiler."""
    run = measured_like(estimate)
    busy = float(run.operators["time_s"].sum())
    phases = {"decode": PhaseTiming("decode", (busy / 2,), "cpu")}
    found = compare(estimate, dataclasses.replace(run, phases=phases))
    assert (found.classes["measured_s"] >= 0).all()
    assert found.classes["measured_s"].sum() == pytest.approx(busy / 2)
    assert any("their times are scaled to the step" in note for note in found.notes)


@pytest.mark.parametrize(
    ("kernel", "kind"),
    [
        ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64", "bf16"),
        ("sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize64x256x8_stage3_ffma", "fp32"),
        ("ampere_sgemm_128x64_nn", "fp32"),
        ("cutlass_80_tensorop_s16816gemm_tf32_128x128", "tf32"),
        ("ampere_fp16_s16816gemm_fp16_128x64", "fp16"),
        ("sm89_xmma_gemm_e4m3bf16_e4m3f32_f32_tn_n", "fp8"),
        ("Cijk_Alik_Bljk_BBS_BH_Bias_HA", "bf16"),
        ("nvjet_tst_128x256", None),
        ("Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_MT64x32x256_NEPBS8_NLCA1", "bf16"),
        ("Cijk_Alik_Bljk_NEPBS8_NLCA1", None),
        ("Cijk_Ailk_Bljk_I8II_BH", "int8"),
        ("turing_int8_i8816gemm_int8_128x128", "int8"),
    ],
)
def test_the_name_of_a_kernel_spells_its_type(kernel: str, kind: str | None):
    assert type_of_name(kernel) == kind


def test_a_report_without_phases_is_compared_as_the_phase_that_the_user_names(estimate, report_of):
    report = report_of("torch/h100_Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz")
    measurement = profilers.measure_from([report])
    with pytest.raises(InvalidValue, match="state the phase"):
        compare(estimate, measurement)
    found = compare(estimate, in_phase(measurement, "prefill"), reports=[report])
    assert found.phases["measured_s"][0] == pytest.approx(31.76e-3, rel=1e-3), "inside the step"
    (left_out,) = found.notes
    assert left_out.startswith("13.7 ms of kernel time (30 %) lie outside the steps")


def test_steps_below_one_are_refused(estimate):
    with pytest.raises(InvalidValue, match="at least 1"):
        compare(estimate, measured_like(estimate), steps={"decode": 0})


def test_a_measurement_without_operators_still_compares_its_phases(estimate):
    bare = Measurement(
        "live", table(OPERATOR_COLUMNS, {}, 0), {"decode": PhaseTiming("decode", (1e-2, 2e-2))}
    )
    found = compare(estimate, bare)
    assert found.phases["measured_s"][0] == pytest.approx(1.5e-2)
    assert math.isnan(found.classes["measured_s"].iloc[0])
    assert found.operators[["measured_s", "ratio", "gap_s"]].isna().all(axis=None)


# ------------------------------------------------------------------------------- intervals


def test_a_prediction_without_intervals_is_judged_by_nothing(estimate):
    found = compare(estimate, measured_like(estimate))
    for table_ in (found.phases, found.classes, found.operators):
        assert table_[["low_s", "high_s"]].isna().all(axis=None)
        assert table_["inside"].isna().all()


@pytest.mark.parametrize(("factor", "inside"), [(0.4, False), (0.9, True), (2.5, False)])
def test_a_measurement_lies_inside_its_interval_or_not(estimate, factor, inside):
    run = measured_like(estimate, factor)
    found = compare(estimate, run, expected=with_intervals(estimate))
    for table_ in (found.phases, found.classes, found.operators):
        assert set(table_["inside"]) == {inside}
        assert np.allclose(table_["low_s"], table_["predicted_s"] / 2)
        assert np.allclose(table_["high_s"], table_["predicted_s"] * 2)


def test_one_class_without_an_interval_leaves_the_phase_without_one(estimate):
    expected = with_intervals(estimate, without="norm")
    found = compare(estimate, measured_like(estimate), expected=expected)
    inside = found.classes.set_index("class")["inside"]
    assert inside["norm"] is None and inside["gemm"] is True
    assert found.phases["inside"][0] is None and math.isnan(found.phases["low_s"][0])


def test_a_wall_clock_is_judged_by_the_interval_of_whole_steps(estimate):
    run = measured_like(estimate)
    total = float(run.operators["time_s"].sum())
    wall = dataclasses.replace(run, phases={"decode": PhaseTiming("decode", (2 * total,), "wall")})
    expected = with_intervals(estimate, low_s=1.5 * total, high_s=3 * total)
    (whole,) = compare(estimate, wall, expected=expected).phases.to_dict("records")
    assert (whole["low_s"], whole["high_s"], whole["inside"]) == (1.5 * total, 3 * total, True)


def test_a_class_without_a_measurement_is_neither_inside_nor_outside_its_interval(estimate):
    run = measured_like(estimate)
    rows = run.operators[run.operators["class"] != "norm"]
    run = dataclasses.replace(run, operators=rows)
    found = compare(estimate, run, expected=with_intervals(estimate))
    norm = found.classes.set_index("class").loc["norm"]
    assert norm["high_s"] > 0 and norm["inside"] is None
    assert lies_inside(1.0, 2.0, math.nan) is None

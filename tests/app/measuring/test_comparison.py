"""Reports beside a prediction: intervals per class, verdicts, and classes without validation."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

import profilers
from app.answers.table import TableFormat, render
from app.measuring import comparison
from app.question.query import ask
from app.question.question import Question
from app.scenario import operator_intervals
from app.scenario.scenario import estimate
from genz_core.errors import InvalidValue
from profilers import Comparison, Measurement
from profilers.comparison.compare import lies_inside
from profilers.schema import OPERATOR_COLUMNS, OWN_RUN, PhaseTiming, table
from tests.app.pages import DECODE, REPORTS


@pytest.fixture(scope="module")
def of_qwen() -> Comparison:
    """Qwen3-8B on an MI300X: a trace that is slower than its prediction."""
    name = "inference_sglang_prefilldecode_sglang_Qwen3-8B_prefilldecode.json.gz"
    asked = {"model": "Qwen/Qwen3-8B", "system": "mi300x", "batch": 15}
    return _beside(asked, REPORTS / "torch" / name)


def _beside(asked: dict[str, Any], report: Path) -> Comparison:
    """A report beside the stated question, with nothing filled in from the report."""
    reports = [profilers.read_report(report)]
    return comparison.compare_asked(reports, ask("compare", asked), fill=False).comparison


@pytest.mark.slow
def test_the_interval_of_a_class_is_that_of_its_operators(of_qwen: Comparison):
    step = estimate(Question(model="Qwen/Qwen3-8B", system="mi300x", batch=15)).prefill
    predicted = of_qwen.classes[of_qwen.classes["predicted_s"] > 0].set_index("class")
    assert {"gemm", "attention", "norm"} <= set(predicted.index)
    for name, row in predicted.iterrows():
        latency = operator_intervals.by_class(step)[name]
        assert (row["low_s"], row["high_s"]) == pytest.approx((latency.low, latency.high))
        assert row["inside"] is (latency.low <= row["measured_s"] <= latency.high)


def test_a_phase_is_said_to_lie_inside_above_or_below(of_qwen: Comparison):
    (row,) = of_qwen.phases.to_dict("records")
    for factor, word in ((1.0, "inside"), (9.0, "above"), (0.1, "below")):
        measured_s = factor * row["predicted_s"]
        inside = lies_inside(row["low_s"], row["high_s"], measured_s)
        moved = {**row, "measured_s": measured_s, "inside": inside}
        assert f"lies {word} the 80 % interval" in comparison.verdict(moved, of_qwen.classes)
    bare = {**row, "low_s": math.nan, "high_s": math.nan, "inside": None}
    assert comparison.verdict(bare, of_qwen.classes).startswith("Prefill: not validated")


def test_what_nobody_measured_is_said_not_to_be_validated():
    model, system = "openai/gpt-oss-120b", "b200-sxm-180gb"  # no one timed 4-bit products
    asked = {"model": model, "system": system, "engine": "trtllm", "batch": 15}
    compared = _beside(asked, DECODE)
    rows = {row["class"]: comparison.folded(row) for row in compared.classes.to_dict("records")}
    assert rows["moe"]["80 %"] == "not validated" and rows["moe"]["inside 80 %"] == ""
    assert rows["attention"]["inside 80 %"] in ("yes", "no")
    (phase,) = compared.phases.to_dict("records")
    assert "not validated" in comparison.verdict(phase, compared.classes), (
        "one part leaves its mark"
    )


def test_operators_that_nobody_measured_have_no_measurement():
    bare = Measurement(
        "live", table(OPERATOR_COLUMNS, {}, 0), {"decode": PhaseTiming("decode", (1e-2,), "wall")}
    )
    scenario = Question(model="Qwen/Qwen3-8B", system="epyc-9654")
    compared = comparison.compared(estimate(scenario), bare)
    worst = comparison.worst(compared.operators)
    assert len(worst) == min(10, len(compared.operators)) and worst["measured [µs]"].isna().all()
    shown = render(compared.operators[["name", "measured_s"]].to_dict("records"), TableFormat.csv)
    assert all(line.endswith(",") for line in shown.splitlines()[1:])
    assert "nan" not in render(
        compared.operators[["measured_s"]].to_dict("records"), TableFormat.text
    )


def _cpu_trace(folder: Path, model: str) -> profilers.Report:
    """A trace of a CPU that its own run describes: a prefill of 10 ms, half of it a product."""
    spans = [("user_annotation", "prefill", 0, 10_000), ("cpu_op", "aten::mm", 100, 5_000)]
    told = {"device": "AMD EPYC 9654", "model": model, "engine": "hf", "dtype": "bfloat16",
            "batch": 2, "isl": 256, "osl": 8}  # fmt: skip
    events = [{"ph": "X", "cat": c, "name": n, "ts": ts, "dur": dur} for c, n, ts, dur in spans]
    file = folder / "trace.json"
    file.write_text(json.dumps({OWN_RUN: told, "traceEvents": events}), encoding="utf-8")
    return profilers.read_report(file)


def test_a_trace_of_a_cpu_is_compared_with_the_model_that_it_states(tmp_path: Path):
    report = _cpu_trace(tmp_path, "Qwen/Qwen2.5-0.5B")
    found = comparison.compare_asked([report], ask("compare", {}))
    assert found.resolved.model.name == "Qwen/Qwen2.5-0.5B"
    classes = found.comparison.classes.set_index("class")["measured_s"]
    assert classes["gemm"] == pytest.approx(5e-3) and classes["host"] == pytest.approx(5e-3)
    known = {one.field: one for one in found.identity}
    assert (known["weights"].value, known["tokens of prefill"].value) == ("bf16", "512")


def test_a_model_that_is_not_certain_is_proposed(tmp_path: Path):
    name = "inference_sglang_prefilldecode_sglang_Qwen3-8B_prefilldecode.json.gz"
    with pytest.raises(InvalidValue, match=r"give --model Qwen/Qwen3-8B \(likely: "):
        comparison.compare_asked(
            [profilers.read_report(REPORTS / "torch" / name)], ask("compare", {})
        )
    with pytest.raises(InvalidValue, match=r"the model is tiny .* not in the library"):
        comparison.compare_asked([_cpu_trace(tmp_path, "tiny")], ask("compare", {}))

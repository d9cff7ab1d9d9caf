"""Measured beside predicted: three bars, an error bar on the middle one, the line of a fit."""

import math

import pytest

import profilers
from app.charts import measured_classes, style
from app.measuring import comparison
from app.measuring.prediction import agreements
from app.question.query import ask
from profilers import Comparison
from tests.app.charts.figures import checked
from tests.app.pages import REPORTS


@pytest.fixture(scope="module")
def of_qwen() -> Comparison:
    """Qwen3-8B on an MI300X: a trace that is slower than its prediction."""
    name = "inference_sglang_prefilldecode_sglang_Qwen3-8B_prefilldecode.json.gz"
    asked = ask("compare", {"model": "Qwen/Qwen3-8B", "system": "mi300x", "batch": 15})
    reports = [profilers.read_report(REPORTS / "torch" / name)]
    return comparison.compare_asked(reports, asked, fill=False).comparison


def test_the_middle_of_three_bars_has_the_error_bar(of_qwen: Comparison):
    figure = checked(measured_classes.three_bars(of_qwen.classes, "", style.LIGHT))
    bars = {trace.name: trace for trace in figure.data if trace.type == "bar"}
    assert list(bars) == ["Bound", "Predicted", "Measured"]
    (points,) = (trace for trace in figure.data if trace.type == "scatter")
    ends = dict(zip(points.y, zip(points.x, points.error_x.array, strict=True), strict=True))
    validated = of_qwen.classes[of_qwen.classes["low_s"].notna()]
    assert len(ends) == len(validated) > 3
    tops = sorted(x + up for x, up in ends.values())
    assert tops == pytest.approx(sorted(validated["high_s"] * 1e3))
    labels = list(bars["Predicted"].y)
    assert any("80 %" in label and label.endswith("outside") for label in labels)
    unpredicted = of_qwen.classes[of_qwen.classes["low_s"].isna()]
    assert sum("80 %" in label for label in labels) == len(labels) - len(unpredicted)


def test_the_line_of_a_sweep_passes_where_its_fit_says():
    rows = [
        {"phase": "decode", "batch": 1, "length": n, "predicted_s": n * 1e-3,
         "low_s": math.nan, "high_s": math.nan, "inside": None, "measured_s": 2e-3 * n + 1e-3}
        for n in (1, 2, 4, 8)
    ]  # fmt: skip
    figure = checked(measured_classes.sweep_parity(rows, agreements(rows), style.LIGHT))
    (line,) = (trace for trace in figure.data if trace.name and "line" in trace.name)
    assert list(line.x) == pytest.approx([2 * y + 1e-3 for y in line.y])

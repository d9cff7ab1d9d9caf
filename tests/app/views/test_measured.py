"""Page Predicted vs measured, and `compare`: the gap, what lies inside, runs and sweeps kept."""

import json
import math
import re
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest
from typer.testing import CliRunner

import profilers
from app.charts import kernels, parity, style
from app.charts import measured as measured_chart
from app.cli import cli
from app.measuring import comparison, run_store
from app.scenario import intervals
from app.scenario.scenario import Scenario, estimate
from app.wording.tables import TableFormat, render
from genz_core.types import Workload
from profilers import Comparison, Measurement
from profilers.compare import lies_inside
from profilers.schema import OPERATOR_COLUMNS, PhaseTiming, table
from profilers.steps import MeasuredStep, StepPoint
from tests.app.pages import DECODE, QWEN, REPORTS, brought, cards, opened


def measured(*files: Path, **scenario: object) -> AppTest:
    return brought(opened("measured", **scenario), "measured_files", *files)


def test_predicted_beside_measured_shows_bars_parity_and_findings():
    name = "inference_sglang_prefilldecode_sglang_Qwen3-8B_prefilldecode.json.gz"
    app = measured(REPORTS / "torch" / name, model="Qwen/Qwen3-8B", system="mi300x", batch=15)
    assert not app.exception and not app.error
    assert cards(app)["Prefill, measured"] == "493 ms"
    assert len(app.get("plotly_chart")) == 2
    assert any("Matrix products in prefill reach" in said.value for said in app.markdown)
    assert any("the measurement lies above the 80 % interval" in c.value for c in app.caption)
    worst = app.dataframe[0].value
    assert worst["name"].iloc[0] == "gate_up_proj" and len(worst) <= 10
    assert worst["inside 80 %"].iloc[0] == "no" and worst["80 %"].iloc[0].endswith(" ms")
    assert "matched by" in str(app.dataframe[0].proto.columns), "explained columns have plain names"


@pytest.fixture(scope="module")
def of_qwen() -> Comparison:
    """Qwen3-8B on an MI300X: a trace beside its prediction, measured more slowly."""
    name = "inference_sglang_prefilldecode_sglang_Qwen3-8B_prefilldecode.json.gz"
    scenario = Scenario(model="Qwen/Qwen3-8B", system="mi300x", batch=15)
    return comparison.beside(scenario, [profilers.read_report(REPORTS / "torch" / name)])


def test_the_interval_of_a_class_is_that_of_its_operators(of_qwen: Comparison):
    step = estimate(Scenario(model="Qwen/Qwen3-8B", system="mi300x", batch=15)).prefill
    predicted = of_qwen.classes[of_qwen.classes["predicted_s"] > 0].set_index("class")
    assert {"gemm", "attention", "norm"} <= set(predicted.index)
    for name, row in predicted.iterrows():
        latency = intervals.by_class(step)[name]
        assert (row["low_s"], row["high_s"]) == pytest.approx((latency.low_s, latency.high_s))
        assert row["inside"] is (latency.low_s <= row["measured_s"] <= latency.high_s)


def test_the_middle_of_three_bars_has_the_error_bar(of_qwen: Comparison):
    figure = measured_chart.three_bars(of_qwen.classes, "", style.LIGHT)
    bars = {trace.name: trace for trace in figure.data if trace.type == "bar"}
    assert list(bars) == ["Bound", "Predicted", "Measured"]
    (points,) = (trace for trace in figure.data if trace.type == "scatter")
    ends = dict(zip(points.y, zip(points.x, points.error_x.array, strict=True), strict=True))
    known = of_qwen.classes[of_qwen.classes["low_s"].notna()]
    assert len(ends) == len(known)
    assert sorted(x + up for x, up in ends.values()) == pytest.approx(sorted(known["high_s"] * 1e3))
    labels = list(bars["Predicted"].y)
    assert any("80 %" in label and label.endswith("outside") for label in labels)
    assert any(label == "Unclassified" for label in labels), "nothing predicted, nothing to trust"


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
    model, system = "openai/gpt-oss-120b", "b200-sxm-180gb"  # 4-bit products, which none timed
    scenario = Scenario(model=model, system=system, engine="trtllm", batch=15)
    found = comparison.beside(scenario, [profilers.read_report(DECODE)])
    said = {row["class"]: comparison.folded(row) for row in found.classes.to_dict("records")}
    assert said["moe"]["80 %"] == "not validated" and said["moe"]["inside 80 %"] == ""
    assert said["attention"]["inside 80 %"] in ("yes", "no")
    (whole,) = found.phases.to_dict("records")
    assert "not validated" in comparison.verdict(whole, found.classes), "one part leaves its mark"


def test_the_command_says_in_words_and_numbers_which_measurements_lie_inside():
    call = ["compare", str(DECODE), "--model", "Qwen/Qwen3-8B", "--system", "epyc-9654"]
    asked = [[*call, *more] for more in ((), ("--json",), ("--format", "csv"))]
    words, document, table = (CliRunner().invoke(cli, one).stdout for one in asked)
    assert {"80 %", "inside 80 %"} <= set(re.split(r"  +", words.splitlines()[1]))
    judged = [row for row in json.loads(document)["classes"] if row["inside"] is not None]
    assert len(judged) > 2
    for row in judged:
        assert row["inside"] is (row["low_s"] <= row["measured_s"] <= row["high_s"])
    assert table.splitlines()[1].split(",")[2:6] == ["predicted_s", "low_s", "high_s", "measured_s"]


def test_operators_that_nobody_measured_have_no_measurement():
    bare = Measurement(
        "live", table(OPERATOR_COLUMNS, {}, 0), {"decode": PhaseTiming("decode", (1e-2,), "wall")}
    )
    one = Scenario(model="Qwen/Qwen3-8B", system="epyc-9654")
    found = comparison.compared(estimate(one), bare)
    worst = comparison.worst(found.operators)
    assert len(worst) == min(10, len(found.operators)) and worst["measured [µs]"].isna().all()
    shown = render(found.operators[["name", "measured_s"]].to_dict("records"), TableFormat.csv)
    assert all(line.endswith(",") for line in shown.splitlines()[1:])
    assert "nan" not in render(found.operators[["measured_s"]].to_dict("records"), TableFormat.text)


def test_the_command_says_how_to_name_the_phase_that_a_report_does_not():
    call = ["compare", str(QWEN), "--model", "Qwen/Qwen1.5-0.5B"]
    refused = CliRunner().invoke(cli, call)
    assert "--as prefill" in str(refused.exception)
    assert "prefill" in CliRunner().invoke(cli, [*call, "--as", "prefill"]).stdout


def test_the_steps_of_a_summary_divide_its_time():
    app = measured(DECODE, system="rtx-5090")
    app.number_input("steps_decode").set_value(64).run()
    assert not app.exception and not app.error
    assert cards(app)["Decode, measured"] == "2.80 ms"


def test_a_report_that_names_no_phase_asks_which_it_is():
    app = measured(QWEN, model="Qwen/Qwen2.5-0.5B")
    assert not app.exception and not app.error
    assert cards(app)["Prefill, measured"].endswith("ms")
    app.segmented_control("measured_phase").set_value("decode").run()
    assert "Decode, measured" in cards(app)


def test_reports_of_ncu_do_not_mix_with_others():
    app = measured(DECODE, REPORTS / "ncu" / "a100_pcie_extrap.ncu-rep")
    assert not app.exception
    assert "ncu times kernels alone" in app.error[0].value


def test_a_kept_run_stands_beside_the_prediction_of_the_sidebar(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("RIDGELINE_DATA", str(tmp_path))
    app = measured(model="Qwen/Qwen2.5-0.5B", batch=1, isl=64, osl=3)
    app.segmented_control("measured_source").set_value("A kept run").run()
    assert "No run is kept yet" in app.info[0].value
    operators = profilers.schema.table(
        profilers.schema.OPERATOR_COLUMNS,
        {
            "phase": ["prefill", "decode"], "name": ["aten::mm"] * 2, "kind": ["gemm"] * 2,
            "class": ["gemm"] * 2, "count": [10, 20], "time_s": [0.02, 0.01],
        },
    )  # fmt: skip
    run = profilers.Measurement(
        source="live", operators=operators, model="Qwen/Qwen2.5-0.5B", engine="hf",
        workload=Workload(1, 64, 3),
        phases={
            "prefill": PhaseTiming("prefill", (0.03,)), "decode": PhaseTiming("decode", (0.008,)),
        },
    )  # fmt: skip
    identity = run_store.store().save(run)
    app.run()
    assert not app.exception and not app.error
    assert cards(app)["Decode, measured"] == "8.00 ms"
    assert cards(app)["Prefill, measured"] == "30.0 ms"
    assert app.number_input(f"steps_decode_{identity}").value == 2  # tokens after the first
    assert any("batch 1, 64 + 3 tokens" in caption.value for caption in app.caption)


def test_a_kept_sweep_is_priced_step_by_step_for_the_scenario(tmp_path: Path, monkeypatch):
    """The scenario's batch and lengths do not count: every step has its own."""
    monkeypatch.setenv("RIDGELINE_DATA", str(tmp_path))
    steps = tuple(
        MeasuredStep(StepPoint(phase, batch, 128), (1e-2, 2e-2, 3e-2))
        for phase in ("prefill", "decode")
        for batch in (1, 4)
    )
    run_store.store().save(
        Measurement("live", table(OPERATOR_COLUMNS, {}, 0), model="tiny", engine="hf", steps=steps)
    )
    shown = []
    for batch in (1, 16):
        app = measured(model="Qwen/Qwen2.5-0.5B", batch=batch, isl=64, osl=3)
        app.segmented_control("measured_source").set_value("A kept run").run()
        assert not app.exception and not app.error
        assert {"Prefill: MAPE", "Decode: MAPE", "All: MAPE"} <= set(cards(app))
        shown.append(app.dataframe[0].value)
    assert list(shown[0]["measured_s"]) == [2e-2] * 4
    predicted = list(shown[0]["predicted_s"])
    assert predicted == list(shown[1]["predicted_s"]) and predicted[0] < predicted[1]


def test_an_operator_class_has_one_colour_in_every_chart():
    points = [{"label": "", "predicted_s": 1e-3, "measured_s": 2e-3, "class": words}
              for words in ("Attention", "Matrix products", "other")]  # fmt: skip
    clouds = {t.name: t for t in parity.parity(points, "class", "", style.LIGHT).data}
    bars = kernels.time_by_class({"a": {"gemm": 1.0, "attention": 1.0}}, "", style.LIGHT).data
    for bar in bars:
        assert clouds[bar.name].marker.color == bar.marker.color
    assert clouds["other"].marker.color == style.LIGHT.faint

"""Page Predicted vs measured: the gap of a report, of a kept run and of a kept sweep."""

from pathlib import Path

from streamlit.testing.v1 import AppTest

import profilers
from app.measuring import run_store
from genz_core.types import Workload
from profilers import Measurement
from profilers.schema import OPERATOR_COLUMNS, PhaseTiming, table
from profilers.steps import MeasuredStep, StepPoint
from tests.app.pages import DECODE, QWEN, REPORTS, brought, cards, opened


def measured(*files: Path, **scenario: object) -> AppTest:
    return brought(opened("measured", **scenario), "measured_files", *files)


def test_predicted_beside_measured_shows_bars_parity_and_findings():
    name = "inference_sglang_prefilldecode_sglang_Qwen3-8B_prefilldecode.json.gz"
    app = measured(REPORTS / "torch" / name, model="Qwen/Qwen3-8B", system="mi300x", batch=15)
    assert not app.exception and not app.error
    assert cards(app) == {"Prefill, measured": "493 ms", "Prefill, wall time": "494 ms"}
    assert len(app.get("plotly_chart")) == 2
    assert any("Matrix products in prefill reach" in text.value for text in app.markdown)
    assert any("the measurement lies above the 80 % interval" in c.value for c in app.caption)
    behind, worst = (table.value for table in app.dataframe)
    assert behind["operator"].iloc[0] == "gate_up_proj" and "Cijk" in behind["kernels"].iloc[0]
    assert any("busy for 493 ms" in c.value and "99 % of" in c.value for c in app.caption)
    assert worst["name"].iloc[0] == "gate_up_proj" and len(worst) <= 10
    assert worst["inside 80 %"].iloc[0] == "no" and worst["80 %"].iloc[0].endswith(" ms")
    assert "matched by" in str(app.dataframe[1].proto.columns), "explained columns have plain names"


def test_the_steps_of_a_summary_divide_its_time():
    app = measured(DECODE, system="rtx-5090")
    app.number_input("steps_decode").set_value(64).run()
    assert not app.exception and not app.error
    assert cards(app)["Decode, measured"] == "2.80 ms"


def test_a_report_that_names_no_phase_is_taken_for_the_chosen_one():
    app = measured(QWEN, model="Qwen/Qwen2.5-0.5B")
    assert not app.exception and not app.error
    measured_s = cards(app)["Prefill, measured"]
    app.segmented_control("measured_phase").set_value("decode").run()
    assert cards(app)["Decode, measured"] == measured_s
    assert not any(name.startswith("Prefill") for name in cards(app))


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

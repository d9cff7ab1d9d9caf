"""Reports, stored runs and stored sweeps beside their prediction."""

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

import profilers
from app.dashboard.panels.beside_prediction import TITLE
from app.measuring import run_store
from genz_core.types import Workload
from profilers import Measurement
from profilers.schema import OPERATOR_COLUMNS, PhaseTiming, table
from profilers.steps import MeasuredStep, StepPoint
from tests.app.pages import DECODE, QWEN, REPORTS, brought, cards, opened, setup_of

SUMMARY = REPORTS / "csv" / "nsys_stats" / "mfu_2gpu_before_cuda_gpu_kern_sum.csv"


def measured(*files: Path, **scenario: object) -> AppTest:
    return brought(opened("measured", **scenario), "upload_files", *files)


def kept(**scenario: object) -> AppTest:
    return opened("measure", part=TITLE, **scenario)


def test_predicted_beside_measured_shows_bars_parity_and_findings():
    name = "inference_sglang_prefilldecode_sglang_Qwen3-8B_prefilldecode.json.gz"
    scenario = {"model": "Qwen/Qwen3-8B", "system": "mi300x", "batch": 15, "engine": "sglang"}
    app = measured(REPORTS / "torch" / name, **scenario)
    assert not app.exception and not app.error
    assert cards(app) == {"Prefill, measured": "493 ms", "Prefill, wall time": "494 ms"}
    assert len(app.get("plotly_chart")) == 3
    assert any("Norms in prefill reach" in text.value for text in app.markdown)
    assert any("lies above the 80 % interval, 3" in c.value for c in app.caption)
    behind, worst = (table.value for table in app.dataframe)
    assert behind["operator"].iloc[0] == "gate_up_proj"
    (norms,) = behind["kernels"][behind["operator"] == "q_norm"]
    assert "rmsnorm" in norms
    assert any("busy for 493 ms" in c.value and "99 % of" in c.value for c in app.caption)
    assert worst["name"].iloc[0] == "gate_up_proj" and len(worst) <= 10
    assert worst["inside 80 %"].iloc[0] == "no" and worst["80 %"].iloc[0].endswith(" ms")
    assert "matched by" in str(app.dataframe[1].proto.columns), "explained columns have plain names"


def test_the_steps_of_a_summary_divide_its_time():
    app = measured(DECODE, system="rtx-5090")
    app.number_input("steps_decode").set_value(64).run()
    assert not app.exception and not app.error
    assert cards(app)["Decode, measured"] == "2.80 ms"


@pytest.mark.slow
def test_a_report_whose_phase_nothing_tells_is_taken_for_the_chosen_one():
    app = measured(SUMMARY, model="Qwen/Qwen2.5-0.5B", tp=2)
    assert not app.exception and not app.error
    measured_s = cards(app)["Prefill, measured"]
    app.segmented_control("measured_phase").set_value("decode").run()
    assert cards(app)["Decode, measured"] == measured_s
    assert not any(name.startswith("Prefill") for name in cards(app))


def test_where_what_ran_differs_both_are_named_and_one_click_fills_the_scenario():
    app = measured(QWEN, model="Qwen/Qwen1.5-0.5B", system="mi300x", batch=1)
    assert not app.exception and not app.error
    (warning,) = app.warning
    for words in ("NVIDIA H100 80GB HBM3", "Instinct MI300X", "batch of prefill", "559"):
        assert words in warning.value.replace("\\", "")
    assert any("run differs from the priced scenario" in caption.value for caption in app.caption)
    assert not any(text.value.startswith("- ") for text in app.markdown), "no finding"
    app.button("fill_scenario").click().run()
    assert not app.exception and not app.error and not app.warning
    assert app.selectbox("system").value == "h100-sxm5-80gb"
    scenario = setup_of(app).scenario
    assert (scenario.kind, scenario.batch, scenario.isl) == ("batch", 16, 559)
    assert any(text.value.startswith("- ") for text in app.markdown), "findings are stated"
    assert not any(button.key == "fill_scenario" for button in app.button), "nothing is left"


@pytest.mark.slow
def test_what_was_chosen_for_another_model_goes_when_the_one_that_ran_is_taken():
    """Once, four devices and fp8 remained, and findings were about a quarter of the model."""
    app = measured(QWEN, model="meta-llama/Llama-3.1-70B", tp=4, weights="fp8")
    app.button("fill_scenario").click().run()
    assert not app.exception and not app.error and not app.warning
    assert app.selectbox("model").value == "Qwen/Qwen1.5-0.5B"
    assert app.selectbox("tp").value == "1"
    assert app.selectbox("weights").value == "as checkpoint"


@pytest.mark.slow
def test_two_phases_of_an_engine_have_each_their_own_batch():
    torch = REPORTS / "torch"
    files = [
        torch / f"inference_sglang_{name}.json.gz"
        for name in ("prefilldecode_sglang_Qwen3-8B_prefilldecode", "decode_sglang_Qwen3-8B_decode")
    ]
    app = measured(*files, model="Qwen/Qwen3-8B", system="mi300x", engine="sglang", batch=15)
    assert not app.exception and not app.error and not app.warning
    assert cards(app)["Prefill, measured"] == "493 ms"
    assert {"Prefill, measured", "Decode, measured"} <= set(cards(app))


def test_reports_of_ncu_do_not_mix_with_others():
    app = measured(DECODE, REPORTS / "ncu" / "a100_pcie_extrap.ncu-rep")
    assert not app.exception
    assert "ncu times kernels alone" in app.error[0].value


def test_a_kept_run_stands_beside_the_prediction_of_the_sidebar(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("RIDGELINE_DATA", str(tmp_path))
    app = kept(model="Qwen/Qwen2.5-0.5B", batch=1, isl=64, osl=3)
    assert "No kept runs yet" in app.info[0].value
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
    assert app.number_input(f"steps_decode_{identity}").value == 2  # tokens after the first one
    assert any("batch 1, 64 + 3 tokens" in caption.value for caption in app.caption)
    assert "does not name its device" in app.warning[0].value


@pytest.mark.slow
def test_a_kept_run_is_compared_with_its_own_prediction(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("RIDGELINE_DATA", str(tmp_path))
    operators = table(OPERATOR_COLUMNS, {}, 0)
    phases = {"prefill": PhaseTiming("prefill", (0.03,))}
    system = profilers.DeviceInfo(name="NVIDIA H100 80GB HBM3")
    run = Measurement(
        "live", operators, phases, system, "Qwen/Qwen2.5-0.5B", "hf", Workload(1, 64, 3),
        {"dtype": "bfloat16", "layers": 24},
    )  # fmt: skip
    run_store.store().save(run)
    predicted = set()
    for model in ("Qwen/Qwen2.5-0.5B", "meta-llama/Llama-3.1-8B"):
        app = kept(model=model, batch=8, system="mi300x")
        assert not app.exception and not app.error and not app.warning
        assert any("not the sidebar" in caption.value for caption in app.caption)
        predicted |= {metric.delta for metric in app.metric}
    assert len(predicted) == 1, "whatever the sidebar says"


def test_a_kept_sweep_is_priced_step_by_step_for_the_scenario(tmp_path: Path, monkeypatch):
    """The scenario's batch and lengths are ignored, because every step has its own."""
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
        app = kept(model="Qwen/Qwen2.5-0.5B", batch=batch, isl=64, osl=3)
        assert not app.exception and not app.error
        assert {"Prefill: MAPE", "Decode: MAPE", "All: MAPE"} <= set(cards(app))
        shown.append(app.dataframe[0].value)
    assert list(shown[0]["measured_s"]) == [2e-2] * 4
    predicted = list(shown[0]["predicted_s"])
    assert predicted == list(shown[1]["predicted_s"]) and predicted[0] < predicted[1]


def test_a_scenario_that_nobody_touched_is_set_to_what_ran_and_findings_are_stated():
    app = measured(QWEN)
    assert not app.exception and not app.error and not app.warning
    assert app.selectbox("model").value == "Qwen/Qwen1.5-0.5B"
    assert app.selectbox("system").value == "h100-sxm5-80gb"
    scenario = setup_of(app).scenario
    assert (scenario.kind, scenario.batch, scenario.isl) == ("batch", 16, 559)
    assert any("was set from the report" in info.value for info in app.info)
    assert any(text.value.startswith("- ") for text in app.markdown), "findings are stated"


@pytest.mark.slow
def test_a_scenario_that_was_chosen_is_kept_and_the_model_that_ran_is_a_click_away():
    app = measured(QWEN, model="Qwen/Qwen3-8B")
    assert app.selectbox("model").value == "Qwen/Qwen3-8B" and app.warning
    app.button("fill_scenario").click().run()
    assert app.selectbox("model").value == "Qwen/Qwen1.5-0.5B" and not app.warning

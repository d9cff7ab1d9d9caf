"""The pages of what was measured: reports, runs, predicted beside measured, calibration."""

import gzip
import json
import math
import re
import time
from pathlib import Path

import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest
from typer.testing import CliRunner

import profilers
from app import intervals, kept_runs, reports, uploads
from app.charts import kernels, parity, style, timeline
from app.charts import measured as measured_chart
from app.cli import cli
from app.measuring import agreements
from app.scenario import Scenario, estimate
from app.tables import Format, render
from genz_core.types import Workload
from profilers import Comparison, Measurement
from profilers.compare import lies_inside
from profilers.schema import OPERATOR_COLUMNS, PhaseTiming, table
from profilers.steps import MeasuredStep, StepPoint

ROOT = Path(__file__).parents[2]
MAIN = ROOT / "app" / "main.py"
REPORTS = ROOT / "tests" / "fixtures" / "reports"
QWEN = ROOT / "app" / "samples" / "h100_qwen1.5-0.5b.json.gz"
DECODE = REPORTS / "csv" / "llm-perf-opt" / "decode_cuda_gpu_kern_sum.csv"
PREFILL = REPORTS / "csv" / "llm-perf-opt" / "prefill_cuda_gpu_kern_sum.csv"


def opened(page: str) -> AppTest:
    app = AppTest.from_file(str(MAIN), default_timeout=60).run()
    return app.switch_page(f"views/{page}.py").run()


def uploaded(*files: Path) -> AppTest:
    app = opened("reports")
    box = app.file_uploader("report_files")
    for file in files:
        box = box.upload(file.name, file.read_bytes())
    return box.run()


def cards(app: AppTest) -> dict[str, str]:
    return {metric.label: metric.value for metric in app.metric}


def test_the_reports_page_invites_before_anything_is_uploaded():
    app = opened("reports")
    assert not app.exception
    assert "try a sample" in app.info[0].value


@pytest.mark.parametrize("sample", list(uploads.SAMPLES))
def test_every_sample_opens(sample: str):
    app = opened("reports")
    app.pills("report_samples").set_value([sample]).run()
    assert not app.exception and not app.error
    assert cards(app)["Kernel launches"] != "–"


def test_cards_show_what_the_summary_says():
    app = opened("reports")
    app.pills("report_samples").set_value([next(iter(uploads.SAMPLES))]).run()
    assert cards(app)["Kernel launches"] == "1,465"
    assert cards(app)["Kernel time"] == "45.4 ms"


def test_an_uploaded_report_is_drawn_and_two_are_compared():
    app = uploaded(PREFILL, DECODE)
    assert not app.exception and not app.error
    assert cards(app)["Kernel launches"] == "6,660"
    assert any("Kernel time changes by **113 ms** less" in text.value for text in app.markdown)
    table = app.dataframe[-1].value
    assert table["change [µs]"].sum() == pytest.approx(-113e3, rel=0.01)


def test_half_an_upload_is_a_sentence_beside_what_could_be_read(tmp_path: Path):
    half = tmp_path / "half.json"
    whole = gzip.decompress(QWEN.read_bytes())
    half.write_bytes(whole[: len(whole) // 2])
    app = uploaded(half, DECODE)
    assert not app.exception
    assert app.error[0].value.startswith("half.json")
    assert cards(app)["Kernel launches"] == "78,016"


# ------------------------------------------------------------------------------- tables


@pytest.fixture(scope="module")
def qwen() -> profilers.Report:
    return profilers.read_report(QWEN)


@pytest.mark.parametrize("most", [1, 7, 100, 2000])
def test_a_timeline_has_at_most_so_many_bars_and_loses_no_event(qwen, most: int):
    bars = timeline.bars(qwen.kernels, qwen.copies, most)
    lanes = set(timeline.bars(qwen.kernels, qwen.copies, 10_000)["lane"])
    assert len(bars) <= most
    if most >= len(lanes):
        assert bars["events"].sum() == len(qwen.kernels) + len(qwen.copies)


def test_bars_that_share_keep_where_a_lane_starts_and_ends(qwen):
    fine, coarse = (timeline.bars(qwen.kernels, qwen.copies, most) for most in (10_000, 20))
    for lane, rows in fine.groupby("lane"):
        here = coarse[coarse["lane"] == lane]
        end = (rows["start_s"] + rows["duration_s"]).max()
        assert here["start_s"].min() == rows["start_s"].min()
        assert (here["start_s"] + here["duration_s"]).max() == pytest.approx(end)


def test_the_timeline_escapes_names_of_kernels(qwen):
    bars = timeline.bars(qwen.kernels, qwen.copies, 50).assign(name="<b>bold</b>")
    figure = timeline.timeline(bars, timeline.range_bars(qwen.ranges), style.LIGHT)
    said = [row[0] for trace in figure.data[1:] for row in trace.customdata]
    assert set(said) == {"&lt;b&gt;bold&lt;/b&gt;"}


def test_the_trace_for_perfetto_holds_every_kernel_with_its_times(qwen):
    trace = json.loads(reports.chrome_trace(qwen))
    kernels = [event for event in trace["traceEvents"] if event["cat"] == "kernel"]
    assert len(kernels) == 1465
    assert sum(event["dur"] for event in kernels) == pytest.approx(45432.698, rel=1e-6)
    assert all(event["ph"] == "X" and event["ts"] >= 0 for event in kernels)


def test_the_exported_trace_is_read_back_with_the_same_kernels(qwen, tmp_path: Path):
    file = tmp_path / "again.json"
    file.write_text(reports.chrome_trace(qwen))
    again = profilers.read_report(file)
    assert int(again.kernels["count"].sum()) == 1465


def test_ranges_hold_the_time_of_the_kernels_inside():
    name = "inference_sglang_prefilldecode_sglang_Qwen3-8B_prefilldecode.json.gz"
    report = profilers.read_report(REPORTS / "torch" / name)
    table = reports.ranges_table(report)
    outer = table[table["depth"] == 0]
    assert outer["gpu_s"].sum() == pytest.approx(
        report.kernels.dropna(subset=["nvtx_path"])["duration_s"].sum()
    )
    inner = table[table["depth"] == 1]
    assert inner["gpu_s"].sum() <= outer["gpu_s"].sum() + 1e-12


def test_a_difference_of_two_reports_sums_to_the_difference_of_their_times():
    before, after = profilers.read_reports([PREFILL, DECODE])
    table = reports.difference(before, after)
    total = after.kernels["duration_s"].sum() - before.kernels["duration_s"].sum()
    assert table["change_s"].sum() == pytest.approx(total)
    assert not reports.difference(before, before)["change_s"].any()


# ------------------------------------------------------------------------------- the gap


def measured(*files: Path, **scenario: object) -> AppTest:
    app = AppTest.from_file(str(MAIN), default_timeout=60)
    for name, value in scenario.items():
        app.query_params[name] = str(value)
    app.run()
    app.switch_page("views/measured.py").run()
    box = app.file_uploader("measured_files")
    for file in files:
        box = box.upload(file.name, file.read_bytes())
    return box.run()


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
    return reports.beside(scenario, [profilers.read_report(REPORTS / "torch" / name)])


def test_the_interval_of_a_class_is_that_of_its_operators(of_qwen: Comparison):
    step = estimate(Scenario(model="Qwen/Qwen3-8B", system="mi300x", batch=15)).prefill
    for row in of_qwen.classes.to_dict("records"):
        if row["predicted_s"]:
            one = intervals.by_class(step)[row["class"]]
            assert (row["low_s"], row["high_s"]) == pytest.approx((one.low_s, one.high_s))
            assert row["inside"] is (one.low_s <= row["measured_s"] <= one.high_s)


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
        assert f"lies {word} the 80 % interval" in reports.verdict(moved, of_qwen.classes)
    bare = {**row, "low_s": math.nan, "high_s": math.nan, "inside": None}
    assert reports.verdict(bare, of_qwen.classes).startswith("Prefill: not validated")


def test_what_nobody_measured_is_said_not_to_be_validated():
    model, system = "openai/gpt-oss-120b", "b200-sxm-180gb"  # 4-bit products, which none timed
    scenario = Scenario(model=model, system=system, engine="trtllm", batch=15)
    found = reports.beside(scenario, [profilers.read_report(DECODE)])
    said = {row["class"]: reports.folded(row) for row in found.classes.to_dict("records")}
    assert said["moe"]["80 %"] == "not validated" and said["moe"]["inside 80 %"] == ""
    assert said["attention"]["inside 80 %"] in ("yes", "no")
    (whole,) = found.phases.to_dict("records")
    assert "not validated" in reports.verdict(whole, found.classes), "one part leaves its mark"


def test_the_command_says_in_words_and_numbers_which_measurements_lie_inside():
    call = ["compare", str(DECODE), "--model", "Qwen/Qwen3-8B", "--system", "epyc-9654"]
    asked = [[*call, *more] for more in ((), ("--json",), ("--format", "csv"))]
    words, document, table = (CliRunner().invoke(cli, one).stdout for one in asked)
    assert {"80 %", "inside 80 %"} <= set(re.split(r"  +", words.splitlines()[1]))
    for row in json.loads(document)["classes"]:
        if row["inside"] is not None:
            assert row["inside"] is (row["low_s"] <= row["measured_s"] <= row["high_s"])
    assert table.splitlines()[1].split(",")[2:6] == ["predicted_s", "low_s", "high_s", "measured_s"]


def test_operators_that_nobody_measured_have_no_measurement():
    bare = Measurement(
        "live", table(OPERATOR_COLUMNS, {}, 0), {"decode": PhaseTiming("decode", (1e-2,), "wall")}
    )
    one = Scenario(model="Qwen/Qwen3-8B", system="epyc-9654")
    found = reports.compared(estimate(one), bare)
    worst = reports.worst(found.operators)
    assert len(worst) == min(10, len(found.operators)) and worst["measured [µs]"].isna().all()
    shown = render(found.operators[["name", "measured_s"]].to_dict("records"), Format.csv)
    assert all(line.endswith(",") for line in shown.splitlines()[1:])
    assert "nan" not in render(found.operators[["measured_s"]].to_dict("records"), Format.text)


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
    identity = kept_runs.store().save(run)
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
    kept_runs.store().save(
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


def test_the_run_page_invites_and_lists_nothing_yet(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("RIDGELINE_DATA", str(tmp_path))
    app = opened("run")
    assert not app.exception and not app.error
    assert "None yet." in [caption.value for caption in app.caption]


@pytest.mark.parametrize(
    ("field", "typed"),
    [("run_model", "/etc/passwd.json"), ("run_more", "model.name=../secret.json")],
)
def test_a_path_of_the_server_is_refused_on_the_run_page(
    tmp_path: Path, monkeypatch, field: str, typed: str
):
    monkeypatch.setenv("RIDGELINE_DATA", str(tmp_path))
    app = opened("run")
    app.text_input(field).set_value(typed)
    next(b for b in app.button if b.label == "Measure").click().run()
    assert not app.exception
    assert "is a path" in app.error[0].value


@pytest.mark.slow
def test_a_run_from_the_page_is_measured_and_kept(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("RIDGELINE_DATA", str(tmp_path))
    app = opened("run")
    app.number_input("run_layers").set_value(2)
    app.number_input("run_isl").set_value(16)
    app.selectbox("run_device").set_value("cpu")
    next(b for b in app.button if b.label == "Measure").click().run()
    assert not app.exception
    job = app.session_state["job"]
    for _ in range(300):
        job.poll()
        if job.over:
            break
        time.sleep(0.3)
    assert job.error == ""
    app.run()
    assert not app.exception
    assert len(app.dataframe[0].value) == 1


@pytest.mark.slow
def test_a_sweep_from_the_page_shows_points_agreement_and_lines(tmp_path: Path, monkeypatch):
    pytest.importorskip("transformers")
    monkeypatch.setenv("RIDGELINE_DATA", str(tmp_path))
    app = opened("run")
    app.segmented_control("run_mode").set_value("Sweep").run()
    app.number_input("run_layers").set_value(1)
    app.text_input("sweep_batches").set_value("1,2")
    app.text_input("sweep_lengths").set_value("16,32")
    app.number_input("sweep_rounds").set_value(1)
    app.selectbox("run_device").set_value("cpu")
    app.text_input("run_more").set_value("threads=1 predict.system=epyc-9654")
    next(b for b in app.button if b.label == "Measure").click().run()
    job = app.session_state["job"]
    for _ in range(600):
        job.poll()
        if job.over:
            break
        time.sleep(0.2)
    assert job.error == ""
    app.run()
    assert not app.exception and not app.error
    assert {"Prefill: MAPE", "Decode: MAPE", "All: MAPE"} <= set(cards(app))
    assert len(app.dataframe[0].value) == 8
    (run,) = kept_runs.store().runs()
    assert len(kept_runs.store().load(run.id).steps) == 8
    assert any(run.id[:8] in said.value for said in app.success)


def test_a_grid_that_does_not_read_is_refused_on_the_run_page(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("RIDGELINE_DATA", str(tmp_path))
    app = opened("run")
    app.segmented_control("run_mode").set_value("Sweep").run()
    app.text_input("sweep_batches").set_value("")
    next(b for b in app.button if b.label == "Measure").click().run()
    assert not app.exception and "batches '': give" in app.error[0].value


def test_the_line_of_a_sweep_passes_where_its_fit_says():
    rows = [
        {"phase": "decode", "batch": 1, "length": n, "predicted_s": n * 1e-3,
         "low_s": math.nan, "high_s": math.nan, "inside": None, "measured_s": 2e-3 * n + 1e-3}
        for n in (1, 2, 4, 8)
    ]  # fmt: skip
    figure = measured_chart.sweep(rows, agreements(rows), style.LIGHT)
    (line,) = (trace for trace in figure.data if trace.name and "line" in trace.name)
    assert list(line.x) == pytest.approx([2 * y + 1e-3 for y in line.y])


def test_the_roofline_of_a_report_is_drawn_under_the_roofs_it_states():
    app = opened("reports")
    app.pills("report_samples").set_value(["The roofline of that kernel (ncu)"]).run()
    app.session_state["report_tabs"] = "Roofline"
    app.run()
    assert not app.exception
    assert any("CUDA cores alone" in caption.value for caption in app.caption)
    assert len(app.get("plotly_chart")) == 2


def test_an_operator_class_has_one_colour_in_every_chart():
    points = [{"label": "", "predicted_s": 1e-3, "measured_s": 2e-3, "class": words}
              for words in ("Attention", "Matrix products", "other")]  # fmt: skip
    clouds = {t.name: t for t in parity.parity(points, "class", "", style.LIGHT).data}
    bars = kernels.by_class({"a": {"gemm": 1.0, "attention": 1.0}}, "", style.LIGHT).data
    for bar in bars:
        assert clouds[bar.name].marker.color == bar.marker.color
    assert clouds["other"].marker.color == style.LIGHT.faint


def test_roofs_are_named_on_their_lines_and_axes_have_words():
    points = pd.DataFrame({"name": ["k"], "count": [1], "time_s": [1e-3], "at_least": [False],
        "operator_class": ["gemm"], "compute_pct": [50.0], "dram_pct": [50.0],
        "flops_per_s": [1e14], "flops_per_byte": [100.0]})  # fmt: skip
    peaks = {"bf16": 1e15, "fp16": 1e15, "fp32": 6e13}
    figure = kernels.counter_roofline(points, 3e12, peaks, style.LIGHT)
    said = [note.text for note in figure.layout.annotations]
    assert said == ["memory 3.00 TB/s", "fp32 60.0 TFLOP/s", "bf16, fp16 1.00 PFLOP/s"]
    assert "100 TFLOP/s" in figure.layout.yaxis.ticktext


def test_the_calibrate_page_says_what_it_will_do_and_has_fitted_nothing():
    app = opened("calibrate")
    assert not app.exception and not app.error
    assert "Nothing is fitted yet" in app.info[0].value
    assert any(button.label == "Calibrate" for button in app.button)


@pytest.mark.slow
def test_a_calibration_of_this_machine_shows_both_errors_and_is_saved(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("RIDGELINE_DATA", str(tmp_path))
    app = opened("calibrate")
    app.selectbox("fit_device").set_value("cpu")
    next(b for b in app.button if b.label == "Calibrate").click().run()
    job = app.session_state["calibration"]
    for _ in range(1000):
        job.poll()
        if job.over:
            break
        time.sleep(0.3)
    assert job.error == ""
    app.run()
    assert not app.exception
    assert set(cards(app)) >= {"Mean error, before", "Mean error, after"}
    app.button("save_fit").click().run()
    assert not app.exception
    assert (tmp_path / "systems" / "this-machine.yaml").is_file()


def test_the_calibrate_page_fits_a_sample_report_and_keeps_it(tmp_path: Path, monkeypatch):
    import hardware_db

    monkeypatch.setenv("RIDGELINE_DATA", str(tmp_path))
    app = opened("calibrate")
    app.segmented_control("fit_source").set_value("Profiler reports").run()
    app.pills("fit_samples").set_value([next(iter(uploads.SAMPLES))]).run()
    next(b for b in app.button if b.label == "Calibrate").click().run()
    assert not app.exception and not app.error
    before, after = (cards(app)[f"Mean error, {state}"] for state in ("before", "after"))
    assert float(after.strip("%")) < float(before.strip("%"))
    app.button("save_fit").click().run()
    assert not app.exception
    kept = hardware_db.load("h100-sxm5-80gb-from-report")
    assert kept.latency is not None and kept.latency.fit("gemm", "bf16").points == 4
    app.pills("fit_samples").set_value([list(uploads.SAMPLES)[1]]).run()
    assert "Mean error, after" not in cards(app)  # that fit was of another report


def test_a_fit_is_not_shown_beside_another_report_of_the_same_name():
    app = opened("calibrate")
    app.segmented_control("fit_source").set_value("Profiler reports").run()
    trace = gzip.decompress(QWEN.read_bytes())
    app.file_uploader("fit_files").upload("trace.json", trace).run()
    next(b for b in app.button if b.label == "Calibrate").click().run()
    assert "Mean error, after" in cards(app)
    app.run()
    assert "Mean error, after" in cards(app)
    longer = trace.replace(b"8944, 1024", b"8944, 2048")
    assert longer != trace
    app.file_uploader("fit_files").upload("trace.json", longer).run()
    assert not app.exception and "Mean error, after" not in cards(app)


def test_the_calibrate_page_says_that_a_report_tells_no_shapes(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("RIDGELINE_DATA", str(tmp_path))
    app = opened("calibrate")
    app.segmented_control("fit_source").set_value("Profiler reports").run()
    app.file_uploader("fit_files").upload(DECODE.name, DECODE.read_bytes()).run()
    next(b for b in app.button if b.label == "Calibrate").click().run()
    assert "choose it" in app.info[0].value
    app.selectbox("fit_system_None").set_value("rtx-5090")
    next(b for b in app.button if b.label == "Calibrate").click().run()
    assert not app.exception
    assert "tells the shape" in app.error[0].value and not list(tmp_path.iterdir())

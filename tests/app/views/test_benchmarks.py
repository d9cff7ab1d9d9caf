"""Page Upload, results: inputs, figures, requests, calibration and storage."""

import json

import pytest
from streamlit.testing.v1 import AppTest

from app.benchmarks.comparison import compare
from app.dashboard import uploads
from app.dashboard.panels import benchmark_answer
from tests.app.benchmarks.conftest import RUN
from tests.app.pages import ROOT, brought, charts, opened, pressed, settled

RESULTS = ROOT / "tests" / "fixtures" / "results"

SGLANG = ROOT / "app" / "samples" / "sglang_llama-3.1-405b.jsonl"
VLLM = ROOT / "tests" / "fixtures" / "results" / "vllm" / "llama405b_16qps_first40.json"
AIPERF = ROOT / "app" / "samples" / "aiperf_qwen3-0.6b_concurrency1.jsonl"
H200 = {"model": "meta-llama/Llama-3.1-405B", "system": "h200-sxm-141gb", "tp": 8}


@pytest.fixture(autouse=True)
def data(tmp_path, monkeypatch):
    monkeypatch.setenv("RIDGELINE_DATA", str(tmp_path / "data"))


def page(*files, **query) -> AppTest:
    return brought(opened("upload", **{**H200, **query}), "upload_files", *files)


def words(app: AppTest) -> str:
    shown = (*app.markdown, *app.info, *app.caption, *app.error, *app.success, *app.warning)
    return " ".join(element.value for element in shown)


def tab(app: AppTest, name: str) -> AppTest:
    """The page with another part open."""
    return app.segmented_control("part").set_value(name).run()


def test_what_the_file_lacks_is_asked_with_the_sidebars_scenario_as_proposal():
    app = page(SGLANG)
    assert not app.exception and not app.error
    assert "does not say on which hardware it ran" in words(app)
    assert app.selectbox("benchmark_system").value == H200["system"]
    assert app.number_input("benchmark_tp").value == 8
    assert not charts(app), "nothing is predicted before"


def test_a_file_that_lacks_facts_shows_what_was_measured_before_they_are_given():
    for part in ("Is it well tuned", "Figures", "Requests", "Learn"):
        app = page(SGLANG, part=part)
        assert not app.exception and not app.error
        table = next(one.value for one in app.dataframe if "measured" in one.value)
        assert "24.4 s" in set(table["measured"]) and "predicted" not in table


def test_a_file_that_contradicts_itself_says_so_before_its_device_is_known(tmp_path):
    record = json.loads((RESULTS / "vllm" / "llama405b_16qps_first40.json").read_text())
    halved = tmp_path / "halved.json"
    halved.write_text(json.dumps({**record, "mean_tpot_ms": record["mean_tpot_ms"] / 3}))
    app = brought(opened("upload"), "upload_files", halved)
    assert not app.exception
    assert any("percentiles agree with the mean, TPOT" in one.value for one in app.warning)


def test_the_form_and_the_sentence_above_it_state_one_degree(tmp_path):
    """Nothing is priced before the device is known; then the form starts from what is priced."""
    app = page(SGLANG)
    assert "neither devices nor parallelism" in words(app) and "Priced as" not in words(app)
    path = tmp_path / "run.json"
    path.write_text(json.dumps({**RUN, "gpu": "NVIDIA H100 80GB HBM3"}))
    app = page(path, model="meta-llama/Llama-3.1-8B", system="h100-sxm5-80gb", tp=8)
    assert "neither devices nor parallelism. Priced as: one device." in words(app)
    assert app.number_input("benchmark_tp").value == 1


def test_the_answers_put_every_run_on_its_curve():
    app = pressed(page(SGLANG), "Predict")
    assert not app.exception and not app.error
    ttft, rate = charts(app)
    measured = next(trace for trace in ttft["data"] if trace.get("name") == "measured")
    assert len(measured["x"]) == 4 and len(rate["data"]) >= 2


def test_the_caption_explains_only_the_marks_that_are_drawn():
    app = pressed(page(SGLANG), "Predict")
    named = {"Band": "80 %", "Dots": "bound", "Diamonds": "best measured run"}
    traces = {trace.get("name") for chart in charts(app) for trace in chart["data"]}
    assert "bound" in traces and "best measured run" not in traces
    for mark, trace in named.items():
        assert (f"{mark}: " in words(app)) == (trace in traces), mark
    assert "Cross: " not in words(app) and "Red: " not in words(app)


@pytest.mark.slow
def test_where_nothing_was_ever_served_no_figure_has_an_interval():
    app = pressed(page(SGLANG, system="mi300x"), "Predict")
    assert "No figure of these results has a validated interval" in words(app)


def test_a_run_is_held_against_the_best_run_known():
    app = pressed(page(VLLM, system="h100-sxm5-80gb"), "Predict")
    assert any(text.value.startswith("You are at **") for text in app.markdown)
    assert "could be saved" in words(app)


def test_runs_are_compared_once_and_again_when_the_answer_may_differ(monkeypatch):
    levels: list[float] = []

    def counted(runs, level):
        levels.append(level)
        return compare(runs, level)

    benchmark_answer._compared.cache_clear()  # of the tests before
    monkeypatch.setattr(benchmark_answer, "compare", counted)
    app = pressed(page(VLLM, system="h100-sxm5-80gb"), "Predict").run()
    assert levels == [0.8]
    app = tab(app, "Figures")
    assert levels == [0.8]
    app = app.segmented_control("benchmark_level").set_value("99 %").run()
    assert levels == [0.8, 0.99]
    settled(pressed(tab(app, "Learn"), "Calibrate from these")).run()
    assert levels[2:], "what was learned corrects the prediction"


def test_a_higher_level_holds_more_figures():
    app = pressed(page(VLLM, system="h100-sxm5-80gb"), "Predict")

    def inside(app: AppTest) -> int:
        return int(words(app).partition(" figures with an interval lie")[0].split()[-3])

    before = inside(app)
    app = app.segmented_control("benchmark_level").set_value("99 %").run()
    assert inside(app) >= before and "99 %" in words(app)


@pytest.mark.slow
def test_requests_of_a_file_are_replayed_by_a_job():
    query = {"model": "Qwen/Qwen3-0.6B", "system": "rtx-6000-ada", "tp": 1}
    app = tab(pressed(page(AIPERF, **query), "Predict"), "Requests")
    app = settled(app)
    assert not app.exception and not app.error
    assert "of 10 requests: measured is" in words(app)
    assert len(charts(app)) == 2


def test_a_file_without_requests_says_which_files_have_them():
    app = tab(pressed(page(SGLANG), "Predict"), "Requests")
    assert "--save-detailed" in words(app)


def test_what_is_kept_is_its_history(tmp_path):
    path = tmp_path / "run.json"
    path.write_text(json.dumps(RUN))
    app = page(path, model="meta-llama/Llama-3.1-8B", system="h100-sxm5-80gb", tp=1)
    app = tab(pressed(app, "Predict"), "History")
    assert "No results of this deployment are kept yet" in words(app)
    app = pressed(app, "Keep these results")
    assert not app.exception and "Kept in your data folder" in words(app)
    assert len(charts(app)) == 1


@pytest.mark.slow
def test_what_is_learnt_is_said_and_forgotten(tmp_path):
    path = tmp_path / "run.json"
    path.write_text(json.dumps(RUN))
    app = page(path, model="meta-llama/Llama-3.1-8B", system="h100-sxm5-80gb", tp=1)
    app = tab(pressed(app, "Predict"), "Learn")
    app = settled(pressed(app, "Calibrate from these"))
    assert not app.exception and "your measured TPOT of 8.9 ms" in words(app)
    app = pressed(app, "Forget")
    assert "forgotten" in words(app)


def test_a_damaged_file_is_a_sentence_beside_the_others(tmp_path):
    bad = tmp_path / "half.json"
    bad.write_bytes(SGLANG.read_bytes()[:200])
    app = page(bad, SGLANG)
    assert not app.exception and len(app.error) == 1
    assert app.error[0].value.startswith("half.json")
    assert "hardware" in words(app)


def test_markup_of_a_file_is_shown_and_not_drawn(tmp_path):
    path = tmp_path / "run.json"
    path.write_text(json.dumps({**RUN, "gpu": "![x](http://x.example/a.png)"}))
    app = page(path)
    assert "![x](" not in words(app)


@pytest.mark.parametrize("name", uploads.RESULT_SAMPLES)
def test_a_sample_is_read(name):
    app = opened("upload").pills("upload_samples").set_value([name]).run()
    assert not app.exception and not app.error
    assert app.selectbox("benchmark_model").value


def test_a_sample_proposes_what_ran_and_is_predicted_by_one_more_click():
    app = opened("upload").pills("upload_samples").set_value([next(iter(uploads.RESULT_SAMPLES))])
    app = app.run()
    assert "from the sample's source" in words(app)
    assert app.selectbox("benchmark_system").value == "h200-sxm-141gb"
    app = pressed(app, "Predict")
    assert not app.exception and not app.error and len(charts(app)) >= 2

"""Page Measure: inputs for this machine, the measurement, its display and storage."""

import re
from pathlib import Path

import pytest

from app.calibration.before_run import calibrate_and_run, is_calibrated
from app.dashboard.panels.beside_prediction import TITLE
from app.measuring import run_store
from app.measuring.run_form import run_of_form
from profilers.collect.machine_document import ENGINE, SLUG
from tests.app.pages import cards, finished, opened, pressed


def test_the_run_page_invites_and_lists_nothing_yet(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("RIDGELINE_DATA", str(tmp_path))
    app = opened("run")
    assert not app.exception and not app.error
    assert "None yet." in [caption.value for caption in app.caption]


@pytest.mark.by_day(2)
@pytest.mark.parametrize(
    ("field", "typed"),
    [
        ("run_model", "/etc/passwd.json"),
        ("run_more", "model.name=../secret.json"),
        ("run_more", "path=/etc/passwd"),
        ("run_more", "predict.system=/etc/any.yaml"),
    ],
)
def test_a_path_of_the_server_is_refused_on_the_run_page(
    tmp_path: Path, monkeypatch, field: str, typed: str
):
    monkeypatch.setenv("RIDGELINE_DATA", str(tmp_path))
    app = opened("run")
    app.text_input(field).set_value(typed)
    pressed(app, "Measure")
    assert not app.exception
    assert re.search(r"unknown (model|system)|a file of the server", app.error[0].value)


@pytest.mark.slow
def test_a_run_from_the_page_is_measured_and_kept(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("RIDGELINE_DATA", str(tmp_path))
    app = opened("run")
    app.number_input("run_layers").set_value(2)
    app.number_input("run_isl").set_value(16)
    app.selectbox("run_device").set_value("cpu")
    # On any machine: if no system names its processor, there is no prediction.
    app.text_input("run_more").set_value("predict.system=epyc-9654")
    pressed(app, "Measure")
    assert not app.exception
    app = finished(app, "job")
    assert not app.exception
    assert len(app.dataframe[0].value) == 1
    ends = [text.value for text in app.markdown if ": predicted " in text.value]
    assert ends and all("measured **" in words for words in ends)
    pressed(app, "Why they differ, operator by operator")
    assert not app.exception and not app.error
    assert app.session_state["part"] == TITLE
    (run,) = run_store.store().runs()
    assert app.selectbox("measured_run").value == run.id


def test_a_machine_that_is_not_calibrated_can_be_before_the_run(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("RIDGELINE_DATA", str(tmp_path))
    app = opened("run")
    assert {"Measure", "Calibrate and measure"} <= {button.label for button in app.button}
    app.segmented_control("run_mode").set_value("Sweep").run()
    assert "Calibrate and measure" not in {button.label for button in app.button}


@pytest.mark.slow
@pytest.mark.usefixtures("free_cores")
def test_a_run_after_its_calibration_is_priced_with_it(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("RIDGELINE_DATA", str(tmp_path))
    config = run_of_form(["model=qwen2.5-0.5b", "layers=2", "isl=16", "osl=2", "device=cpu"], {})
    run = calibrate_and_run(config)
    assert is_calibrated()
    estimate, context = run_store.own_estimate(run_store.store(), run)
    assert estimate is not None and context.system is not None
    assert (context.system.slug, context.engine.name) == (SLUG, ENGINE)
    app = opened("run")
    assert "Calibrate and measure" not in {button.label for button in app.button}


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
    pressed(app, "Measure")
    app = finished(app, "job")
    assert not app.exception and not app.error
    assert {"Prefill: MAPE", "Decode: MAPE", "All: MAPE"} <= set(cards(app))
    assert len(app.dataframe[0].value) == 8
    (run,) = run_store.store().runs()
    assert len(run_store.store().load(run.id).steps) == 8
    assert any(run.id[:8] in success.value for success in app.success)


def test_a_grid_that_does_not_read_is_refused_on_the_run_page(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("RIDGELINE_DATA", str(tmp_path))
    app = opened("run")
    app.segmented_control("run_mode").set_value("Sweep").run()
    app.text_input("sweep_batches").set_value("")
    pressed(app, "Measure")
    assert not app.exception and "batches = '': give" in app.error[0].value

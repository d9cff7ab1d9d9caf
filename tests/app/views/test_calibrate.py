"""Page Calibrate: this machine, and the device of a report."""

import gzip
from pathlib import Path

import pytest

from app.dashboard import uploads
from tests.app.pages import DECODE, QWEN, cards, finished, opened, pressed


def test_the_calibrate_page_says_what_it_will_do_and_has_fitted_nothing():
    app = opened("calibrate")
    assert not app.exception and not app.error
    assert "Nothing has been fitted" in app.info[0].value
    assert any(button.label == "Calibrate" for button in app.button)


@pytest.mark.slow
def test_a_calibration_of_this_machine_shows_both_errors_and_is_saved(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("RIDGELINE_DATA", str(tmp_path))
    app = opened("calibrate")
    app.selectbox("fit_device").set_value("cpu")
    pressed(app, "Calibrate")
    app = finished(app, "calibration")
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
    app.pills("fit_samples").set_value([next(iter(uploads.REPORT_SAMPLES))]).run()
    pressed(app, "Calibrate")
    assert not app.exception and not app.error
    before, after = (cards(app)[f"Mean error, {state}"] for state in ("before", "after"))
    assert float(after.strip("%")) < float(before.strip("%"))
    app.button("save_fit").click().run()
    assert not app.exception
    kept = hardware_db.load("h100-sxm5-80gb-from-report")
    assert kept.latency is not None and kept.latency.fit("gemm", "bf16").points == 4
    app.pills("fit_samples").set_value([list(uploads.REPORT_SAMPLES)[1]]).run()
    assert "Mean error, after" not in cards(app)  # that fit belonged to another report


def test_a_fit_is_not_shown_beside_another_report_of_the_same_name():
    app = opened("calibrate")
    app.segmented_control("fit_source").set_value("Profiler reports").run()
    trace = gzip.decompress(QWEN.read_bytes())
    app.file_uploader("fit_files").upload("trace.json", trace).run()
    pressed(app, "Calibrate")
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
    pressed(app, "Calibrate")
    assert "choose it" in app.info[0].value
    app.selectbox("fit_system_None").set_value("rtx-5090")
    pressed(app, "Calibrate")
    assert not app.exception
    assert "record_shapes=True" in app.error[0].value and not list(tmp_path.iterdir())

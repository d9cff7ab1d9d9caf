"""Page Calibrate, runs of an engine: typed figures, the fit, storing and deleting it."""

import pytest
from streamlit.testing.v1 import AppTest

from app.calibration import from_runs
from app.question.question import Question
from app.scenario.scenario import resolve
from genz_core.deployment import recipe_key
from genz_core.engine import MeasuredRecipe, Recipe
from hardware_db import recipes
from tests.app import pages
from tests.app.pages import cards, pressed

SCENARIO = Question(model="Qwen/Qwen3-8B", engine="vllm")


@pytest.fixture(autouse=True)
def data(tmp_path, monkeypatch):
    monkeypatch.setenv("RIDGELINE_DATA", str(tmp_path / "data"))


def opened() -> AppTest:
    app = pages.opened("calibrate", model=SCENARIO.model, engine="vllm")
    return app.segmented_control("fit_source").set_value("Runs of an engine").run()


def typed(app: AppTest, **figures: float) -> AppTest:
    for key, value in figures.items():
        app.number_input(f"own_{key}_0").set_value(value)
    return pressed(app, "Calibrate")


def kept():
    resolved = resolve(SCENARIO)
    return recipes.load_recipe(recipe_key(resolved.engine, resolved.model, resolved.system))


def test_figures_of_a_run_are_fitted_kept_and_forgotten():
    app = typed(opened(), measured_ttft_s=60.0, measured_tpot_s=12.0)
    assert not app.exception and not app.error
    assert cards(app)["Figures"] == "2"
    assert len(app.get("plotly_chart")) == 1
    app = pressed(app, "Use in later predictions")
    assert kept().own and kept().scales.points == 1
    app = pressed(app, "Forget them")
    assert kept() is None


def test_an_open_dashboard_sees_what_a_command_keeps():
    resolved = resolve(SCENARIO)
    app = pages.opened(model=SCENARIO.model, engine="vllm")
    shown = cards(app)
    key = recipe_key(resolved.engine, resolved.model, resolved.system)
    slower = MeasuredRecipe(Recipe(), {"memory_efficiency": 0.5}, resolved.model.name, own=True)
    recipes.keep_recipe(key, slower)
    later = cards(app.run())
    assert later["TPOT"] != shown["TPOT"] and later.keys() == shown.keys()


@pytest.mark.slow
def test_static_batches_are_asked_for_their_own_figures():
    app = opened()
    app = app.segmented_control("own_kind").set_value("Static batch").run()
    labels = {box.label for box in app.number_input}
    assert {from_runs.LABELS[name] for name in from_runs.KINDS["Static batch"]} <= labels
    app = typed(app, measured_decode_step_s=9.0)
    assert not app.exception and not app.error
    assert {metric.label: metric.value for metric in app.metric}["Figures"] == "1"


def test_nothing_measured_and_nothing_possible_are_sentences():
    app = pressed(opened(), "Calibrate")
    assert "has no measured figure: give TTFT" in app.error[0].value
    app = typed(opened(), measured_tpot_s=0.001)
    assert "the device needs at least" in app.error[0].value


@pytest.mark.slow
def test_a_row_left_empty_is_no_run():
    """Only the first of three rows is filled in."""
    app = typed(opened(), measured_tpot_s=12.0)
    assert not app.error
    assert {metric.label: metric.value for metric in app.metric}["Figures"] == "1"

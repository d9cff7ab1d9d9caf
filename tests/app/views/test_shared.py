"""A shared server: what visitors save is only theirs, and the server's own data stays unchanged."""

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

import hardware_db
from app.dashboard import uploads
from app.dashboard.page_texts import page_text
from app.measuring import run_store
from app.question.question import Question
from app.rights import VARIABLE
from app.scenario.scenario import resolve
from genz_core.deployment import recipe_key
from hardware_db import recipes
from hardware_db.data_folder import overlay
from profilers import Measurement
from profilers.schema import OPERATOR_COLUMNS, table
from tests.app.pages import cards, opened, pressed, setup_of

FITTED = "h100-sxm5-80gb-from-report"
QWEN = Question(model="Qwen/Qwen3-8B", engine="vllm")


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The data folder of the server."""
    monkeypatch.setenv("RIDGELINE_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


@pytest.fixture
def shared(data: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(VARIABLE, "shared")
    return data


@pytest.fixture
def kept_run(data: Path) -> str:
    """A run stored by the server's operator."""
    return run_store.store().save(tiny(), "tiny on cpu")


def tiny() -> Measurement:
    """A measurement of nothing."""
    return Measurement("live", table(OPERATOR_COLUMNS, {}, 0), model="tiny")


def labels(app: AppTest) -> set[str]:
    return {button.label for button in app.button}


def words(app: AppTest) -> str:
    return " ".join(element.value for element in (*app.info, *app.caption, *app.success))


def calibrated() -> AppTest:
    """A session whose visitor fitted a sample report and saved the fit."""
    app = opened("calibrate")
    app.segmented_control("fit_source").set_value("Profiler reports").run()
    app.pills("fit_samples").set_value([next(iter(uploads.REPORT_SAMPLES))]).run()
    pressed(app, "Calibrate")
    return app.button("save_fit").click().run()


@pytest.mark.slow
def test_a_calibration_is_for_the_session_that_made_it(shared: Path):
    app = calibrated()
    assert "for this session alone" in words(app)
    app.run()
    assert FITTED in app.selectbox("system").options
    app.selectbox("system").set_value(FITTED).run()
    assert not app.exception and not app.error
    assert setup_of(app).own_edition
    assert FITTED not in opened("calibrate").selectbox("system").options
    assert not list(shared.rglob("*.yaml"))


def test_the_constants_of_a_session_price_its_scenarios_and_no_others(shared: Path):
    app = opened(model=QWEN.model, engine="vllm")
    before = cards(app)
    resolved = resolve(QWEN)
    key = recipe_key(resolved.engine, resolved.model, resolved.system)
    slow = recipes.MeasuredRecipe(recipes.Recipe(), {"memory_efficiency": 0.5}, "Qwen", own=True)
    with overlay(Path(app.session_state["visitor_folder"].name)):
        recipes.keep_recipe(key, slow)
    assert cards(app.run())["TPOT"] != before["TPOT"]
    assert cards(opened(model=QWEN.model, engine="vllm"))["TPOT"] == before["TPOT"]


def test_a_visitor_that_may_save_saves_for_all(data: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(VARIABLE, "shared may_save")
    assert "in the data folder of this server" in words(calibrated())
    assert hardware_db.load(FITTED).latency is not None
    assert FITTED in opened().selectbox("system").options


def test_the_folder_of_a_session_goes_with_it(shared: Path):
    app = opened()
    folder = Path(app.session_state["visitor_folder"].name)
    assert folder.is_dir()
    del app.session_state["visitor_folder"]
    assert not folder.exists()


@pytest.mark.parametrize(
    ("page", "command"),
    [("run", "ridgeline runs start"), ("calibrate", "ridgeline calibrate machine")],
)
def test_measuring_is_off_and_said_in_a_sentence(shared: Path, page: str, command: str):
    app = opened(page)
    assert not app.exception and not app.error
    assert page_text("no measuring", command=command) in [info.value for info in app.info]
    assert not labels(app) & {"Measure", "Calibrate"}


def test_kept_runs_of_the_server_are_read_only(kept_run: str, shared: Path):
    app = opened("run")
    assert not app.exception and not app.error
    assert "Only the operator of this server can tag and delete these runs." in words(app)
    assert list(app.dataframe[0].value["run"]) == [kept_run[:8]]
    assert not labels(app) & {"Add tag", "Delete"}


def test_a_visitor_that_may_measure_has_runs_apart_from_the_servers(
    kept_run: str, data: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv(VARIABLE, "shared may_measure")
    app = opened("run")
    assert "Measure" in labels(app)
    with overlay(Path(app.session_state["visitor_folder"].name)):
        own = run_store.store().save(tiny(), "a visitor's")
    app.run()
    assert [list(frame.value["run"]) for frame in app.dataframe] == [[own[:8]], [kept_run[:8]]]
    pressed(app, "Delete")
    assert not app.exception
    assert [run.id for run in run_store.store().runs()] == [kept_run]
    assert [list(frame.value["run"]) for frame in app.run().dataframe] == [[kept_run[:8]]]


def test_on_ones_own_machine_runs_can_be_tagged_and_deleted(kept_run: str):
    app = opened("run")
    assert {"Measure", "Add tag", "Delete"} <= labels(app)
    pressed(app, "Delete")
    assert not run_store.store().runs()


def test_a_server_that_asks_for_a_login_and_knows_no_provider_stays_shut(
    data: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv(VARIABLE, "shared login")
    app = opened()
    assert "no section [auth]" in app.error[0].value
    assert not app.selectbox and not app.metric

"""Calibrating an engine with the user's runs, from rows to the notes of later predictions."""

from collections.abc import Sequence

import numpy as np
import pytest

from app.calibration import from_runs
from app.calibration.measured_figures import MeasuredFigure, check_explained
from app.question.question import Question
from app.scenario import points_file
from app.scenario.points_row import parse
from app.scenario.scenario import basis, resolve
from app.scenario.served_rows import deployed
from genz_core.errors import InvalidValue, RidgelineError
from tests.app.calibration.measured_runs import FACTS, SCENARIO, measured_runs

pytestmark = pytest.mark.usefixtures("own_data")


def figures_of(row: dict[str, str]) -> list[MeasuredFigure]:
    """The measured figures of a row."""
    point = parse(row)
    resolved = deployed(point.query)
    return [
        MeasuredFigure(resolved, point, metric, float(row[column]))
        for column, metric in from_runs.METRICS.items()
        if column in row
    ]


@pytest.fixture(scope="module")
def calibration() -> from_runs.RecipeCalibration:
    """The fit of three runs at 1.25 times the predicted TPOT and 1.5 times the TTFT."""
    (calibration,) = from_runs.calibrate(measured_runs())
    return calibration


@pytest.mark.slow
def test_three_runs_bring_other_loads_of_the_recipe_nearer(calibration):
    unseen = measured_runs(loads=("16", "64"))
    assert calibration.fit.after.mape < 0.5 * calibration.fit.before.mape
    from_runs.keep(calibration)
    for row, later in zip(unseen, points_file.price(unseen), strict=True):
        for name, scale in (("tpot_s", 1.25), ("ttft_s", 1.5)):
            measured = float(row[f"measured_{name}"])
            before = measured / scale
            assert abs(float(later[name]) - measured) < 0.5 * abs(before - measured)


def test_a_kept_recipe_is_named_and_other_models_are_left_alone(calibration):
    other = Question(model="Qwen/Qwen3-14B", system="h100", engine="vllm")
    before = resolve(other).engine
    from_runs.keep(calibration)
    assert basis(resolve(SCENARIO)) == "calibrated with your own runs (3 under load)"
    assert resolve(other).engine == before


@pytest.mark.slow
def test_calibrating_again_starts_from_what_ships(calibration):
    rows = measured_runs()
    from_runs.keep(calibration)
    (again,) = from_runs.calibrate(rows)
    assert again.fit.factors == pytest.approx(calibration.fit.factors, rel=1e-6)


def test_static_batches_count_too():
    row = {**FACTS, "batch": "8", "id": "one batch"}
    (priced,) = points_file.price([row])
    row["measured_decode_step_s"] = str(1.3 * float(priced["decode_step_s"]))
    (calibration,) = from_runs.calibrate([row])
    (shown,) = from_runs.figure_rows(calibration)
    assert shown["error_before"] == pytest.approx(1 / 1.3 - 1, abs=1e-6)
    assert abs(shown["error_after"]) < abs(shown["error_before"])


@pytest.mark.slow
def test_each_recipe_of_a_file_is_calibrated_apart():
    """A call per recipe; the progress covers both."""
    fp8 = [{**row, "weights": "fp8"} for row in measured_runs(loads=("32",))]
    shares: list[tuple[float, str]] = []
    both = from_runs.calibrate(
        [*measured_runs(loads=("32",)), *fp8], lambda share, recipe: shares.append((share, recipe))
    )
    assert [calibration.key.weights for calibration in both] == ["bf16", "fp8"]
    assert [calibration.fit.after.points for calibration in both] == [2, 2]
    assert shares == sorted(shares)
    assert {recipe.partition(", ")[2] for _, recipe in shares} == {"bf16 weights", "fp8 weights"}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"measured_tpot_s": "", "measured_ttft_s": ""}, "at 4 has no measured figure"),
        ({"measured_tpot_s": "fast"}, "'fast'"),
        ({"measured_tpot_s": "-1"}, "'-1'"),
        ({"measured_tpot_s": "nan"}, "'nan'"),
        ({"measured_tpot_s": "1e-9"}, "the device needs at least"),
        ({"measured_prefill_s": "1.0"}, "with a concurrency"),
        ({"concurrency": ""}, "batch, concurrency and rate"),
        ({"model": "Qwen/Qwen3-9B"}, "Qwen3-8B"),
        ({"tp": "3"}, "tp"),
    ],
)
def test_a_row_that_cannot_be_used_is_named(change: dict[str, str], words: str):
    with pytest.raises(RidgelineError, match=words):
        from_runs.calibrate([{**measured_runs(loads=("4",))[0], **change}])


def test_milliseconds_in_columns_of_seconds_are_refused(own_data):
    rows = [
        row | {name: str(1e3 * float(row[name])) for name in row if name.startswith("measured_")}
        for row in measured_runs(loads=("4", "32"))
    ]
    with pytest.raises(InvalidValue, match=r"at (4|32): .* times the prediction.*unit.*seconds"):
        from_runs.calibrate(rows)
    one = [*measured_runs(loads=("4",)), rows[1]]
    with pytest.raises(InvalidValue, match=r"at 32: .* times the prediction"):
        from_runs.calibrate(one)
    first = [{name: row[name] for name in row if name != "measured_tpot_s"} for row in rows]
    with pytest.raises(InvalidValue, match="the error after the fit is as large as before it"):
        from_runs.calibrate(first)
    assert not (own_data / "recipes.csv").exists()


def test_a_first_token_that_waited_is_fitted():
    """A queue of the run is in its TTFT; the steps still calibrate."""
    assert from_runs.calibrate(measured_runs(ttft=12.0, loads=("4",)))


def test_a_fit_that_explains_nothing_is_refused():
    """A hundredth of a factor of three is nothing; near the measured figures, nothing is enough."""
    rows = measured_runs(tpot=3.0, loads=("4",)) + measured_runs(tpot=3.0, loads=("5",))
    figures = [figure for row in rows for figure in figures_of(row)]
    measured = np.array([one.measured_s for one in figures])
    wrong = measured * np.array([3.0, 3.0, 1 / 3.0, 1 / 3.0])
    with pytest.raises(InvalidValue, match="no constants of the engine explain these 4 figures"):
        check_explained(figures, wrong, wrong * 0.99)
    check_explained(figures, wrong, measured)
    near = measured * 1.05
    check_explained(figures, near, near)


def test_the_same_run_with_two_different_results_is_refused():
    [row] = measured_runs(loads=("32",))
    [slow] = measured_runs(tpot=2.5, loads=("32",))
    with pytest.raises(InvalidValue, match="for the same deployment and load") as refusal:
        from_runs.calibrate([{**row, "id": "monday"}, {**slow, "id": "friday"}])
    assert "monday" in str(refusal.value) and "friday" in str(refusal.value)
    [again] = measured_runs(tpot=1.3, loads=("32",))
    assert from_runs.calibrate([row, again])


def test_parts_of_a_static_batch_that_do_not_add_up_to_its_whole_are_refused():
    row = {**FACTS, "batch": "4", "measured_prefill_s": "0.06", "measured_decode_step_s": "0.009"}
    with pytest.raises(InvalidValue, match=r"E2E = TTFT \+ \(OSL - 1\) x TPOT"):
        from_runs.calibrate([{**row, "measured_e2e_s": "1"}])
    assert from_runs.calibrate([{**row, "measured_e2e_s": "9.3"}])


@pytest.mark.parametrize("rows", [(), ("gpt2,h100",)], ids=["no rows", "no figure"])
def test_a_file_without_a_figure_is_refused(tmp_path, rows: Sequence[str]):
    file = tmp_path / "empty.csv"
    file.write_text("\n".join(["model,system", *rows]) + "\n")
    with pytest.raises(
        InvalidValue, match="no runs" if not rows else "batch, concurrency and rate"
    ):
        from_runs.calibrate(points_file.read(file))

"""Measured corrections of an engine: by device, by recipe, and by the user."""

from dataclasses import replace

import pytest

import hardware_db
from genz_core.deployment import tuned
from genz_core.engine import EngineProfile, MeasuredRecipe, Recipe, RecipeKey
from genz_core.engine_constants import CONSTANTS, FIELDS
from genz_core.errors import InvalidValue
from genz_core.types import Parallelism
from hardware_db import recipes
from hardware_db.intervals import load_interval
from hardware_db.recipes import StepScale, own_file

KEY = RecipeKey("vllm", 123456789, "h100-sxm5-80gb", "fp8")
FACTORS = {"memory_efficiency": 0.8, "host_step_s": 2.0}
MINE = MeasuredRecipe(Recipe(0.9, 1.2, 3), FACTORS, "My model", own=True)


@pytest.fixture(autouse=True)
def data(tmp_path, monkeypatch):
    monkeypatch.setenv("RIDGELINE_DATA", str(tmp_path / "data"))


def on(engine: EngineProfile, system: str, recipe: MeasuredRecipe | None = None) -> EngineProfile:
    """The engine with its shipped corrections on a system, and with those of a recipe there."""
    measured = engine.measurements
    return tuned(engine, measured.devices.get(system, {}) if measured else {}, recipe)


def shipped_key():
    """A shipped recipe."""
    from hardware_db.recipes import _shipped

    return next(iter(_shipped()))


def test_an_engine_that_nobody_measured_stays_as_it_is():
    engine = hardware_db.load_engine("mlx")
    assert on(engine, "m4-max-40core") == replace(engine, measurements=None)
    assert engine.measured_on == ""


def test_a_measured_device_moves_the_constants_and_says_so():
    engine = hardware_db.load_engine("llama.cpp")
    there = on(engine, "gb10")
    assert there.measured_on == "device"
    moved = {name for name in FIELDS if getattr(there, name) != getattr(engine, name)}
    assert moved and moved <= {constant.field for constant in CONSTANTS if constant.device}


def test_runs_of_a_model_say_that_it_was_measured_and_move_constants_of_recipes_alone():
    key = shipped_key()
    engine, recipe = hardware_db.load_engine(key.engine), recipes.load_recipe(key)
    there = on(engine, key.system)
    further = on(engine, key.system, recipe)
    assert further.measured_on == "recipe" and recipe.scales.points > 0
    assert recipe.factors.keys() == {constant.field for constant in CONSTANTS if constant.recipe}
    for name in FIELDS:
        expected = getattr(there, name) * recipe.factors.get(name, 1.0)
        assert getattr(further, name) == pytest.approx(expected)
    runs = engine.measurements.runs[key.parameters]
    assert (
        sum((run.weights, run.system) == (key.weights, key.system) for run in runs.facts)
        == recipe.scales.points
    )


def test_every_factor_that_ships_is_of_a_constant_and_within_reason():
    from hardware_db.recipes import _LEVELS, _level_factors, _shipped

    by_engine = [of_engine for level in _LEVELS for of_engine in _level_factors(level).values()]
    factors = [row for of_engine in by_engine for row in of_engine.values()]
    factors += [recipe.factors for recipe in _shipped().values()]
    assert len(factors) > 40
    for row in factors:
        assert set(row) <= set(FIELDS)
        assert all(0.05 < value < 20 for value in row.values())


# ------------------------------------------------------------------------------- one's own


def test_a_recipe_of_ones_own_is_kept_found_and_forgotten():
    assert recipes.load_recipe(KEY) is None
    assert recipes.keep_recipe(KEY, MINE) == own_file()
    recipe = recipes.load_recipe(KEY)
    assert recipe == MINE
    engine = EngineProfile(name="vllm", host_step_s=1e-3)
    assert on(engine, "nowhere", recipe).measured_on == "own"
    assert on(engine, "nowhere", recipe).host_step_s == pytest.approx(2e-3)
    assert recipes.forget_recipe(KEY)
    assert recipes.load_recipe(KEY) is None
    assert not recipes.forget_recipe(KEY)


def test_fewer_than_three_runs_of_ones_own_promise_less():
    """Calibrations were validated with three runs: fewer get the interval of an
    uncalibrated one.
    """
    engine = hardware_db.load_engine("vllm")
    few = replace(MINE, scales=replace(MINE.scales, points=2))
    tried, untried = (on(engine, "h100-sxm5-80gb", own) for own in (MINE, few))
    assert (tried.measured_on, untried.measured_on) == ("own", "own_few")
    wide, narrow = (load_interval("tpot_s", "measured", e) for e in (untried, tried))
    assert wide.high / wide.low > narrow.high / narrow.low
    assert wide == load_interval("tpot_s", "measured", engine)


def test_a_constant_that_did_not_move_stays_even_at_zero():
    still = replace(MINE, factors={"host_request_s": 1.0})
    engine = EngineProfile(name="vllm", host_request_s=0.0)
    assert on(engine, "nowhere", still).host_request_s == 0.0


def test_ones_own_stands_in_for_a_shipped_one_and_keeps_the_others():
    key = shipped_key()
    recipes.keep_recipe(KEY, MINE)
    recipes.keep_recipe(key, MINE)
    assert recipes.load_recipe(key).own
    assert not recipes.load_recipe(key, own=False).own
    assert hardware_db.load_engine(key.engine).measurements.recipes[key].own
    assert not hardware_db.load_engine(key.engine, own=False).measurements.recipes[key].own
    assert recipes.load_recipe(KEY).own
    recipes.forget_recipe(key)
    assert recipes.load_recipe(key) and not recipes.load_recipe(key).own


def test_the_last_calibration_of_a_recipe_counts():
    recipes.keep_recipe(KEY, MINE)
    later = replace(MINE, scales=replace(MINE.scales, tpot_scale=1.1))
    recipes.keep_recipe(KEY, later)
    assert recipes.load_recipe(KEY).scales.tpot_scale == 1.1


def kept_file() -> str:
    """The text of a file with one recipe."""
    recipes.keep_recipe(KEY, MINE)
    return own_file().read_text()


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda text: "engine,parameters\nvllm,many\n", "no column 'system'"),
        (lambda text: text.replace("host_step_s", "host_step"), "'host_step', which no recipe has"),
        (lambda text: text.replace("123456789", "many"), "line 2 cannot be read"),
        (lambda text: text.replace(",0.9,", ",nan,"), "line 2 cannot be read"),
        (lambda text: text[: text.rindex("fp8")], "line 2 cannot be read"),
        (lambda text: "", "no column 'engine'"),
    ],
)
def test_a_damaged_calibration_is_named_and_never_overwritten(damage, reason):
    damaged = damage(kept_file())
    own_file().write_text(damaged)
    with pytest.warns(hardware_db.LeftOutWarning, match=reason):
        assert recipes.load_recipe(KEY) is None
    assert any(reason in sentence for sentence in hardware_db.left_out())
    recipes.keep_recipe(replace(KEY, parameters=7), MINE)
    assert own_file().with_name("recipes.csv.damaged-1").read_text() == damaged
    assert not hardware_db.left_out()


def test_a_damaged_line_leaves_the_other_calibrations():
    text = kept_file()
    own_file().write_text(text + "vllm,many,h100-sxm5-80gb,fp8\n")
    with pytest.warns(hardware_db.LeftOutWarning, match="line 3"):
        assert recipes.load_recipe(KEY) == MINE


def test_a_folder_that_cannot_be_written_is_one_sentence_and_loses_nothing(tmp_path, monkeypatch):
    recipes.keep_recipe(KEY, MINE)
    before = own_file().read_text()

    def full(*_args, **_kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("csv.DictWriter.writerows", full)
    with pytest.raises(InvalidValue, match="No space left"):
        recipes.keep_recipe(replace(KEY, parameters=7), MINE)
    monkeypatch.undo()
    monkeypatch.setenv("RIDGELINE_DATA", str(tmp_path / "data"))
    assert own_file().read_text() == before
    assert {path.name for path in own_file().parent.iterdir()} == {
        "recipes.csv",
        "recipes.csv.lock",
    }


# ------------------------------------------------------------------------------- scales of the step

FOUR = recipes.degrees_of(Parallelism(tp=4))
SCALE = StepScale(1.07, 0.0213, "concurrency 64, 1024/1024 tokens", "2026-11-22", FOUR)


def test_a_scale_of_the_step_holds_for_its_key_and_names_the_split_that_was_measured():
    recipes.keep_step_scale(KEY, SCALE)
    assert recipes.step_scale(KEY) == SCALE
    assert recipes.step_scale(replace(KEY, weights="bf16")) is None
    for words in ("1.070", "21.3 ms", ", tp4, ", SCALE.date):
        assert words in SCALE.sentence
    one = replace(SCALE, scale=1.2, degrees=recipes.degrees_of(Parallelism()))
    recipes.keep_step_scale(KEY, one)
    assert recipes.step_scale(KEY) == one and "one device" in one.sentence


def test_of_the_scales_of_a_key_that_an_earlier_file_holds_by_split_the_latest_is_read():
    recipes.keep_step_scale(KEY, SCALE)
    lines = own_file().read_text().splitlines()
    earlier = (
        lines[1].replace("tp4", "tp8").replace("1.07", "1.5").replace("2026-11-22", "2026-11-21")
    )
    own_file().write_text("\n".join((*lines, earlier)) + "\n")
    assert recipes.step_scale(KEY) == SCALE


def test_scales_and_recipes_share_a_file_and_leave_one_another_alone():
    recipes.keep_step_scale(KEY, SCALE)
    recipes.keep_recipe(KEY, MINE)
    assert recipes.step_scale(KEY) == SCALE and recipes.load_recipe(KEY) == MINE
    assert recipes.forget_step_scale(KEY) and not recipes.forget_step_scale(KEY)
    assert recipes.load_recipe(KEY) == MINE
    recipes.keep_step_scale(KEY, SCALE)
    assert recipes.forget_recipe(KEY)
    assert recipes.step_scale(KEY) == SCALE


def test_a_file_from_before_scales_were_kept_is_read():
    recipes.keep_recipe(KEY, MINE)
    lines = own_file().read_text().splitlines()
    without = [line.rsplit(",", 5)[0] for line in lines]
    own_file().write_text("\n".join(without) + "\n")
    assert recipes.load_recipe(KEY) == MINE and recipes.step_scale(KEY) is None

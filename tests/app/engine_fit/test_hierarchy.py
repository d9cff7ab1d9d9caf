"""The levels of the fit: constants of an engine, and what silicon, devices and recipes move."""

from dataclasses import replace

import numpy as np
import pytest

import hardware_db
from app.engine_fit import hierarchy
from app.engine_fit.hierarchy import Design, fit
from app.engine_fit.targets import load_measurements
from genz_core.calibration.engine_calibration import moved
from genz_core.deployment import tuned
from genz_core.engine_constants import CONSTANTS, FIELDS
from tests.app.engine_fit.synthetic_engine import SYSTEMS, level, synthetic


def test_each_target_is_moved_by_engine_silicon_device_and_recipe_and_scaled_by_its_recipe():
    data = synthetic()
    design = Design.of_targets(data.targets)
    moves = design.moves(np.ones(design.widths.size))
    levels = [1 + 2 * bool(c.device) + bool(c.recipe) for c in CONSTANTS]
    np.testing.assert_array_equal(moves, np.tile(levels, (len(data.targets), 1)))
    assert set(design.scales(np.ones(design.widths.size))) == {1.0}


def test_rates_of_an_engine_whose_own_kernels_were_timed_stay_near_them():
    targets = synthetic().targets
    own = [replace(target, facts={**target.facts, "kernels": "own"}) for target in targets]
    plain, near = Design.of_targets(targets), Design.of_targets(own)
    boards = np.isin(plain.levels, ("silicon", "device"))
    rates = np.isin([FIELDS[at] for at in plain.constants], hierarchy._RATES) & boards
    np.testing.assert_allclose(near.widths[rates], 0.2 * plain.widths[rates])
    np.testing.assert_array_equal(near.widths[~rates], plain.widths[~rates])


def test_published_points_belong_to_devices_alone():
    design = Design.of_targets(synthetic(serving=False).targets)
    assert set(design.levels) == {"engine", "silicon", "device"}


def test_an_era_is_told_from_the_engine_of_today():
    fitted = fit(synthetic(serving=False, era="old"))
    host = level(fitted, "era", "old", "host_step_s"), level(fitted, "engine", "", "host_step_s")
    assert host[0] > 2.0 > 1.3 > host[1]
    assert np.median(np.abs(fitted.logs)) < 0.08


def test_one_slow_device_is_told_from_the_engine():
    fitted = fit(synthetic(slow=["h200"], serving=False))
    of_device, of_silicon = (
        level(fitted, name, "h200", "memory_efficiency") for name in ("device", "silicon")
    )
    assert of_device * of_silicon < 0.87
    # most of the effect is attributed to its silicon, which siblings share
    assert of_silicon < of_device < 1.0
    assert level(fitted, "engine", "", "memory_efficiency") == pytest.approx(1.0, abs=0.05)
    assert level(fitted, "device", "b200", "memory_efficiency") == pytest.approx(1.0, abs=0.06)
    assert np.median(np.abs(fitted.logs)) < 0.03


def test_what_more_users_cost_one_recipe_is_told_from_its_device():
    fitted = fit(synthetic(costly=["70b|h200"]))
    recipe, other = (
        level(fitted, "recipe", f"{len(model)}|h200|fp8", "compute_efficiency")
        for model in ("70b", "7b")
    )
    assert recipe < 0.92 < 1.0 < other
    assert level(fitted, "device", "h200", "compute_efficiency") > 0.95


def test_runs_of_an_older_era_have_no_recipe():
    design = Design.of_targets(synthetic(era="old").targets)
    recipes = {
        label for of, label in zip(design.levels, design.labels, strict=True) if of == "recipe"
    }
    assert recipes == {f"3|{system}|fp8" for system in SYSTEMS}  # those of 7b are older


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["openvino", "tensorrt-edge-llm"])
def test_a_fit_made_again_gives_what_ships(engine):
    data = load_measurements(engine)[0]
    fitted = fit(data)
    shipped = hardware_db.load_engine(engine)
    levels = np.array(fitted.design.levels)
    again = moved(data.prior, fitted.at[levels == "engine"])
    for field in FIELDS:
        assert getattr(shipped, field) == pytest.approx(getattr(again, field), rel=2e-3)
    for at, (name, label) in enumerate(zip(levels, fitted.design.labels, strict=True)):
        constant = CONSTANTS[fitted.design.constants[at]]
        if name == "device":
            there = tuned(shipped, shipped.measurements.devices[label])
            expected = getattr(shipped, constant.field) * float(np.exp(fitted.at[at]))
            assert getattr(there, constant.field) == pytest.approx(expected, rel=2e-3)

"""A few whole steps: which constants of an engine they change, and which they keep."""

from dataclasses import replace

import numpy as np
import pytest

from genz_core.calibration.engine_calibration import calibrate_engine, map_step, moved
from genz_core.engine import EngineProfile
from genz_core.engine_constants import CONSTANTS, FIELDS
from genz_core.errors import InvalidValue

PRIOR = EngineProfile(host_step_s=1e-3)
BATCH = np.array([1.0, 4.0, 16.0, 64.0, 256.0])
METRICS = ["decode"] * BATCH.size


def steps(engine: EngineProfile, batch=BATCH):
    """Decode steps of 16 GB of weights at 3 TB/s, 2 GFLOP per token at 500 TFLOP/s, 300 kernels."""
    memory = (16e9 + 0.2e9 * batch) / (3e12 * engine.memory_efficiency)
    compute = 16e9 * batch / (500e12 * engine.compute_efficiency)
    return (
        memory
        + compute
        + 300 * engine.kernel_floor_s
        + engine.host_step_s
        + engine.host_sequence_s * batch
    )


def device(**factors):
    fields = {name: getattr(PRIOR, name) * factor for name, factor in factors.items()}
    return replace(PRIOR, **fields)


def test_steps_find_the_constants_that_they_speak_of():
    measured = steps(device(memory_efficiency=0.8))
    calibrated = calibrate_engine(PRIOR, steps, measured, METRICS)
    assert calibrated.after.mape < 0.03 < 0.1 < calibrated.before.mape
    assert calibrated.factors["memory_efficiency"] < 0.9
    assert calibrated.engine.memory_efficiency == pytest.approx(
        calibrated.factors["memory_efficiency"]
    )


def test_what_was_calibrated_on_some_batches_predicts_others_better():
    unseen = np.array([2.0, 32.0, 128.0])
    measured = device(memory_efficiency=0.75, host_step_s=2.0)
    calibrated = calibrate_engine(PRIOR, steps, steps(measured), METRICS)
    truth = steps(measured, unseen)
    before = np.abs(steps(PRIOR, unseen) / truth - 1.0).max()
    assert np.abs(steps(calibrated.engine, unseen) / truth - 1.0).max() < before / 4


def test_one_step_moves_part_of_the_way_and_stays_uncertain():
    measured = steps(device(memory_efficiency=0.7))
    single = calibrate_engine(PRIOR, lambda e: steps(e)[:1], measured[:1], METRICS[:1])
    every = calibrate_engine(PRIOR, steps, measured, METRICS)
    assert 0 < single.after.mape < single.before.mape
    assert single.uncertainty["memory_efficiency"] > every.uncertainty["memory_efficiency"]


def test_steps_that_agree_with_the_profile_change_nothing():
    calibrated = calibrate_engine(PRIOR, steps, steps(PRIOR), METRICS)
    assert calibrated.factors == pytest.approx(dict.fromkeys(FIELDS, 1.0), rel=1e-6)
    assert (calibrated.tpot_scale, calibrated.ttft_scale) == pytest.approx((1.0, 1.0))


def test_constants_that_no_point_depends_on_stay():
    calibrated = calibrate_engine(PRIOR, steps, 1.5 * steps(PRIOR), METRICS)
    assert calibrated.factors["expert_efficiency"] == 1.0


def test_a_step_far_off_bends_the_others_little():
    measured = steps(device(memory_efficiency=0.8))
    wrong = measured * np.array([1.0, 1.0, 1.0, 1.0, 6.0])
    clean = calibrate_engine(PRIOR, steps, measured, METRICS).engine
    bent = calibrate_engine(PRIOR, steps, wrong, METRICS).engine
    assert np.abs(steps(bent) / steps(clean) - 1.0)[:3].max() < 0.15


def test_a_scale_under_load_is_told_apart_from_constants():
    """Static steps agree and figures under load do not, which no constant of a step explains."""

    def figures(engine):
        return np.concatenate([steps(engine), steps(engine), 3.0 * steps(engine)])

    metrics = [*METRICS, *(["tpot_s"] * BATCH.size), *(["ttft_s"] * BATCH.size)]
    truth = figures(PRIOR) * np.repeat([1.0, 1.2, 2.0], BATCH.size)
    calibrated = calibrate_engine(PRIOR, figures, truth, metrics)
    assert calibrated.tpot_scale > 1.05 and calibrated.ttft_scale > 1.2
    assert np.abs(steps(calibrated.engine) / steps(PRIOR) - 1.0).max() < 0.12


def test_steps_that_contradict_physics_are_refused_with_both_times():
    with pytest.raises(InvalidValue, match=r"point 1 \(decode\) took .* ms, but the device needs"):
        calibrate_engine(
            PRIOR, steps, np.where(BATCH == 4, 0.5, 1.0) * steps(PRIOR), METRICS,
            bound_s=0.9 * steps(PRIOR),
        )  # fmt: skip


@pytest.mark.parametrize(
    ("measured", "metrics", "named"),
    [
        ([], [], "needs measured points"),
        ([1.0], ["speed"], "speed"),
        ([1.0, 2.0], ["decode"], "metric"),
        ([0.0], ["decode"], "positive"),
        ([np.nan], ["decode"], "positive"),
        ([np.inf], ["decode"], "positive"),
    ],
)
def test_points_that_are_none_are_refused(measured, metrics, named):
    with pytest.raises(InvalidValue, match=named):
        calibrate_engine(PRIOR, steps, np.array(measured), metrics)


# ------------------------------------------------------------------------------- its parts


def test_moves_are_of_logarithms_and_none_keeps_the_profile():
    assert moved(PRIOR, np.zeros(len(CONSTANTS))) == PRIOR
    doubled = moved(PRIOR, np.full(len(CONSTANTS), np.log(2.0)))
    assert doubled.host_step_s == pytest.approx(2e-3)
    assert doubled.host_request_s == pytest.approx(2e-4)  # from its lowest start value


def test_every_constant_is_a_field_of_an_engine_once():
    assert len(set(FIELDS)) == len(FIELDS)
    assert all(hasattr(PRIOR, name) for name in FIELDS)


def test_a_step_ends_where_points_and_prior_pull_alike():
    rng = np.random.default_rng(0)
    design, logs = rng.normal(size=(40, 3)), rng.normal(size=40)
    spread, width = np.ones(40), np.array([0.5, 0.1, 1.0])
    step = map_step(logs, design, spread, np.zeros(3), width)
    missed = (logs + design @ step) / spread
    pull = design.T @ (missed * 5.0 / (4.0 + missed**2) / spread)
    np.testing.assert_allclose(pull, -step / width**2, rtol=1e-3)


def test_small_misses_make_it_a_ridge_problem():
    rng = np.random.default_rng(0)
    design, logs = rng.normal(size=(40, 3)), rng.normal(size=40) * 1e-4
    width = np.array([0.5, 0.1, 1.0])
    step = map_step(logs, design, np.ones(40), np.zeros(3), width)
    near = 1.25 * design.T  # five fourths: four degrees of freedom
    exact = np.linalg.solve(near @ design + np.diag(width**-2), -near @ logs)
    np.testing.assert_allclose(step, exact, rtol=1e-6)


def test_the_further_off_a_point_the_less_it_says():
    def pull(last):
        logs = np.array([0.0, 0.0, 0.0, last])
        return abs(map_step(logs, np.ones((4, 1)), np.ones(4), np.zeros(1), np.ones(1))[0])

    assert pull(2.0) > pull(0.5) > 0.0
    assert pull(20.0) < pull(2.0) / 2


def test_points_that_are_not_finite_and_parameters_of_no_width_say_nothing():
    design = np.ones((3, 2))
    logs = np.array([1e-3, np.nan, 1e-3])
    step = map_step(logs, design, np.ones(3), np.zeros(2), np.array([1.0, 0.0]))
    assert step[1] == 0.0 and step[0] == pytest.approx(-2.5e-3 / 3.5)

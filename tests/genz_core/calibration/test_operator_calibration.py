"""Few-shot calibration: constants that it recovers, keeps or refuses."""

import dataclasses

import numpy as np
import pytest

from genz_core.calibration.error_metrics import error_summary
from genz_core.calibration.operator_calibration import calibrate, fit
from genz_core.errors import InvalidValue
from genz_core.latency.measured_operators import OperatorPoints, bound_s, price_s
from genz_core.latency.parameters import (
    CLASSES,
    DecodeAttentionParameters,
    GemmParameters,
    MoeParameters,
    describe,
)
from genz_core.latency.profile import Fit, LatencyProfile
from genz_core.systems import Link, System

SYSTEM = System(
    "a100", "A100", "nvidia", "gpu", "ampere", {"bf16": 312e12}, 80e9, 2.039e12, 41.9e6,
    compute_units=108, clock_hz=1.41e9, links=(Link("nvlink", 300e9, 0.0, 8),),
)  # fmt: skip


def gemm_points(parameters, size=40, noise=0.0, seed=0):
    rng = np.random.default_rng(seed)
    dims = {
        "m": 2.0 ** rng.integers(0, 13, size),
        "n": rng.choice([1024.0, 4096.0, 8192.0, 14336.0], size),
        "k": rng.choice([1024.0, 4096.0, 8192.0], size),
    }
    blank = OperatorPoints("gemm", "bf16", dims, np.ones(size))
    measured = price_s(blank, SYSTEM, parameters) * np.exp(noise * rng.standard_normal(size))
    return dataclasses.replace(blank, measured_s=measured)


def prior_profile(**parameters):
    sets = {"gemm": GemmParameters(), "decode_attention": DecodeAttentionParameters()}
    classes = {
        name: {"bf16" if name == "gemm" else "bf16/bf16": value}
        for name, value in (sets | parameters).items()
    }
    return LatencyProfile("prior", "default", classes, {"gemm.bf16": Fit("default")})


TRUE = GemmParameters(
    launch_s=5e-6, compute_efficiency=0.55, memory_efficiency=0.62, split_s=1.2e-6
)


def test_twenty_points_bring_the_constants_that_matter_to_the_device():
    calibrated = calibrate(prior_profile(), SYSTEM, [gemm_points(TRUE, 20, noise=0.03)])
    gemm = calibrated.profile.constants("gemm", "bf16")
    for name in ("launch_s", "compute_efficiency", "memory_efficiency"):
        assert getattr(gemm, name) == pytest.approx(getattr(TRUE, name), rel=0.15)
    assert calibrated.after["gemm.bf16"].mape < 0.06 < calibrated.before["gemm.bf16"].mape


def test_shapes_that_were_not_measured_are_predicted_better_too():
    unseen = gemm_points(TRUE, 200, seed=7)
    calibrated = calibrate(prior_profile(), SYSTEM, [gemm_points(TRUE, 30, noise=0.05)]).profile
    before = error_summary(price_s(unseen, SYSTEM, GemmParameters()), unseen.measured_s)
    after = error_summary(
        price_s(unseen, SYSTEM, calibrated.constants("gemm", "bf16")), unseen.measured_s
    )
    assert after.mape < 0.4 * before.mape


def test_a_constant_that_no_point_speaks_about_stays_at_its_prior():
    solution = fit(gemm_points(TRUE, 30), SYSTEM, GemmParameters(), prior=True)
    for name in ("cache_share", "quantize_passes"):  # cold operands, not quantised
        start = getattr(GemmParameters(), name)
        assert getattr(solution.parameters, name) == pytest.approx(start, rel=1e-3)
        assert solution.uncertainty[name] == pytest.approx(0.5, rel=0.05)


def test_more_points_make_the_constants_more_certain():
    few, many = (
        fit(gemm_points(TRUE, size, noise=0.05), SYSTEM, GemmParameters(), prior=True).uncertainty
        for size in (10, 200)
    )
    assert many["compute_efficiency"] < few["compute_efficiency"] < 0.5


def test_one_wild_point_does_not_bend_the_profile():
    points = gemm_points(TRUE, 40)
    measured = points.measured_s.copy()
    measured[3] *= 20.0
    wild = dataclasses.replace(points, measured_s=measured)
    calm, bent = (fit(p, SYSTEM, GemmParameters(), prior=True).parameters for p in (points, wild))
    assert bent.compute_efficiency == pytest.approx(calm.compute_efficiency, rel=0.05)
    assert bent.memory_efficiency == pytest.approx(calm.memory_efficiency, rel=0.05)


def test_only_the_measured_class_changes_and_it_is_called_measured():
    prior = prior_profile()
    calibrated = calibrate(prior, SYSTEM, [gemm_points(TRUE)], date="2026-01-01").profile
    untouched = ("decode_attention", "bf16/bf16")
    assert calibrated.constants(*untouched) == prior.constants(*untouched)
    assert calibrated.fit("gemm", "bf16").tier == "measured"
    assert calibrated.fit("gemm", "bf16").points == 40
    assert calibrated.fit("decode_attention", "bf16/bf16").tier == "default"
    assert "40 points" in calibrated.note


def test_constants_never_leave_their_bounds_whatever_was_measured():
    slow = gemm_points(GemmParameters(launch_s=300e-6, compute_efficiency=0.06), 30)
    calibrated = fit(slow, SYSTEM, GemmParameters(), prior=False).parameters
    for constant in describe(GemmParameters):
        assert constant.low <= getattr(calibrated, constant.name) <= constant.high


def test_a_measured_profile_is_trusted_more_than_typical_constants():
    def moved(tier):
        prior = dataclasses.replace(prior_profile(), fits={"gemm.bf16": Fit(tier)})
        few = gemm_points(TRUE, 4, noise=0.05)
        return calibrate(prior, SYSTEM, [few]).profile.constants("gemm", "bf16").compute_efficiency

    start = GemmParameters().compute_efficiency
    assert abs(moved("measured") - start) < abs(moved("default") - start)


# ------------------------------------------------------------------------------- refusals


def test_points_faster_than_the_peaks_allow_are_refused_by_name():
    points = gemm_points(TRUE, 20)
    measured = points.measured_s.copy()
    measured[[4, 11]] = bound_s(points, SYSTEM)[[4, 11]] * [0.9, 0.5]
    with pytest.raises(InvalidValue, match=r"2 of 20 gemm.bf16 points are faster.*point 11 \(m="):
        calibrate(prior_profile(), SYSTEM, [dataclasses.replace(points, measured_s=measured)])


def test_five_percent_below_the_bound_is_still_timer_noise():
    points = gemm_points(TRUE, 20)
    measured = points.measured_s.copy()
    measured[4] = bound_s(points, SYSTEM)[4] * 0.97
    calibrate(prior_profile(), SYSTEM, [dataclasses.replace(points, measured_s=measured)])


@pytest.mark.parametrize("wrong", [0.0, -1e-6, np.nan, np.inf])
def test_a_time_that_is_not_positive_is_refused(wrong):
    points = gemm_points(TRUE, 20)
    measured = points.measured_s.copy()
    measured[5] = wrong
    with pytest.raises(InvalidValue, match="point 5"):
        calibrate(prior_profile(), SYSTEM, [dataclasses.replace(points, measured_s=measured)])


def test_no_points_and_unknown_classes_are_refused():
    with pytest.raises(InvalidValue, match="needs measured operators"):
        calibrate(prior_profile(), SYSTEM, [])
    with pytest.raises(InvalidValue, match="unknown operator class 'gem'"):
        OperatorPoints("gem", "bf16", {}, np.ones(1))


# ------------------------------------------------------------------------------- every class

DIMS = {
    "gemm": {"m": 64.0, "n": 4096.0, "k": 4096.0},
    "prefill_attention": {
        "sequences": 2.0, "new_tokens": 2048.0, "cached_tokens": 0.0, "heads": 32.0,
        "kv_heads": 8.0, "head_dim": 128.0, "window": 0.0,
    },
    "decode_attention": {
        "sequences": 32.0, "new_tokens": 1.0, "cached_tokens": 4095.0, "heads": 32.0,
        "kv_heads": 8.0, "head_dim": 128.0, "window": 0.0,
    },
    "mla_prefill": {
        "sequences": 2.0, "new_tokens": 2048.0, "cached_tokens": 0.0, "heads": 16.0,
        "kv_heads": 16.0, "head_dim": 192.0, "value_dim": 128.0,
    },
    "mla_decode": {
        "sequences": 32.0, "new_tokens": 1.0, "cached_tokens": 4095.0, "heads": 16.0,
        "kv_heads": 1.0, "head_dim": 576.0, "value_dim": 512.0,
    },
    "moe": {
        "tokens": 256.0, "experts": 64.0, "experts_total": 64.0, "top_k": 8.0, "hidden": 2048.0,
        "intermediate": 768.0, "routing": 3.0,
    },
    "scan": {
        "sequences": 8.0, "new_tokens": 1024.0, "heads": 32.0, "key_dim": 128.0,
        "value_dim": 128.0,
    },
    "pointwise": {"bytes": 1e8},
    "collective": {"bytes": 1e8, "group": 4.0},
}  # fmt: skip
FORMATS = {
    "gemm": "bf16", "moe": "bf16", "scan": "prefill", "pointwise": "default",
    "collective": "nccl.all_reduce",
}  # fmt: skip


@pytest.mark.parametrize("operator", list(CLASSES))
def test_every_class_is_priced_above_its_bound(operator):
    points = OperatorPoints(
        operator, FORMATS.get(operator, "bf16/bf16"), DIMS[operator], np.ones(1)
    )
    kind = CLASSES[operator]
    time = price_s(points, SYSTEM, kind())
    assert bound_s(points, SYSTEM) < time < 0.1


@pytest.mark.parametrize("routing", [0.0, 1.0, 2.0, 3.0])
def test_skewed_routing_never_makes_the_busiest_rank_faster_than_an_even_one(routing):
    dims = DIMS["moe"] | {"experts": 8.0, "routing": np.array([0.0, routing])}
    even, skewed = price_s(
        OperatorPoints("moe", "bf16", dims, np.ones(2)), SYSTEM, MoeParameters(activation=1.5)
    )
    assert skewed >= 0.9 * even

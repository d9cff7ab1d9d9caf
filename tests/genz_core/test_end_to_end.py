"""A few whole phases: what they move, and what they leave alone."""

import numpy as np
import pytest

from genz_core.end_to_end import calibrate_end_to_end, scaled
from genz_core.errors import InvalidValue
from genz_core.latency.device import Device
from genz_core.latency.gemm import gemm_s
from genz_core.latency.parameters import GemmParameters
from genz_core.latency.profile import Fit, LatencyProfile

DEVICE = Device({"bf16": 312e12}, 2.039e12, 108.0, 1.41e9, 41.9e6)
PRIOR = LatencyProfile(
    "prior", "default", {"gemm": {"bf16": GemmParameters()}}, {"gemm.bf16": Fit("default")}, "prior"
)
ROWS = np.array([1.0, 16.0, 8192.0])


def phases(profile, rows=ROWS):
    """A small decode step, a larger one, and a prefill of 32 layers of one product each."""
    return 32.0 * gemm_s(
        rows,
        28672,
        8192,
        weight_bytes=2.0,
        activation_bytes=2.0,
        peak_flops_per_s=312e12,
        device=DEVICE,
        parameters=profile.gemm("bf16"),
    )


def device(memory=0.8, compute=0.85, launch=1.0, host_s=0.0):
    factors = {"memory": memory, "compute": compute, "launch": launch}
    return phases(scaled(PRIOR, factors)) + host_s


def test_three_phases_find_the_rates_of_the_device():
    found = calibrate_end_to_end(PRIOR, phases, device(memory=0.8, compute=0.85))
    assert found.factors["memory"] == pytest.approx(0.8, rel=0.05)
    assert found.factors["compute"] == pytest.approx(0.85, rel=0.05)
    assert found.after.mape < 0.03 < found.before.mape
    assert found.profile.tier == "measured"


def test_what_was_calibrated_on_some_batches_predicts_others_better():
    unseen = np.array([4.0, 64.0, 4096.0])
    truth = phases(scaled(PRIOR, {"memory": 0.75, "compute": 0.9, "launch": 1.0}), unseen)
    found = calibrate_end_to_end(PRIOR, phases, device(memory=0.75, compute=0.9))
    before = np.abs(phases(PRIOR, unseen) / truth - 1).mean()
    after = np.abs((phases(found.profile, unseen) + found.host_s) / truth - 1).mean()
    assert after < 0.4 * before


def test_one_phase_moves_the_profile_part_of_the_way_and_stays_uncertain():
    one = calibrate_end_to_end(PRIOR, lambda p: phases(p, ROWS[:1]), device(memory=0.7)[:1])
    three = calibrate_end_to_end(PRIOR, phases, device(memory=0.7))
    assert 0.7 < one.factors["memory"] < 1.0
    assert one.uncertainty["compute"] == pytest.approx(0.25, rel=0.05)  # nothing was said of it
    assert three.uncertainty["compute"] < 0.5 * one.uncertainty["compute"]


def test_phases_that_agree_with_the_profile_change_nothing():
    found = calibrate_end_to_end(PRIOR, phases, phases(PRIOR))
    assert found.host_s == pytest.approx(0.0, abs=1e-6)
    assert all(factor == pytest.approx(1.0, rel=1e-3) for factor in found.factors.values())


def test_a_constant_host_time_is_found_as_such():
    rows = np.array([1.0, 2.0, 4.0, 1024.0, 8192.0])
    slow = phases(PRIOR, rows) + 2e-3
    found = calibrate_end_to_end(PRIOR, lambda p: phases(p, rows), slow)
    assert found.after.mape < 0.5 * found.before.mape
    assert found.host_s > 0.2e-3


def test_rates_never_leave_their_physical_bounds():
    fast = scaled(PRIOR, {"memory": 4.0, "compute": 4.0, "launch": 1.0}).gemm("bf16")
    assert (fast.memory_efficiency, fast.compute_efficiency) == (1.0, 1.0)


def test_phases_that_contradict_physics_are_refused_with_both_times():
    with pytest.raises(InvalidValue, match=r"phase 1 took .* ms where .* ms is the least"):
        calibrate_end_to_end(
            PRIOR, phases, phases(PRIOR), bound_s=phases(PRIOR) * np.array([0.5, 1.2, 0.5])
        )


@pytest.mark.parametrize("wrong", [[], [0.0], [-1.0], [np.nan]])
def test_times_that_are_none_are_refused(wrong):
    with pytest.raises(InvalidValue):
        calibrate_end_to_end(PRIOR, phases, np.array(wrong))

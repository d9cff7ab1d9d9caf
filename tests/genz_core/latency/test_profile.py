import pytest

from genz_core.errors import InvalidValue, MissingSpec
from genz_core.latency.device import Device
from genz_core.latency.parameters import CLASSES, GemmParameters, describe
from genz_core.latency.profile import LatencyProfile, product_format
from genz_core.systems import System


@pytest.mark.parametrize("kind", sorted(set(CLASSES.values()), key=lambda kind: kind.__name__))
def test_every_constant_has_a_meaning_a_unit_and_bounds_around_its_default(kind):
    for constant in describe(kind):
        assert len(constant.meaning) > 10
        assert constant.low <= constant.default <= constant.high
        assert (constant.unit == "s") == constant.name.endswith("_s")


@pytest.mark.parametrize("kind", sorted(set(CLASSES.values()), key=lambda kind: kind.__name__))
def test_no_profile_may_promise_more_than_the_peak_or_the_bandwidth(kind):
    for constant in describe(kind):
        if constant.name in ("compute_efficiency", "memory_efficiency"):
            assert constant.high == 1.0


def test_a_constant_outside_its_bounds_is_refused_by_name():
    with pytest.raises(InvalidValue, match=r"GemmParameters.compute_efficiency = 1.2"):
        GemmParameters(compute_efficiency=1.2)


@pytest.mark.parametrize(
    ("weights", "compute", "expected"),
    [
        ("bf16", "", "bf16"),
        ("fp16", "fp16", "bf16"),
        ("fp8", "fp8", "fp8"),
        ("fp8", "bf16", "int8_weight_only"),
        ("fp8_block", "fp8", "fp8_block"),
        ("nvfp4", "fp4", "nvfp4"),
        ("mxfp4", "bf16", "mxfp4"),
        ("mxfp4", "fp8", "mxfp4_mxfp8"),
        ("int8", "int8", "int8"),
        ("int4", "", "int4_weight_only"),
        ("q8_0", "", "int8_weight_only"),
        ("q4_k_m", "", "int4_weight_only"),
    ],
)
def test_weights_and_arithmetic_choose_the_constants(weights, compute, expected):
    assert product_format(weights, compute) == expected


def test_a_format_without_constants_borrows_the_nearest_and_none_at_all_is_an_error():
    only = LatencyProfile("x", "measured", {"gemm": {"bf16": GemmParameters(launch_s=9e-6)}})
    assert only.constants("gemm", "nvfp4").launch_s == 9e-6
    with pytest.raises(MissingSpec, match="no moe constants"):
        only.constants("moe", "bf16")


def test_a_device_states_what_its_datasheet_did_not():
    bare = System("x", "X", "v", "gpu", "f", {"fp16": 100e12}, 1e9, 1e12)
    device = Device.of(bare)
    assert len(device.assumed) == 3
    assert device.compute_units == round(100e12 / 6.6e12)
    assert device.peak("fp8") == 100e12

"""Operators of one pass: bound by memory; if fused, only their traffic counts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genz_core.latency.parameters import PointwiseParameters
from genz_core.latency.pointwise import pointwise_time


@given(st.floats(1.0, 1e12))
def test_a_pass_is_never_faster_than_the_memory(device, moved):
    time = pointwise_time(moved, device=device, parameters=PointwiseParameters())
    assert time.seconds() > moved / device.memory_bytes_per_s


def test_a_fused_operator_costs_its_traffic_alone(device):
    parameters = PointwiseParameters(memory_efficiency=0.5)
    fused = pointwise_time(3.35e9, device=device, parameters=parameters, floor_s=0.0)
    assert fused.seconds() == pytest.approx(2e-3)
    assert pointwise_time(0.0, device=device, parameters=parameters).seconds() == 0.0


def test_small_operands_come_from_a_warm_cache_and_large_ones_do_not(device):
    moved = np.array([1e5, 1e10])
    parameters = PointwiseParameters(cache_share=1.0)
    cold, warm = (
        pointwise_time(
            moved, device=device, parameters=parameters, floor_s=0.0, warm_cache=cache
        ).seconds()
        for cache in (False, True)
    )
    assert warm[0] < 0.5 * cold[0]
    assert warm[1] == pytest.approx(cold[1], rel=1e-3)

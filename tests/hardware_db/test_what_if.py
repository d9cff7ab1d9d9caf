"""A system with its resources scaled."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import genz_core
import hardware_db
import model_registry
from genz_core.errors import InvalidValue
from genz_core.types import Workload

FACTOR = st.floats(min_value=1e-3, max_value=1e3)


@given(FACTOR, FACTOR, FACTOR, FACTOR)
def test_each_multiplier_scales_its_resource_alone(peak, bandwidth, capacity, link):
    base = hardware_db.load("h100")
    system = hardware_db.what_if(base, peak, bandwidth, capacity, link)
    assert system.peak("bf16") == pytest.approx(base.peak("bf16") * peak)
    assert system.memory_bytes_per_s == pytest.approx(base.memory_bytes_per_s * bandwidth)
    assert system.memory_bytes == pytest.approx(base.memory_bytes * capacity)
    for before, after in zip(base.links, system.links, strict=True):
        assert after.bytes_per_s == pytest.approx(before.bytes_per_s * link)
        assert (after.latency_s, after.domain) == (before.latency_s, before.domain)
    assert (system.slug, system.compute_units, system.tdp_w) == (
        base.slug,
        base.compute_units,
        base.tdp_w,
    )


def test_nothing_changed_is_the_same_system():
    base = hardware_db.load("h100")
    assert hardware_db.what_if(base) is base


def test_the_name_and_the_assumptions_say_what_was_changed():
    system = hardware_db.what_if(hardware_db.load("h100"), bandwidth=2, link=0.5)
    assert system.name == "NVIDIA H100 SXM5 80GB (what if: bandwidth ×2, link ×0.5)"
    assert system.assumptions[-1] == "what if: bandwidth ×2, link ×0.5"


@pytest.mark.parametrize("factor", [0, -1, math.nan, math.inf])
def test_a_multiplier_that_is_not_positive_is_refused(factor):
    with pytest.raises(InvalidValue, match="what-if multiplier capacity is"):
        hardware_db.what_if(hardware_db.load("h100"), capacity=factor)


def test_the_same_system_and_factors_give_the_same_object():
    system = hardware_db.load("h100")
    assert hardware_db.what_if(system, bandwidth=2) is hardware_db.what_if(system, bandwidth=2.0)
    assert hardware_db.what_if(system, bandwidth=2) is not hardware_db.what_if(system, peak=2)


@pytest.mark.parametrize("slug", ["h100-sxm5-80gb", "gaudi3", "tpu-v6e", "mi455x", "rubin-cpx"])
@pytest.mark.parametrize("resource", ["peak", "bandwidth"])
def test_more_of_one_resource_never_takes_more_time(slug, resource):
    """With units that the datasheet states, and with those typical for the peak."""
    sizes = Workload(np.array([1.0, 1.0, 8.0, 64.0]), np.array([100.0, 4e3, 500.0, 3e3]), 64.0)
    model, base = model_registry.load("openai/gpt-oss-20b"), hardware_db.load(slug)
    engine = hardware_db.load_engine("generic")
    slow, fast = (
        genz_core.estimate(model, system, sizes, engine=engine, on_error="status")
        for system in (base, hardware_db.what_if(base, **{resource: 2.0}))
    )
    assert np.all(fast.ttft_s <= slow.ttft_s * (1 + 1e-9))
    assert np.all(fast.tpot_s <= slow.tpot_s * (1 + 1e-9))

"""Bounds: peaks, bandwidth, and the data that collectives must send."""

from __future__ import annotations

from dataclasses import replace

import pytest

from genz_core import operators as op
from genz_core.errors import MissingSpec
from genz_core.latency.roofline import arithmetic_of, fastest_of, roofline
from genz_core.latency.topology import tiers


def test_a_large_product_is_bound_by_compute_and_a_thin_one_by_memory(system):
    """Scaling book, ch. 1: a product turns compute-bound at batch = peak / bandwidth (here 100)."""
    thin, thick = (roofline(op.gemm("x", m, 8192, 8192), system) for m in (10, 1000))
    assert thin.memory_s > thin.compute_s and thick.compute_s > thick.memory_s
    assert thick.bound_s == pytest.approx(2 * 1000 * 8192**2 / 100e12)


def test_a_type_without_a_peak_runs_in_the_next_that_has_one(system):
    fp4 = op.gemm("x", 1, 8, 8, op.Types(weights="nvfp4"))
    assert arithmetic_of(fp4, system) == "bf16"  # engines then use nvfp4 only as a storage format
    old = replace(system, peak_flops_per_s={"fp16": 1e12})
    assert arithmetic_of(fp4, old) == "fp16"


def test_an_arithmetic_that_the_system_lacks_is_refused_where_it_was_forced(system):
    forced = op.gemm("x", 1, 8, 8, op.Types(compute="nvfp4"))
    with pytest.raises(MissingSpec, match="has no fp4 arithmetic"):
        arithmetic_of(forced, system)
    old = replace(system, peak_flops_per_s={"fp16": 1e12})
    assert arithmetic_of(op.gemm("x", 1, 8, 8, op.Types(compute="bf16")), old) == "fp16"


def test_blocks_of_integers_are_bound_by_the_integer_peak_where_it_is_higher(system):
    """llama.cpp multiplies them in 8 bit; other weight-only formats need 16-bit products."""
    peaks = {"bf16": 100e12, "int8": 400e12}
    fast, equal = (replace(system, peak_flops_per_s={**peaks, "int8": peak})
                   for peak in (400e12, 100e12))  # fmt: skip
    block, awq, plain = (
        op.gemm("x", 4096, 8192, 8192, op.Types(weights=name)) for name in ("q4_0", "int4", "bf16")
    )
    assert [fastest_of(product, fast) for product in (block, awq, plain)] == [
        "int8",
        "bf16",
        "bf16",
    ]
    assert fastest_of(block, equal) == "bf16"
    assert roofline(block, fast).compute_s == pytest.approx(roofline(plain, fast).compute_s / 4)
    forced = op.gemm("x", 1, 8, 8, op.Types(weights="q4_0", compute="bf16"))
    assert fastest_of(forced, fast) == "bf16"


def test_a_ring_sends_twice_all_but_its_own_part(system):
    reduce = roofline(op.all_reduce("r", 8e6, 8), system)
    assert reduce.communication_s == pytest.approx(2 * 7 / 8 * 8e6 / 100e9)
    gather = roofline(op.all_gather("g", 8e6, 8), system)
    assert gather.communication_s == pytest.approx(7 / 8 * 8e6 / 100e9)


def test_switches_that_reduce_halve_the_traffic(system):
    inner, outer = system.links
    sharp = replace(system, links=(replace(inner, in_network=True), outer))
    assert roofline(op.all_reduce("r", 8e6, 8), sharp).communication_s == pytest.approx(8e6 / 100e9)


def test_a_group_beyond_the_domain_reduces_inside_first(system):
    """16 devices in two domains of 8: the outer link carries an eighth of the message."""
    inner, outer = tiers("all_reduce", 8e6, 16, 1, system.links)
    assert (inner.group, outer.group) == (8, 2)
    assert outer.message_bytes == pytest.approx(1e6)


def test_neighbours_far_apart_cross_the_outer_link_only(system):
    """Pipeline stages of eight devices each: the next stage is in another domain."""
    hop = op.send_recv("s", 1e6, 2, stride=8)
    assert roofline(hop, system).communication_s == pytest.approx(1e6 / 10e9)


def test_a_chain_of_stages_hops_once_between_each_two(system):
    """Four stages of four devices: two domains, so one outer hop and two inner ones."""
    chain = op.send_recv("s", 1e6, 4, stride=4)
    assert roofline(chain, system).communication_s == pytest.approx(1e6 / 10e9 + 2e6 / 100e9)


def test_one_device_needs_no_link_and_two_do(system):
    alone = replace(system, links=())
    assert roofline(op.all_reduce("r", 8e6, 1), alone).communication_s == 0
    with pytest.raises(MissingSpec, match="no known link"):
        roofline(op.all_reduce("r", 8e6, 2), alone)

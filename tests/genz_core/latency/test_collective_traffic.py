"""Topologies: the part of a device's bandwidth that a mesh, a torus and narrow uplinks leave."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hardware_db
from genz_core import operators as op
from genz_core.devices.topology_kinds import Topology
from genz_core.engine import EngineProfile
from genz_core.latency import Pricer
from genz_core.latency.collective_traffic import OPERATIONS, load, traffic
from genz_core.latency.roofline import roofline
from genz_core.latency.topology import tiers
from genz_core.systems import Link
from tests.genz_core.operator_cases import SYSTEM

MESH = Link("mesh", 448e9, 1e-6, 8, topology=Topology("mesh"))
V5E = Link("ici", 200e9, 1e-6, 256, topology=Topology("torus", (16, 16), 16))
V5P = Link("ici", 600e9, 1e-6, 8960, topology=Topology("torus", (16, 20, 28), 4))
RING = Link("ring", 96e9, 1e-6, 12, topology=Topology("ring"))
NARROW = Link("net", 50e9, 1e-6, 0, topology=Topology("switch", pod=32, oversubscription=4.0))
DRAGONFLY = replace(NARROW, topology=Topology("dragonfly", pod=32, oversubscription=4.0))
LINKS = {
    "switch": Link("switch", 450e9, 1e-6, 8),
    "mesh": MESH,
    "ring": RING,
    "2D torus": V5E,
    "3D torus": V5P,
    "oversubscribed": NARROW,
    "dragonfly": DRAGONFLY,
}
OUTER = Link("outer", 25e9, 5e-6, 0, topology=Topology("rails"))
every_wiring = pytest.mark.parametrize("name", LINKS)
every_operation = pytest.mark.parametrize("operation", OPERATIONS)
groups = st.sampled_from([2, 3, 4, 6, 8, 12, 16, 32, 64, 128])


def bus_gb_per_s(link: Link, group: int) -> float:
    """Bus bandwidth of an all-reduce at the bound, as nccl-tests defines it [GB/s]."""
    factor = float(traffic("all_reduce", group))
    return link.bytes_per_s / 1e9 * factor / float(load("all_reduce", group, 1, link))


# ------------------------------------------------------------------------------- outside answers


@pytest.mark.parametrize(("group", "most"), [(2, 64.0), (4, 192.0), (8, 448.0)])
def test_a_group_on_a_mesh_uses_the_links_between_its_members(group, most):
    """MI300X: seven links of 64 GB/s (AMD's data sheet), one per pair (RCCL, pull request 1270)."""
    assert bus_gb_per_s(MESH, group) == pytest.approx(most)
    assert hardware_db.load("mi300x").links[0].topology.form == "mesh"


@pytest.mark.parametrize(("group", "most"), [(2, 37.5), (4, 3 * 37.5), (8, 7 * 37.5)])
def test_a_group_on_a_board_of_gaudis_uses_three_ports_to_each_member(group, most):
    """Each pair of eight has three ports of 100 Gb/s, 37.5 GB/s: four devices use three others."""
    board = hardware_db.load("gaudi2").links[0]
    assert bus_gb_per_s(board, group) == pytest.approx(most)


def test_two_devices_of_a_mi300x_reach_what_rccl_counts():
    """48 of 64 GB/s after protocol overhead (RCCL, issue 1210)."""
    system, size = hardware_db.load("mi300x"), 8e9
    time = float(Pricer(system, EngineProfile()).expected_s(op.all_reduce("x", size, 2))[()])
    assert size / time / 1e9 == pytest.approx(48.0, rel=0.02)


def test_a_whole_v5e_pod_exchanges_through_its_middle():
    """16 x 16 with 50 GB/s per link: 32 links cross the middle each way, 25 GB/s per chip (scaling
    book, ch. "Sharding": an all-to-all takes a quarter of an all-gather's time on a ring).
    """
    message = 1e9
    exchange = roofline(op.all_to_all("x", message, 256), hardware_db.load("tpu-v5e"))
    assert message / float(exchange.bound_s) / 1e9 == pytest.approx(25.0)


def test_an_axis_with_two_links_gathers_at_the_rate_of_both():
    """Scaling book: a ring of 16 gathers V bytes in V / W, with W both directions of its links."""
    line = Link("ici", 200e9, 1e-6, 16, topology=Topology("ring"))
    assert load("all_gather", 16, 1, line) == pytest.approx(15 / 16)


def test_a_hybrid_cube_mesh_gives_a_pair_two_of_six_links():
    """DGX-1: NVLink 2, 25 GB/s per link."""
    link = hardware_db.load("v100-sxm2-16gb").links[0]
    assert [bus_gb_per_s(link, group) for group in (2, 4, 8)] == pytest.approx([50.0, 100.0, 150.0])


def test_a_slice_of_four_tpu7x_chips_has_two_of_six_ports():
    """Google's table of an all-gather on 2x2x1 (AI-Hypercomputer/tpu-recipes): below 200 GB/s."""
    link = hardware_db.load("tpu-v7").links[0]
    assert link.bytes_per_s / 1e9 * 0.75 / float(load("all_gather", 4, 1, link)) == (
        pytest.approx(200.0)
    )


def test_columns_of_a_torus_do_not_share_lines_with_its_rows():
    """Data parallel over whole rows of 16: each group has its own ring, half of the ports."""
    assert load("all_gather", 16, 16, V5E) == pytest.approx(15 / 16 / 0.5)


@every_operation
@pytest.mark.parametrize("link", [RING, V5E], ids=["ring", "torus"])
def test_a_part_of_a_group_loads_a_tier_as_the_next_whole_one(operation, link):
    """Twelve devices in nodes of eight are one and a half groups on the tier that joins them."""
    assert load(operation, 1.5, 8, link) == load(operation, 2.0, 8, link) > 0


def test_a_domain_of_one_device_is_below_a_mesh_as_none_is():
    alone = Link("none", 1e9, 0.0, 1)
    _, outer = tiers("all_gather", 1e6, 2.0, 1.0, (alone, MESH))
    [first] = tiers("all_gather", 1e6, 2.0, 1.0, (MESH,))
    assert outer.load("all_gather") == first.load("all_gather") == 7 / 2


@pytest.mark.parametrize(
    ("operation", "group", "stride", "switch", "dragonfly"),
    [
        ("all_to_all", 64, 1, 4 * 32 / 64, 4 * 32 / 64),
        ("all_to_all", 8, 32, 4 * 7 / 8, 4 * 7 / 8),
        ("all_reduce", 64, 1, 2 * 63 / 64, 2 * 63 / 64),  # one copy of 32: limited by the links
        ("all_reduce", 8, 32, 2 * 4 * 7 / 8, 2 * 2 * 4 * 7 / 8),
        ("all_gather", 8, 32, 4 * 7 / 8, 2 * 4 * 7 / 8),
        ("reduce_scatter", 8, 16, 4 * (6 / 8) / 2, 2 * 4 * (6 / 8) / 2),
        ("send_recv", 8, 32, 7 + 7 * (4 - 1), 7 + 7 * (8 - 1)),
        ("send_recv", 8, 16, 7 + 3 * (4 / 2 - 1), 7 + 3 * (8 / 2 - 1)),
        ("send_recv", 64, 1, 63, 63),  # 32 devices of a pod send one message, so none waits
        ("all_to_all", 32, 1, 31 / 32, 31 / 32),  # no message leaves the pod
    ],
)
def test_what_leaves_a_pod_shares_its_uplinks(operation, group, stride, switch, dragonfly):
    """Pods of 32 behind a quarter of their links; a dragonfly sends all but uniform traffic on a
    detour, at half of that.
    """
    assert load(operation, group, stride, NARROW) == pytest.approx(switch)
    assert load(operation, group, stride, DRAGONFLY) == pytest.approx(dragonfly)


def test_narrow_uplinks_slow_an_exchange_more_than_a_sum():
    inside = [float(load(name, 32, 1, NARROW)) for name in ("all_to_all", "all_reduce")]
    assert inside == pytest.approx([31 / 32, 62 / 32])
    exchange, summed = (float(load(name, 64, 1, NARROW)) for name in ("all_to_all", "all_reduce"))
    assert exchange == pytest.approx(4 * 0.5)
    assert summed == pytest.approx(2 * 63 / 64)


# ------------------------------------------------------------------------------- laws


@pytest.mark.by_day(10)
@every_wiring
@every_operation
@given(group=groups, stride=st.sampled_from([1, 2, 4, 8]))
def test_no_wiring_beats_a_switch(name, operation, group, stride):
    assert load(operation, group, stride, LINKS[name]) >= traffic(operation, group) * 0.99 or (
        operation == "all_reduce" and LINKS[name].topology.form in ("ring", "torus")
    )


@pytest.mark.by_day(10)
@every_wiring
@every_operation
def test_groups_in_an_array_are_loaded_as_each_alone(name, operation):
    sizes = np.array([1.0, 2.0, 4.0, 8.0, 3.0])
    apart = np.array([1.0, 2.0, 1.0, 1.0, 2.0])
    together = load(operation, sizes, apart, LINKS[name])
    alone = [float(load(operation, g, s, LINKS[name])) for g, s in zip(sizes, apart, strict=True)]
    assert together == pytest.approx(alone)


@pytest.mark.parametrize("name", ["switch", "oversubscribed", "dragonfly"])
@every_operation
@given(group=groups, more=groups)
def test_more_devices_behind_switches_never_load_a_device_less(name, operation, group, more):
    few, many = sorted((group, more))
    assert load(operation, many, 1, LINKS[name]) >= load(operation, few, 1, LINKS[name]) - 1e-12


@given(group=st.integers(2, 8))
@pytest.mark.parametrize("operation", ["all_reduce", "all_gather", "all_to_all"])
def test_more_devices_on_a_mesh_bring_links_of_their_own(operation, group):
    """(g - 1) / g of a message over g - 1 of seven links."""
    times = 2.0 if operation == "all_reduce" else 1.0
    assert load(operation, group, 1, MESH) == pytest.approx(times * 7.0 / group)


@pytest.mark.by_day(10)
@every_wiring
@every_operation
@given(size=st.floats(1.0, 1e10), factor=st.floats(1.0, 10.0), group=groups)
def test_bounds_hold_and_larger_messages_take_no_less_time(name, operation, size, factor, group):
    system = replace(SYSTEM, links=(LINKS[name], OUTER))
    ops = [getattr(op, operation)("x", message, group) for message in (size, size * factor)]
    least = [float(roofline(one, system).bound_s) for one in ops]
    expected = [float(Pricer(system, EngineProfile()).expected_s(one)[()]) for one in ops]
    assert all(time >= bound for time, bound in zip(expected, least, strict=True))
    assert expected[1] >= expected[0] * (1 - 1e-9) and least[1] >= least[0]


@pytest.mark.by_day(1)
@given(group=groups, stride=st.sampled_from([1, 2, 4, 8, 16]))
@every_operation
def test_every_shipped_system_prices_every_group(operation, group, stride):
    for slug in ("mi300x", "gaudi3", "tpu-v4", "trainium2", "inferentia2", "mi250x-gcd"):
        links = hardware_db.load(slug).links
        for tier in tiers(operation, 1e6, group, stride, links):
            assert np.isfinite(tier.load(operation)) and tier.load(operation) >= 0

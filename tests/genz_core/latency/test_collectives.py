"""Collectives: steps of the algorithm, tiers of links, rings and trees."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hardware_db
from genz_core import operators as ops
from genz_core.devices.topology_kinds import Topology
from genz_core.latency import Pricer
from genz_core.latency.collectives import collective_time
from genz_core.latency.parameters import CollectiveParameters
from genz_core.latency.topology import OPERATIONS, tiers
from genz_core.systems import Link
from tests.genz_core.latency.comparisons import same
from tests.rules import for_every

message = st.floats(1.0, 1e10)
group = st.sampled_from([2, 4, 8, 16, 32])


def price(device, operation, size, members, **options):
    return collective_time(
        operation, size, members, links=device.links, parameters=CollectiveParameters(), **options
    ).seconds()


@pytest.mark.parametrize("operation", OPERATIONS)
def test_one_device_and_an_empty_message_cost_nothing(device, operation):
    assert price(device, operation, 1e6, 1) == 0.0
    assert price(device, operation, 0.0, 8) == 0.0


@pytest.mark.parametrize("operation", OPERATIONS)
@given(size=message, factor=st.floats(1.0, 10.0), members=group)
def test_a_larger_message_never_takes_less_time(device, operation, size, factor, members):
    assert price(device, operation, size * factor, members) >= price(
        device, operation, size, members
    ) * (1 - 1e-9)


@given(size=message, members=st.sampled_from([2, 4, 8]))
def test_an_all_reduce_never_beats_its_links_where_efficiency_is_at_most_one(device, size, members):
    moved = 2.0 * (members - 1) / members * size
    assert price(device, "all_reduce", size, members) >= moved / 450e9


def test_small_messages_pay_the_steps_of_the_algorithm(device):
    constants = CollectiveParameters()
    two, eight = (float(price(device, "all_reduce", 8.0, n)) for n in (2, 8))
    assert two == pytest.approx(constants.base_s, rel=0.01)
    assert eight - two == pytest.approx(12 * constants.step_s, rel=0.02)


def test_a_group_that_leaves_the_node_pays_the_slower_link_for_its_part(device):
    size = 1e9
    inside = float(price(device, "all_reduce", size, 8))
    across = float(price(device, "all_reduce", size, 16))
    part = 2.0 * (1 / 2) * size / 8 / 50e9
    assert across > inside + part


def test_a_stride_that_reaches_over_nodes_uses_the_slow_link_alone(device):
    near = float(price(device, "all_reduce", 1e8, 2))
    far = float(price(device, "all_reduce", 1e8, 2, stride=8))
    assert far > 5 * near


def test_a_chain_of_stages_makes_its_hops_one_after_another(device):
    """Nodes of eight: sixteen stages have seven hops within each node and one between them."""
    hop = float(price(device, "send_recv", 1e7, 2))
    crossing = float(price(device, "send_recv", 1e7, 2, stride=8))
    chain = price(device, "send_recv", 1e7, np.array([2.0, 4.0, 8.0, 16.0]))
    assert chain == pytest.approx([hop, 3 * hop, 7 * hop, 14 * hop + crossing])


@given(size=message, members=group, stride=st.sampled_from([1, 2, 8, 16]))
@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_tier_together_makes_the_group(device, operation, size, members, stride):
    parts = tiers(operation, size, members, stride, device.links)
    assert np.prod([part.group for part in parts], axis=0) == pytest.approx(members)
    hops = sum((part.group - 1) * part.times for part in parts)
    assert operation != "send_recv" or hops == pytest.approx(members - 1)


def test_arrays_of_groups_and_messages_are_priced_as_each_alone(device):
    sizes, groups = np.array([1e3, 1e6, 1e9, 1e6]), np.array([2.0, 8.0, 16.0, 1.0])
    together = price(device, "all_gather", sizes, groups)
    alone = [price(device, "all_gather", s, g) for s, g in zip(sizes, groups, strict=True)]
    assert same(together, alone)


# ------------------------------------------------------------------------------- by hand

CONSTANTS = CollectiveParameters(
    base_s=6e-6, step_s=1e-6, efficiency_2=0.5, efficiency_4=0.8, efficiency_8=0.9, bulk_s=5e-6,
    packet_efficiency=0.05, ramp_s=4e-6,
)  # fmt: skip
TIERS = (Link("inner", 100e9, 0.0, 8), Link("outer", 10e9, 20e-6, 0))
RACK = (Link("inner", 100e9, 0.0, 72), Link("outer", 10e9, 20e-6, 0))


def by_hand(operation, size, members, links=TIERS, **options):
    kernel = collective_time(
        operation, size, members, links=links, parameters=CONSTANTS, **options
    ).terms()
    return float(kernel.terms["latency"].item()), float(kernel.terms["transfer"].item())


def both_s(packets, wire):
    """The faster protocol, smoothed: bulk costs 5 µs more, with a root term of 4 µs."""
    bulk = 5e-6 + wire + (4e-6 * wire) ** 0.5
    return (packets**-4 + bulk**-4) ** -0.25


@pytest.mark.parametrize(
    ("operation", "members", "steps", "load", "efficiency", "shot"),
    [
        ("all_reduce", 2, 0, 1.0, 0.5, 1.0),
        ("all_reduce", 4, 4, 1.5, 0.8, 2.0),
        ("all_reduce", 8, 12, 1.75, 0.9, 4.0),
        ("all_gather", 4, 2, 0.75, 0.8, 1.0),
        ("reduce_scatter", 8, 6, 0.875, 0.9, 1.0),
        ("all_to_all", 4, 2, 0.75, 0.8, 1.0),
        ("send_recv", 2, 0, 1.0, 0.5, 1.0),
        ("all_gather", 6, 4, 5 / 6, 0.8 * (0.9 / 0.8) ** 0.5849625007211562, 1.0),
    ],
)
@pytest.mark.parametrize("size", [1e4, 1e6, 1e8])
def test_one_tier_by_hand(operation, members, steps, load, efficiency, shot, size):
    """Additional steps beyond two devices, and packets or bulk over 100 GB/s."""
    latency, transfer = by_hand(operation, size, members)
    assert latency == pytest.approx(6e-6 + steps * 1e-6)
    alone = load * size / 100e9
    assert transfer == pytest.approx(both_s(shot * alone / 0.05, alone / efficiency))


def test_a_tree_takes_a_step_up_and_down_for_each_doubling():
    latency, _ = by_hand("all_reduce", 1e4, 8, tree=True)
    assert latency == pytest.approx(6e-6 + 2 * 2 * 1e-6)


def test_two_tiers_by_hand():
    """Sixteen devices: eight inside a node, then pairs that exchange an eighth of the message."""
    latency, transfer = by_hand("all_reduce", 1e8, 16)
    assert latency == pytest.approx(6e-6 + 12e-6 + (6e-6 + 20e-6))
    inner, outer = 1.75 * 1e8 / 100e9, 1.0 * 1e8 / 8 / 10e9
    inside = both_s(4 * inner / 0.05, inner / 0.9)
    assert transfer == pytest.approx(inside + both_s(outer / 0.05, outer / 0.5))


def test_an_engines_floor_replaces_the_start_on_the_first_tier_alone():
    latency, _ = by_hand("all_reduce", 1e8, 16, floor_s=1e-6)
    assert latency == pytest.approx(1e-6 + 12e-6 + (6e-6 + 20e-6))


def test_other_tiers_have_constants_and_a_stated_rate_of_their_own():
    upper = CollectiveParameters(base_s=50e-6, bulk_s=0.0, ramp_s=0.0, efficiency_2=0.25)
    latency, slow = by_hand("all_gather", 1e9, 2, stride=8, upper=upper)
    assert latency == pytest.approx(70e-6)
    assert slow == pytest.approx(0.5 * 1e9 / 10e9 / 0.25, rel=1e-3)
    stated = (TIERS[0], Link("outer", 10e9, 20e-6, 0, reached=0.8))
    reached = collective_time(
        "all_gather", 1e9, 2, stride=8, links=stated, parameters=CONSTANTS, upper=upper
    )
    assert float(reached.seconds()) == pytest.approx(70e-6 + 0.5 * 1e9 / 10e9 / 0.8, rel=1e-3)


def test_an_exchange_waits_for_its_slower_tier():
    """Sixteen devices: half of each one's data goes to the other eight, in one message each."""
    _, transfer = by_hand("all_to_all", 1e8, 16)
    inner, outer = 0.875 * 1e8 / 2 / 100e9, 0.5 * 1e8 / 10e9
    assert transfer == pytest.approx(both_s(outer / 0.05, outer / 0.5))
    assert both_s(inner / 0.05, inner / 0.9) < transfer


# ------------------------------------------------------------------------------- rings and trees

WIRE = (Link("wire", 100e9, 1e-6, 0),)
GROUPS = np.array([2.0, 4.0, 8.0, 64.0])


def all_reduce_s(message: float, tree: bool) -> np.ndarray:
    parameters = CollectiveParameters()
    time = collective_time(
        "all_reduce", message, GROUPS, links=WIRE, parameters=parameters, tree=tree
    )
    return time.seconds()


def test_a_tree_takes_fewer_steps_for_a_small_message_on_many_devices():
    ring, tree = all_reduce_s(64.0, False), all_reduce_s(64.0, True)
    assert ring[0] == tree[0]
    assert np.all(tree[1:] < ring[1:])


def test_a_large_message_takes_its_bytes_either_way():
    ring, tree = all_reduce_s(4e9, False), all_reduce_s(4e9, True)
    assert np.allclose(ring, tree, rtol=2e-3)


def test_groups_beyond_eight_behind_one_switch_add_the_steps_of_a_tree():
    """Behind one switch, every doubling beyond eight devices adds the steps of a tree."""
    of_eight, _ = by_hand("all_reduce", 1e4, 8, links=RACK)
    of_rack, _ = by_hand("all_reduce", 1e4, 64, links=RACK)
    assert of_rack - of_eight == pytest.approx(2 * 3 * 1e-6)
    assert by_hand("all_gather", 1e4, 64, links=RACK)[0] == pytest.approx(6e-6 + 9e-6)


@for_every(["generic", "vllm"])
def test_a_small_message_crosses_a_rack_in_microseconds(engine):
    """16 KiB over 64 devices behind NVLink's switch: not a ring of 126 steps, which takes
    161 us.
    """
    pricer = Pricer(hardware_db.load("gb200-nvl72"), hardware_db.load_engine(engine))
    message = ops.all_reduce("rack", 16 * 1024.0, 64.0)
    assert 2e-6 < float(pricer.expected_s(message)) < 20e-6


def test_the_generic_engine_takes_the_algorithm_of_the_wiring():
    """One-shot behind a switch; the library's rings on a mesh, which has few links."""
    engine = hardware_db.load_engine("generic")
    for system, algorithm in (("h100", "custom"), ("gaudi2", "nccl"), ("tpu-v5p", "nccl")):
        used = Pricer(hardware_db.load(system), engine).constants(ops.all_reduce("x", 1e4, 4.0))
        assert used.fmt == f"{algorithm}.all_reduce"


def test_a_torus_rings():
    torus = (Link("ici", 100e9, 0.0, 64, topology=Topology("torus", shape=(8, 8))),)
    assert by_hand("all_reduce", 1e4, 64, links=torus)[0] == pytest.approx(6e-6 + 2 * 62e-6)

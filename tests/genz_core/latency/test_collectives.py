"""Collectives: steps of the algorithm, tiers of links, rings and trees."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genz_core.latency.collectives import collective_time
from genz_core.latency.parameters import CollectiveParameters
from genz_core.latency.topology import OPERATIONS, tiers
from genz_core.types import Link

message = st.floats(1.0, 1e10)
group = st.sampled_from([2, 4, 8, 16, 32])


def same(together, alone):
    """Equal but for the last bits, which vector units round differently."""
    return np.allclose(together, alone, rtol=1e-12, atol=0.0)


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
    """Nodes of eight: sixteen stages hop seven times in each and once between them."""
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

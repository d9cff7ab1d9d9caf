"""Rings and trees: the same bytes, other steps."""

from __future__ import annotations

import numpy as np

from genz_core.latency.collectives import collective_time
from genz_core.latency.parameters import CollectiveParameters
from genz_core.types import Link

LINKS = (Link("wire", 100e9, 1e-6, 0),)
GROUPS = np.array([2.0, 4.0, 8.0, 64.0])


def time(message: float, tree: bool) -> np.ndarray:
    return collective_time(
        "all_reduce", message, GROUPS, links=LINKS, parameters=CollectiveParameters(), tree=tree
    ).seconds()


def test_a_tree_takes_fewer_steps_for_a_small_message_on_many_devices():
    ring, tree = time(64.0, False), time(64.0, True)
    assert ring[0] == tree[0]
    assert np.all(tree[1:] < ring[1:])


def test_a_large_message_takes_its_bytes_either_way():
    ring, tree = time(4e9, False), time(4e9, True)
    assert np.allclose(ring, tree, rtol=2e-3)

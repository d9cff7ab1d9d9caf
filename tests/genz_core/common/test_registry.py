"""Registries of operator kinds: one entry per name; an unknown name is refused with the
known ones.
"""

from __future__ import annotations

import pytest

from genz_core.common.registry import KINDS, Registry, collective_kinds, operator_kind
from genz_core.errors import InvalidValue


def test_entries_are_found_by_name_in_the_order_of_registration():
    registry = Registry("fruit")
    registry.add("pear", 1)
    registry.add("apple", 2)
    assert list(registry) == ["pear", "apple"] and len(registry) == 2
    assert registry["apple"] == 2 and "pear" in registry and "plum" not in registry


def test_a_second_entry_of_a_name_is_refused():
    registry = Registry("fruit")
    registry.add("pear", 1)
    with pytest.raises(InvalidValue, match="fruit 'pear' is registered twice"):
        registry.add("pear", 2)
    assert registry["pear"] == 1
    with pytest.raises(InvalidValue, match="operator kind 'gemm' is registered twice"):
        operator_kind("gemm", "gemm")(lambda: None)


def test_an_unknown_name_is_refused_with_the_known_ones():
    with pytest.raises(InvalidValue, match=r"unknown operator kind 'gemmm'; known: .*gemm"):
        KINDS["gemmm"]


def test_collectives_are_the_kinds_that_move_messages():
    assert collective_kinds() == {
        "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send_recv"
    }  # fmt: skip

"""Slots in machines: what can be reached, and a flow as machines."""

from __future__ import annotations

from app.fleets.packing import Arc, arcs, filled, machines


def test_slots_begin_where_larger_ones_end():
    assert arcs(4, (1, 2)) == (
        Arc(0, 2), Arc(2, 2), Arc(0, 1), Arc(1, 1), Arc(2, 1), Arc(3, 1),
    )  # fmt: skip


def test_a_machine_that_is_too_small_has_no_slot():
    assert arcs(2, (4,)) == ()


def test_a_flow_is_as_many_machines_as_leave_its_start():
    flow = {Arc(0, 4): 2, Arc(4, 2): 1, Arc(6, 2): 1, Arc(4, 4): 1}
    assert sorted(map(sorted, machines(flow))) == [[2, 2, 4], [4, 4]]


def test_slots_without_a_replica_stay_empty():
    assert filled([[4, 4], [2, 2]], {4: [7], 2: []}) == [[(7, 4)]]

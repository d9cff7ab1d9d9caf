"""How replicas share machines: the arc-flow form of bin packing, and its solution as machines.

A machine of C devices is a path from 0 to at most C, and each arc is a slot of some devices.
Machines of one kind are flow over the same arcs, so no variable distinguishes equal machines.
The form is exact, and its relaxation is as tight as that of cutting stock (Valério de Carvalho
1999, doi:10.1023/A:1018952112615).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Arc:
    """A slot of `size` devices starting at device `start` of a machine."""

    start: int
    size: int


def arcs(devices: int, sizes: Iterable[int]) -> tuple[Arc, ...]:
    """All slots of the given sizes in a machine, with larger slots before smaller ones."""
    reached, found = {0}, []
    for size in sorted(set(sizes), reverse=True):
        for start in range(devices - size + 1):
            if start in reached:
                found.append(Arc(start, size))
                reached.add(start + size)
    return tuple(found)


def machines(flow: Mapping[Arc, int]) -> list[list[int]]:
    """The slot sizes of each machine in a flow; machines without slots are omitted.

    flow: number of machines using each arc; at every device at least as many enter as leave.
    """
    left = {arc: count for arc, count in flow.items() if count > 0}
    found: list[list[int]] = []
    while begins := next((arc for arc in left if arc.start == 0), None):
        slots: list[int] = []
        arc: Arc | None = begins
        while arc is not None:
            slots.append(arc.size)
            left[arc] -= 1
            if not left[arc]:
                del left[arc]
            end = arc.start + arc.size
            arc = next((one for one in left if one.start == end), None)
        found.append(slots)
    return found


def filled(
    used: Sequence[Sequence[int]], replicas: Mapping[int, Iterable[int]]
) -> list[list[tuple[int, int]]]:
    """The replica in each slot of the machines: (replica, devices).

    used: slot sizes of each machine.  replicas: {size: replicas of that size, each repeated as
    often as it runs}; there are at least as many slots of each size.
    """
    waiting = {size: list(those) for size, those in replicas.items()}
    placed: list[list[tuple[int, int]]] = []
    for slots in used:
        mine = [(waiting[size].pop(0), size) for size in slots if waiting.get(size)]
        if mine:
            placed.append(mine)
    return placed

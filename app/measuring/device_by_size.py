"""The device of reports that do not name it, from its number of units and its memory."""

from collections.abc import Sequence
from dataclasses import replace

import hardware_db
from genz_core.errors import RidgelineError
from profilers import Report
from profilers.phases.what_ran import Fact, WhatRan

#: Drivers reserve part of the memory, and report it in units of 1,000 or 1,024.
_SAME_MEMORY = 0.1


def with_device(ran: WhatRan, reports: Sequence[Report]) -> WhatRan:
    """What ran, with the only system that has the units and memory of an unnamed device."""
    if ran.device is not None:
        return ran
    for device in (device for report in reports for device in report.devices):
        if not device.units or not device.memory_bytes:
            continue
        fitting = _fitting(device.units, device.memory_bytes)
        if len(fitting) == 1:
            said = (
                f"its {device.units} units and {device.memory_bytes / 1e9:.0f} GB, without a name"
            )
            return replace(ran, device=Fact(fitting[0], said))
    return ran


def _fitting(units: int, memory_bytes: float) -> list[str]:
    """Names of the systems with this number of units and this memory."""
    found = []
    for slug in hardware_db.names():
        try:
            record = hardware_db.facts(slug)
            if record.kind != "gpu" or record.units is None or record.units.value != units:
                continue
            system = hardware_db.load(slug)
        except RidgelineError:  # an unreadable file of the user's
            continue
        if abs(memory_bytes / system.memory_bytes - 1.0) <= _SAME_MEMORY:
            found.append(system.name)
    return found

"""The device of reports: by its name, or by its units and memory where no name fits them."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import hardware_db
from genz_core.errors import InvalidValue, RidgelineError, UnknownSystem
from genz_core.systems import System
from profilers import Report
from profilers.comparison.account import Check, failed
from profilers.comparison.device_checks import of_device
from profilers.phases.what_ran import Fact, Text, WhatRan, named_device

#: What is said of a device that a report does not name.
UNKNOWN = "unknown device"
#: Drivers reserve part of the memory, and report it in units of 1,000 or 1,024.
_SAME_MEMORY = 0.1


def with_device(ran: WhatRan, reports: Sequence[Report]) -> WhatRan:
    """What ran, with the device that the evidence shows.

    A device keeps its name unless the figures or kernels of the reports contradict it.  Otherwise
    it is the only system with these units and this memory, or None.
    """
    said = contradiction(ran.device, reports)
    if ran.device is not None and not said:
        return ran
    return replace(ran, device=_by_size(reports, said or "the report names no device"))


def contradiction(device: Text | None, reports: Sequence[Report]) -> str:
    """How reports contradict the name of their device, in words; "" where they do not, or where it
    has no datasheet.
    """
    if device is None:
        return ""
    try:
        said = [against(reports)(system) for system in _boards(device.value)]
    except RidgelineError:
        return ""
    return f"the report names {device.value}, which differs: {said[0]}" if all(said) else ""


def against(reports: Sequence[Report]) -> Callable[[System], str]:
    """A test of a system: how what reports state and show of their device differs from it, ""
    where it does not.
    """

    def apart(system: System) -> str:
        checks = (of_device(one.devices, one.kernels, system) for one in reports)
        return ", ".join(dict.fromkeys(_sides(one) for made in checks for one in failed(made)))

    return apart


def _sides(check: Check) -> str:
    """A failed check in short: what it compares, and its two sides."""
    what = check.name.partition(" = ")[0].partition(" <= ")[0]
    return f"{what} {check.left:,.0f} against {check.right:,.0f} {check.unit}".rstrip()


def devices_words(names: Sequence[str]) -> str:
    """The devices of a report for a reader.  names: as it gives them, "" for one without."""
    return ", ".join(name or UNKNOWN for name in names) or UNKNOWN


def device_name(reports: Sequence[Report]) -> str:
    """The device that reports are priced for: as they name it, or the only one of its size.

    Raises:
        InvalidValue: they do not identify it, or contradict its name.
    """
    named = named_device(reports)
    said = contradiction(named, reports)
    if named is not None and not said:
        return named.value
    sized = _by_size(reports)
    if said:
        near = f", for example {hardware_db.load(sized.value).slug}" if sized else ""
        raise InvalidValue(f"it is not certain which device ran: {said}; give --system{near}")
    if sized is None:
        raise InvalidValue("the reports do not name their device; give --system")
    return sized.value


def system_of(*reports: Report) -> System | None:
    """The datasheet of the device of reports, None where it is not known or has none."""
    ran = with_device(WhatRan(device=named_device(reports)), reports)
    try:
        return hardware_db.load(ran.device.value) if ran.device else None
    except RidgelineError:
        return None


def _boards(name: str) -> list[System]:
    """The systems that a device's name fits.

    Raises:
        RidgelineError: it fits none.
    """
    try:
        return [hardware_db.load(slug) for slug in hardware_db.variants(name)]
    except UnknownSystem:
        return [hardware_db.load(name)]  # a MIG slice, or the error


def _by_size(reports: Sequence[Report], said: str = "") -> Text | None:
    """The only system with the units and the memory of a device in the reports.

    said: what else is known of the device.
    """
    for device in (device for report in reports for device in report.devices):
        if not device.units or not device.memory_bytes:
            continue
        fitting = _fitting(device.units, device.memory_bytes)
        if len(fitting) == 1:
            figures = f"its {device.units} units and {device.memory_bytes / 1e9:.0f} GB"
            return Fact(fitting[0], f"{figures}; {said}")
    return None


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

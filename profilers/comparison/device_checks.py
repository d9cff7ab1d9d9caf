"""Whether the figures and the kernels of a report are those of a device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pandas as pd

from genz_core.systems import System
from profilers.comparison.account import Check
from profilers.operators.kernel_vendors import time_by_vendor
from profilers.schema import DeviceInfo

#: Relative difference from which a figure is another device's.  Drivers reserve up to a tenth of
#: the memory, and a MIG slice has up to 15 % fewer units than its share.
_APART = 0.16
#: Kernels of another vendor may take up to this share of the time of those that name one [%].
_OTHER_VENDOR = 5.0
_FIGURES = "figures of the device = its datasheet's"


def of_device(
    devices: Sequence[DeviceInfo], kernels: pd.DataFrame, system: System | None
) -> tuple[Check, ...]:
    """Checks of what a report shows of its device: a check for each figure that it states, one for
    the vendor of its kernels, or one that cannot be made.

    Args:
        devices: as the report describes them; of a CPU only the kernels count, since a report
            states its threads as units.
        kernels: a kernel table.  system: the device that is said to have run, None where unknown.
    """
    if system is None:
        return (Check(_FIGURES, "not made", why="its device is not known"),)
    found = [*_figures(devices, system), *_vendor(kernels, system)]
    why = "the report states neither units, memory nor bandwidth of its device"
    return tuple(found) or (Check(_FIGURES, "not made", why=why),)


def _figures(devices: Sequence[DeviceInfo], system: System) -> Iterator[Check]:
    if system.kind == "cpu":
        return
    seen = set()
    for device in devices:
        for name, unit, ran, meant, scale in (
            ("units", "", device.units, system.compute_units, 1.0),
            ("memory", "GB", device.memory_bytes, system.memory_bytes, 1e9),
            ("bandwidth", "GB/s", device.memory_bytes_per_s, system.memory_bytes_per_s, 1e9),
        ):
            if ran and meant and (name, ran) not in seen:
                seen.add((name, ran))
                apart = abs(ran / meant - 1.0) > _APART
                yield Check(
                    f"{name} of the device = its datasheet's", "failed" if apart else "passed",
                    ran / scale, meant / scale, unit, _why(system) if apart else "",
                )  # fmt: skip


def _vendor(kernels: pd.DataFrame, system: System) -> Iterator[Check]:
    """Kernels of AMD's software on an NVIDIA GPU, or the reverse; other vendors also run either."""
    spent = time_by_vendor(kernels)
    if system.vendor not in ("AMD", "NVIDIA") or not spent:
        return
    others = [vendor for vendor in spent if vendor != system.vendor]
    share = 100.0 * sum(spent[vendor] for vendor in others) / sum(spent.values())
    apart = share > _OTHER_VENDOR
    why = f"{others[0]}'s software ran: {_why(system)}" if apart else ""
    yield Check(
        f"kernels of another vendor than {system.vendor} <= their limit",
        "failed" if apart else "passed", share, _OTHER_VENDOR, "%", why,
    )  # fmt: skip


def _why(system: System) -> str:
    return f"another device than {system.name} ran, or a part of it; name it with --system"

"""This machine as a system document of the hardware database, with measured peaks.

A CPU's peaks depend on the machine around it, so they are measured: the fastest matrix product for
each arithmetic type, and the fastest memory stream, of the microbenchmarks.
"""

from __future__ import annotations

import datetime
from typing import Any

from profilers.collect.machine import Cpu
from profilers.collect.microbenchmarks import Suite

#: Names under which this machine and its engine are kept in the user's data folder.
SLUG, ENGINE = "this-machine", "hf-this-machine"

_VENDORS = ("Intel", "AMD", "Apple", "NVIDIA", "Ampere")


def system_document(cpu: Cpu, suite: Suite, day: datetime.date | None = None) -> dict[str, Any]:
    """System document of a measured CPU, in the form of `hardware_db/systems/*.yaml`.

    Args:
        suite: finished microbenchmarks; their threads, not all cores, are the system's units.
        day: date of the measurement, today by default.
    """
    date = day or datetime.date.today()
    threads = int(suite.facts["threads"])
    note = f"best median of the microbenchmarks with {threads} threads, {date}; " + (
        f"spread of the repeats {suite.spread:.0%}"
    )

    def measured(value: float, digits: int = 4) -> dict[str, Any]:
        rounded = float(f"{value:.{digits}g}")
        return {"value": rounded, "source": "measured", "kind": "measured", "note": note}

    document: dict[str, Any] = {
        "id": SLUG,
        "name": f"This machine ({cpu.name})",
        "vendor": next((v for v in _VENDORS if v.casefold() in cpu.name.casefold()), "unknown"),
        "kind": "cpu",
        "family": "this-machine",
        "aliases": ["localhost", "this machine"],
        "sources": {
            "measured": {"title": f"Measured on this machine, {date}"},
            "system": {"title": f"Operating system of this machine, {date}"},
        },
        "peak_dense_tflops": {
            name: measured(rate / 1e12) for name, rate in suite.peak_flops_per_s.items()
        },
        "memory_gib": _stated(cpu.memory_bytes / 2**30),
        "memory_gb_per_s": measured(suite.memory_bytes_per_s / 1e9),
        "units": measured(threads),
    }
    if cpu.l3_bytes:
        document["l2_mib"] = _stated(cpu.l3_bytes / 2**20)
    if cpu.clock_hz:
        document["clock_mhz"] = _stated(cpu.clock_hz / 1e6)
    if threads < cpu.cores:
        document["notes"] = [f"measured with {threads} of {cpu.cores} cores"]
    return document


def _stated(value: float) -> dict[str, Any]:
    """A figure with its source, as stated by the operating system."""
    return {"value": float(f"{value:.6g}"), "source": "system", "kind": "datasheet"}

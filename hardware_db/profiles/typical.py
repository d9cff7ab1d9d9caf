"""Typical constants for devices of families that were not measured, by the width of their memory.

Kernels behave alike on devices with graphics memory (a few bytes per unit and clock), and alike on
datacenter accelerators; between these two ends of the scale, constants are interpolated.  For
collectives the scale is the bandwidth of the first link: PCIe at one end, NVLink at the other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from genz_core.latency.device import Device
from genz_core.latency.parameters import CLASSES, CollectiveParameters, Parameters, describe
from genz_core.latency.profile import Fit
from hardware_db.profile_schema import FittedProfile

#: ln(memory bytes per unit and clock): L40S and RTX PRO 6000 are near 3, A100 to B200 at 13 to 27.
_MEMORY_POLES = {"narrow": math.log(3.1), "wide": math.log(15.0)}
#: ln(bytes per second and direction of the first link): PCIe 4 and 5 against NVLink 3 to 5.
_LINK_POLES = {"narrow": math.log(45e9), "wide": math.log(500e9)}
POLES: Mapping[str, Mapping[str, float]] = {
    operator: _LINK_POLES if operator == "collective" else _MEMORY_POLES for operator in CLASSES
}


def position(operator: str, device: Device) -> float:
    """Position of a device on the scale of an operator class: ln of bytes per clock or second."""
    if operator == "collective":
        return math.log(device.links[0].bytes_per_s) if device.links else _LINK_POLES["narrow"]
    return math.log(device.memory_bytes_per_s / (device.compute_units * device.clock_hz))


def share_of_wide(operator: str, device: Device) -> float:
    """Weight of the wide pole's constants: 0 at the narrow pole and below, 1 at the wide one."""
    poles = POLES[operator]
    share = (position(operator, device) - poles["narrow"]) / (poles["wide"] - poles["narrow"])
    return min(max(share, 0.0), 1.0)


def between(narrow: Parameters, wide: Parameters, share: float) -> Parameters:
    """Constants interpolated between two poles on a logarithmic scale.  share: of the wide pole."""
    kind, values = type(narrow), {}
    for constant in describe(kind):
        low, high = (max(getattr(end, constant.name), 1e-12) for end in (narrow, wide))
        value = math.exp((1.0 - share) * math.log(low) + share * math.log(high))
        values[constant.name] = min(max(value, constant.low), constant.high)
    return kind(**values)


def for_device(narrow: FittedProfile, wide: FittedProfile, device: Device) -> FittedProfile:
    """The typical profile of a device, by its position between the poles."""
    parameters: dict[tuple[str, str], Parameters] = {}
    fits: dict[tuple[str, str], Fit] = {}
    for key, low in narrow.parameters.items():
        share = share_of_wide(key[0], device)
        parameters[key] = _reaching(between(low, wide.parameters[key], share), device)
        fits[key] = (wide if share > 0.5 else narrow).fits[key]
    return FittedProfile("typical", "", (), parameters, fits)


#: Constants that differ in the kernels of a CPU: shares of the peak that attention reached on one
#: core of an EPYC, fitted on the microbenchmarks of `ridgeline calibrate machine` (torch 2.13,
#: bf16).
_OF_CPUS: Mapping[str, Mapping[str, float]] = {
    "prefill_attention": {"efficiency_64": 0.31, "efficiency_128": 0.28},
    "decode_attention": {"compute_efficiency": 0.18},
}
CPU_DATA = "one core of an EPYC, and typical constants of GPUs"


def on_cpu(typical: FittedProfile) -> FittedProfile:
    """Typical constants for a CPU: attention's as reached on one core, the others unchanged."""
    parameters = {
        key: replace(cast(Any, values), **_OF_CPUS.get(key[0], {}))
        for key, values in typical.parameters.items()
    }
    fits = {key: replace(fit, data_set=CPU_DATA, points=0) for key, fit in typical.fits.items()}
    return replace(typical, parameters=parameters, fits=fits)


def _reaching(constants: Parameters, device: Device) -> Parameters:
    """Constants of a collective scaled to the stated share of the link's rate, if one is stated."""
    reached = device.links[0].reached if device.links else None
    if reached is None or not isinstance(constants, CollectiveParameters):
        return constants
    return replace(constants, efficiency_2=reached, efficiency_4=reached, efficiency_8=reached)

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
from genz_core.latency.parameters import (
    CLASSES,
    CollectiveParameters,
    GemmParameters,
    Parameters,
    describe,
)
from genz_core.latency.profile import Fit, LatencyProfile
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


#: Largest share of the bandwidth at which products read weights where that was not measured:
#: microbenchmarks of DRAM reach 85 to 93 % of its peak.
_READ = 0.93
#: Formats whose weights are unpacked to 16 bits inside the product.
_UNPACKED = ("int8_weight_only", "int4_weight_only")


def as_inherited(profile: LatencyProfile) -> LatencyProfile:
    """A profile whose products that were not measured on the device keep to what its hardware, and
    its own bf16 products, reach.

    None reads weights at more than 93 % of the bandwidth.  A weight-only product that was not
    measured on its silicon runs the instructions of the bf16 one on the same units, so it reaches
    no larger share of the peak, and a step of its K loop takes no longer.  On A100, the only device
    that was measured with both, the shares are 0.85 (bf16), 0.86 and 0.81 (8 and 4 bits), and a
    step takes 0.43, 0.37 and 0.42 us.
    """
    products = {fmt: cast(GemmParameters, c) for fmt, c in profile.parameters["gemm"].items()}
    bf16 = products["bf16"]
    for fmt, constants in products.items():
        tier = profile.fit("gemm", fmt).tier
        if tier != "measured":
            read = min(constants.memory_efficiency, _READ)
            constants = replace(constants, memory_efficiency=read)
        if fmt in _UNPACKED and tier == "default":
            constants = replace(
                constants,
                compute_efficiency=min(constants.compute_efficiency, bf16.compute_efficiency),
                store_share=min(constants.store_share, bf16.store_share),
                k_step_s=min(constants.k_step_s, bf16.k_step_s),
            )
        products[fmt] = constants
    return replace(profile, parameters={**profile.parameters, "gemm": products})


def _reaching(constants: Parameters, device: Device) -> Parameters:
    """Constants of a collective scaled to the stated share of the link's rate, if one is stated."""
    reached = device.links[0].reached if device.links else None
    if reached is None or not isinstance(constants, CollectiveParameters):
        return constants
    return replace(constants, efficiency_2=reached, efficiency_4=reached, efficiency_8=reached)

"""The latency of an operator: the bound of physics (`roofline`), and the one price (`Pricer`).

A file for each operator class registers how it is priced; `measured_operators` takes measured
shapes to the same formulas.
"""

from genz_core.latency.device import Device
from genz_core.latency.pricer import ConstantsUsed, Explanation, Pricer
from genz_core.latency.profile import LatencyProfile

__all__ = ["ConstantsUsed", "Device", "Explanation", "LatencyProfile", "Pricer"]

"""Latencies of operators: their bound (`roofline`) and their expected time (`Pricer`).

Each operator class has a file with its equation (a function that returns a `KernelTime`) and the
registration of the kinds that it prices; `measured_operators` prices benchmark points with the
same equations.
"""

from genz_core.latency.device import Device
from genz_core.latency.pricer import ConstantsUsed, Explanation, Pricer
from genz_core.latency.profile import LatencyProfile

__all__ = ["ConstantsUsed", "Device", "Explanation", "LatencyProfile", "Pricer"]

"""What an operator takes: the bound of physics (`roofline`), and the latency one should expect.

`Pricer.expected_s` is the one door; behind it a file for each operator class.  `points` takes
measured shapes to the same formulas.
"""

from genz_core.latency.device import Device
from genz_core.latency.pricer import Pricer
from genz_core.latency.profile import LatencyProfile

__all__ = ["Device", "LatencyProfile", "Pricer"]

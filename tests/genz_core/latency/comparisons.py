"""Shared by the latency tests: the device's peak, and when two times count as equal."""

import numpy as np

#: Dense 16-bit peak of the tests' device [FLOP/s].
PEAK = 989.4e12


def same(together, alone) -> bool:
    """Whether times are equal but for the last bits, which vector units round differently."""
    return np.allclose(together, alone, rtol=1e-12, atol=0.0)

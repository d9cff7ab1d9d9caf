"""One device for all latency tests: an H100's datasheet, spelled out."""

import pytest

from genz_core.latency.device import Device
from genz_core.systems import Link


@pytest.fixture(scope="session")
def device():
    return Device(
        peak_flops_per_s={"bf16": 989.4e12, "fp8": 1978.9e12},
        memory_bytes_per_s=3.35e12,
        compute_units=132.0,
        clock_hz=1.98e9,
        l2_bytes=50e6,
        links=(
            Link("nvlink", 450e9, 0.0, 8),
            Link("infiniband", 50e9, 5e-6, 0),
        ),
    )

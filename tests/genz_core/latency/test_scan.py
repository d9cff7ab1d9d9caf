"""Recurrences over the sequence: chunked products in prefill, traffic of the state in decode."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from genz_core.latency.parameters import ScanParameters
from genz_core.latency.scan import scan_time
from tests.genz_core.latency.comparisons import PEAK, same


def scan(device, sequences, new, **options):
    return scan_time(
        sequences,
        new,
        32,
        key_dim=128,
        value_dim=128,
        peak_flops_per_s=PEAK,
        device=device,
        parameters=ScanParameters(),
        **options,
    ).seconds()


@given(st.integers(1, 256), st.integers(1, 8192), st.integers(1, 4096))
def test_a_scan_never_gets_faster_with_tokens_or_sequences(device, sequences, new, more):
    base = scan(device, sequences, new) * (1 - 1e-9)
    assert scan(device, sequences, new + more) >= base
    assert scan(device, sequences + 1, new) >= base


def test_one_token_costs_its_state_read_and_written(device):
    state = 2.0 * 1024 * 32 * 128 * 128 * 4.0
    streamed = state / device.memory_bytes_per_s / ScanParameters().memory_efficiency
    time = float(scan(device, 1024, 1, floor_s=0.0))
    assert streamed < time < 1.6 * streamed


def test_drafted_tokens_add_a_written_state_each(device):
    plain, verified = (float(scan(device, 1024, 4, drafted=d, floor_s=0.0)) for d in (0.0, 3.0))
    states = 3 * 1024 * 32 * 128 * 128 * 4.0
    streamed = states / device.memory_bytes_per_s / ScanParameters().memory_efficiency
    assert 0.8 * streamed < verified - plain < 1.2 * streamed


def test_arrays_are_priced_as_each_alone(device):
    sequences, new = np.array([1.0, 8.0, 0.0]), np.array([1.0, 4096.0, 7.0])
    together = scan(device, sequences, new)
    alone = [scan(device, s, n) for s, n in zip(sequences, new, strict=True)]
    assert same(together, alone)
    assert together[2] == 0.0

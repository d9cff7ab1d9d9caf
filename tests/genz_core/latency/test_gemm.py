import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from genz_core.latency.gemm import gemm_time
from genz_core.latency.parameters import GemmParameters
from tests.draws import cases
from tests.genz_core.latency.comparisons import PEAK, same

size = st.integers(1, 20_000)
features = st.sampled_from([128, 512, 1024, 4096, 14336, 28672])


def price(device, m, n, k, parameters=None, **options):
    return gemm_time(
        m,
        n,
        k,
        weight_bytes=options.pop("weight_bytes", 2.0),
        activation_bytes=2.0,
        peak_flops_per_s=PEAK,
        device=device,
        parameters=parameters or GemmParameters(),
        **options,
    ).seconds()


def bound(device, m, n, k):
    moved = 2.0 * (m * k + n * k + m * n)
    return max(2.0 * m * n * k / PEAK, moved / device.memory_bytes_per_s)


@given(size, features, features)
def test_never_faster_than_the_roofline(device, m, n, k):
    ideal = GemmParameters(launch_s=0.2e-6, compute_efficiency=1.0, memory_efficiency=1.0)
    assert price(device, m, n, k, ideal) >= bound(device, m, n, k)


@given(size, size, features, features)
def test_more_rows_never_take_less_time(device, m, more, n, k):
    low, high = price(device, np.array([m, m + more]), n, k)
    assert high >= low * (1 - 1e-12)


@given(size, features, features, st.integers(1, 8))
def test_more_features_never_take_less_time(device, m, n, k, times):
    base = price(device, m, n, k) * (1 - 1e-12)
    assert price(device, m, n * times, k) >= base
    assert price(device, m, n, k * times) >= base


@given(st.integers(1, 128), features, features, st.sampled_from([1.0, 0.5625]))
def test_fewer_bits_a_weight_never_stream_slower(device, m, n, k, weight_bytes):
    assert price(device, m, n, k, weight_bytes=weight_bytes) <= price(device, m, n, k)


def test_a_long_k_is_split_over_units_that_few_tiles_leave_idle(device):
    """Two tiles on 132 units: one pass along K takes its latency, splits divide it."""
    parameters = GemmParameters()
    alone = 28672 * parameters.k_step_s * 2.0 / 128.0
    assert price(device, 64, 128, 28672, floor_s=0.0) < 0.5 * alone


@given(st.lists(size, min_size=1, max_size=12), features, features)
def test_an_array_of_shapes_is_priced_as_each_alone(device, rows, n, k):
    together = price(device, np.array(rows, float), n, k)
    assert same(together, [price(device, m, n, k) for m in rows])


@settings(max_examples=cases(5))
@given(st.integers(0, 10**6))
def test_a_long_array_with_repeats_is_priced_as_each_alone(device, seed):
    rows = np.random.default_rng(seed).integers(1, 300, 3000).astype(float)
    together = price(device, rows, 4096, 4096)
    wide = price(device, rows, np.full(3000, 4096.0), 4096)
    assert same(together, wide)
    assert same(together[17], price(device, rows[17], 4096, 4096))


def test_large_products_reach_the_fitted_share_of_the_peak(device):
    parameters = GemmParameters()
    m = n = k = 16384
    reached = 2.0 * m * n * k / PEAK / float(price(device, m, n, k, parameters))
    assert reached == pytest.approx(parameters.compute_efficiency, rel=0.05)


def test_one_row_streams_the_weights_at_the_fitted_share_of_the_bandwidth(device):
    n, k = 28672, 8192
    streamed = 2.0 * n * k / device.memory_bytes_per_s
    share = streamed / float(price(device, 1, n, k, floor_s=0.0))
    assert share == pytest.approx(GemmParameters().memory_efficiency, rel=0.05)


def test_cold_weights_are_never_faster_than_weights_left_in_the_cache(device):
    rows, parameters = np.array([1.0, 16.0, 256.0, 4096.0]), GemmParameters(cache_share=0.5)
    cold = price(device, rows, 2048, 2048, parameters)
    warm = price(device, rows, 2048, 2048, parameters, warm_cache=True)
    assert np.all(warm <= cold)
    assert warm[0] < cold[0]


def test_an_engine_floor_replaces_the_launch_time_and_nothing_else(device):
    free = price(device, 64, 4096, 4096, floor_s=0.0)
    assert price(device, 64, 4096, 4096, floor_s=3e-6) == pytest.approx(free + 3e-6, rel=1e-12)
    assert price(device, 64, 4096, 4096) == pytest.approx(free + GemmParameters().launch_s)


def test_quantising_the_activations_costs_time_that_grows_with_the_rows(device):
    parameters = GemmParameters(quantize_passes=4.0)
    plain = price(device, np.array([1.0, 8192.0]), 4096, 4096, parameters)
    extra = price(device, np.array([1.0, 8192.0]), 4096, 4096, parameters, quantized=True) - plain
    expected = 4.0 * 2.0 * np.array([1.0, 8192.0]) * 4096 / device.memory_bytes_per_s
    assert extra == pytest.approx(expected, rel=1e-3)


def test_no_rows_cost_nothing(device):
    assert price(device, 0, 4096, 4096) == 0.0
    assert price(device, np.array([0.0, 5.0]), 4096, 4096)[0] == 0.0


@pytest.mark.parametrize("name", ["launch_s", "k_step_s", "split_s"])
def test_slower_constants_never_make_a_product_faster(device, name):
    slow = dataclasses.replace(GemmParameters(), **{name: getattr(GemmParameters(), name) * 3})
    rows = np.array([1.0, 64.0, 4096.0])
    assert np.all(price(device, rows, 4096, 4096, slow) >= price(device, rows, 4096, 4096))


def test_one_row_that_is_streamed_takes_the_longer_of_memory_and_compute_and_more_rows_their_sum(
    device,
):
    summed = GemmParameters(launch_s=2e-7, overlap=1.0)
    rows = np.array([1, 2])
    plain, streamed = (
        price(device, rows, 4096, 4096, summed, least_rows=1, streamed=given)
        for given in (False, True)
    )
    moved = 2.0 * (4096 * 4096 + 2 * 4096) / device.memory_bytes_per_s / summed.memory_efficiency
    assert streamed[0] == pytest.approx(moved, rel=0.1) and streamed[0] < plain[0]
    assert streamed[1] == plain[1]


def test_more_rows_than_a_pass_holds_read_the_weights_once_a_pass(device):
    passes = {"pass_rows": 512.0, "floor_s": 0.0}
    rows = np.array([1, 100, 512, 1024, 5120])
    whole, split = (
        price(device, rows, 4096, 4096, **named) for named in ({"floor_s": 0.0}, passes)
    )
    assert split[:3] == pytest.approx(whole[:3])
    assert split[3:] == pytest.approx([2 * whole[2], 10 * whole[2]])
    assert np.all(split >= whole * (1 - 1e-9))


# ------------------------------------------------------------------------------- vector kernels

VECTOR_WEIGHTS_PER_S = 18.0 * 132 * 1.755e9
Q4 = {"weight_bytes": 0.5625, "least_rows": 1, "floor_s": 0.0}


def vectors(device, m, n, k):
    return price(device, m, n, k, vector_weights_per_s=VECTOR_WEIGHTS_PER_S, **Q4)


@given(st.integers(1, 40), st.integers(0, 5_000), features, features)
def test_more_rows_of_packed_weights_never_take_less_time(device, m, more, n, k):
    low, high = vectors(device, np.array([m, m + more]), n, k)
    assert high >= low * (1 - 1e-12)


@given(st.integers(1, 8), features, features)
def test_a_vector_kernel_unpacks_each_weight_once_and_multiplies_it_with_each_row(device, m, n, k):
    assert vectors(device, m, n, k) >= n * k * (2.0 + m) / 3.0 / VECTOR_WEIGHTS_PER_S


def test_one_row_is_bound_by_unpacking_where_the_memory_is_fast_and_else_by_memory(device):
    slow = dataclasses.replace(device, memory_bytes_per_s=device.memory_bytes_per_s / 100.0)
    for memory, longest in ((device, "compute"), (slow, "memory")):
        stages = gemm_time(
            1.0, 14336.0, 4096.0, weight_bytes=0.5625, activation_bytes=2.0,
            peak_flops_per_s=PEAK, device=memory, parameters=GemmParameters(), least_rows=1,
            vector_weights_per_s=VECTOR_WEIGHTS_PER_S,
        ).terms().stages  # fmt: skip
        assert max(stages, key=lambda name: float(stages[name][0])) == longest

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genz_core.latency.moe import busiest_rank_rows, expected_tiles, moe_time
from genz_core.latency.parameters import MoeParameters
from tests.genz_core.latency.comparisons import PEAK, same

EXPERTS, TOP_K, HIDDEN, INTERMEDIATE = 128, 8, 2048, 768


def active(tokens):
    return EXPERTS * (1 - (1 - TOP_K / EXPERTS) ** np.asarray(tokens, float))


def price(device, tokens, parameters=None, **options):
    tokens = np.asarray(tokens, float)
    return moe_time(
        tokens,
        tokens * TOP_K,
        active(tokens),
        local_experts=EXPERTS,
        hidden=HIDDEN,
        intermediate=INTERMEDIATE,
        peak_flops_per_s=PEAK,
        device=device,
        parameters=parameters or MoeParameters(),
        **options,
    ).seconds()


@given(st.integers(1, 30_000))
def test_never_faster_than_streaming_the_active_experts_or_multiplying_the_rows(device, tokens):
    ideal = MoeParameters(compute_efficiency=1.0, memory_efficiency=1.0)
    size = 3.0 * HIDDEN * INTERMEDIATE
    streamed = active(tokens) * size * 2.0 / device.memory_bytes_per_s
    multiplied = 2.0 * tokens * TOP_K * size / PEAK
    assert price(device, tokens, ideal) >= max(streamed, multiplied) * (1 - 1e-9)


@given(st.integers(1, 10_000), st.integers(1, 10_000))
def test_more_tokens_never_take_less_time(device, tokens, more):
    assert price(device, tokens + more) >= price(device, tokens) * (1 - 1e-9)


def test_an_array_is_priced_as_each_alone(device):
    tokens = np.array([1.0, 7.0, 64.0, 1000.0, 20000.0])
    assert same(price(device, tokens), [price(device, t) for t in tokens])


def test_few_tokens_cost_as_many_experts_as_they_reach(device):
    kernel = price(device, np.array([1.0, 4.0]), floor_s=0.0, expert_s=0.0)
    assert kernel[1] / kernel[0] == pytest.approx(float(active(4) / active(1)), rel=0.25)


def test_bookkeeping_grows_with_the_experts_on_the_device_and_can_be_overridden(device):
    with_it = price(device, 1, floor_s=0.0)
    without = price(device, 1, floor_s=0.0, expert_s=0.0)
    assert with_it - without == pytest.approx(EXPERTS * MoeParameters().expert_s)


def test_two_projections_read_two_thirds_of_the_weights_of_three(device):
    gated = price(device, 512, floor_s=0.0, expert_s=0.0)
    plain = price(device, 512, floor_s=0.0, expert_s=0.0, gated=False)
    assert 0.6 < float(plain / gated) < 0.8


def test_the_busiest_rank_gets_its_even_share_without_skew_and_never_more_than_everything():
    assert busiest_rank_rows(100.0, 8, 0.0, 800.0) == 100.0
    assert busiest_rank_rows(100.0, 8, 0.36, 800.0) == pytest.approx(100 * 8**0.36)
    assert busiest_rank_rows(100.0, 8, 2.0, 800.0) == 800.0


def test_no_tokens_cost_nothing(device):
    assert price(device, 0) == 0.0


@pytest.mark.parametrize(("experts", "top_k"), [(128, 4), (256, 8), (8, 2)])
def test_the_tiles_of_random_routing_are_those_of_drawn_choices(experts, top_k):
    generator = np.random.default_rng(3)
    rows = np.array([[16.0], [64.0], [256.0]])
    for tokens in (1, 16, 256, 1000, 4096, 20_000):
        drawn = generator.binomial(tokens, top_k / experts, size=20_000)
        filled = np.ceil(drawn / rows).mean(axis=1) * experts
        reached = experts * (1 - (1 - top_k / experts) ** tokens)
        sizes = (np.array([float(size)]) for size in (tokens * top_k, reached, experts))
        assert expected_tiles(*sizes, rows)[:, 0] == pytest.approx(filled, rel=0.025)


@pytest.mark.parametrize(("tokens", "rows"), [(256, 16), (512, 32), (1024, 64), (2048, 128)])
def test_tiles_are_counted_most_closely_where_experts_fill_one_on_average(tokens, rows):
    """Eight of 128 experts: `rows` for each on average, where half of them need a second tile."""
    from scipy.stats import binom

    drawn = np.arange(tokens + 1)
    exact = 128 * (binom.pmf(drawn, tokens, 8 / 128) * np.ceil(drawn / rows)).sum()
    reached = 128 * (1 - (1 - 8 / 128) ** tokens)
    sizes = (np.array([float(size)]) for size in (tokens * 8, reached, 128))
    assert expected_tiles(*sizes, np.array([[float(rows)]])) == pytest.approx(exact, rel=0.012)


@given(st.integers(1, 20_000), st.floats(1.0, 1.5))
def test_random_routing_has_no_cliff_and_no_tokens_that_save_time(device, tokens, factor):
    at = np.array([tokens, tokens + 1, np.ceil(tokens * factor)], float)
    one, next_one, more = price(device, at, at_random=True)
    assert one * (1 - 1e-9) <= next_one <= one * (1 + 1.2 / tokens + 0.006)
    assert more >= one * (1 - 1e-9)


def test_experts_that_read_in_passes_have_fewer_rows_each_time(device):
    def seconds(tokens, **options):
        return moe_time(
            tokens, tokens * TOP_K, active(tokens), local_experts=EXPERTS, hidden=HIDDEN,
            intermediate=INTERMEDIATE, peak_flops_per_s=1e15, device=device, at_random=True,
            parameters=MoeParameters(), floor_s=0.0, expert_s=0.0, **options,
        ).seconds()  # fmt: skip

    assert seconds(512.0, pass_rows=512.0) == seconds(512.0)
    assert seconds(4096.0, pass_rows=512.0) == pytest.approx(8 * seconds(512.0), rel=0.01)
    assert seconds(4096.0, pass_rows=512.0) > 1.2 * seconds(4096.0)


# ------------------------------------------------------------------------------- vector kernels

#: A device with little arithmetic: 30 FLOP per byte, like local machines.
LOCAL = {"peak_flops_per_s": 16e12}


def local(device, tokens, vectors, vector_weights_per_s=0.0):
    weak = replace(device, memory_bytes_per_s=546e9)
    kernel = moe_time(
        tokens, tokens * TOP_K, active(tokens), local_experts=EXPERTS, hidden=HIDDEN,
        intermediate=INTERMEDIATE, weight_bytes=0.5625, device=weak, parameters=MoeParameters(),
        at_random=True, vectors=vectors, vector_weights_per_s=vector_weights_per_s, **LOCAL,
    )  # fmt: skip
    return kernel.terms(), float(kernel.seconds())


def test_one_row_an_expert_is_not_padded_to_a_tile(device):
    vectors, seconds = local(device, 1.0, vectors=True)
    tiles, padded = local(device, 1.0, vectors=False)
    assert tiles.stages["compute"] > tiles.stages["memory"]
    assert vectors.stages["compute"] < 0.25 * vectors.stages["memory"]
    assert seconds < 0.6 * padded


@given(st.integers(1, 5_000), st.integers(1, 500))
def test_vector_kernels_are_another_way_and_never_a_longer_one(device, tokens, more):
    seconds = local(device, float(tokens), vectors=True)[1]
    assert seconds <= local(device, float(tokens), vectors=False)[1] * (1 + 1e-9)
    assert seconds <= local(device, float(tokens + more), vectors=True)[1] * (1 + 1e-9)


def test_many_rows_an_expert_read_its_weights_once_as_tiles_do(device):
    assert local(device, 4096.0, vectors=True)[1] == local(device, 4096.0, vectors=False)[1]


@given(st.integers(1, 40), st.integers(1, 500))
def test_unpacking_bounds_few_tokens_and_no_more_tokens_save_time(device, tokens, more):
    rate = 1e11
    seconds = local(device, float(tokens), vectors=True, vector_weights_per_s=rate)[1]
    rows = min(tokens, 8) * TOP_K
    assert seconds >= rows * 3.0 * HIDDEN * INTERMEDIATE / rate
    after = local(device, float(tokens + more), vectors=True, vector_weights_per_s=rate)[1]
    assert seconds <= after * (1 + 1e-9)

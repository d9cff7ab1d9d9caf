import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genz_core.latency.attention_kinds import sparse_context
from genz_core.latency.decode_attention import decode_attention_time
from genz_core.latency.parameters import DecodeAttentionParameters, PrefillAttentionParameters
from genz_core.latency.prefill_attention import prefill_attention_time
from genz_core.operators import attended_pairs
from tests.genz_core.latency.comparisons import PEAK, same

batch, tokens, window = st.integers(1, 64), st.integers(1, 9000), st.sampled_from([0, 128, 4096])


def prefill(device, sequences, new, cached=0, parameters=None, **shape):
    shape = {"heads": 32, "kv_heads": 8, "head_dim": 128} | shape
    return prefill_attention_time(
        sequences,
        new,
        cached,
        peak_flops_per_s=PEAK,
        device=device,
        parameters=parameters or PrefillAttentionParameters(),
        **shape,
    ).seconds()


def decode(device, sequences, context, parameters=None, **shape):
    shape = {"heads": 32, "kv_heads": 8, "head_dim": 128} | shape
    return decode_attention_time(
        sequences,
        context,
        peak_flops_per_s=PEAK,
        device=device,
        parameters=parameters or DecodeAttentionParameters(),
        **shape,
    ).seconds()


@given(batch, tokens, tokens, window)
def test_prefill_is_never_faster_than_the_roofline(device, sequences, new, cached, reach):
    ideal = PrefillAttentionParameters(
        efficiency_64=1.0, efficiency_128=1.0, efficiency_256=1.0, memory_efficiency=1.0
    )
    flops = 4.0 * 128 * 32 * sequences * attended_pairs(new, cached, reach)
    assert prefill(device, sequences, new, cached, ideal, window=reach) >= flops / PEAK


@given(batch, tokens, window)
def test_decode_is_never_faster_than_the_roofline(device, sequences, context, reach):
    ideal = DecodeAttentionParameters(compute_efficiency=1.0, memory_efficiency=1.0)
    keys = min(context, reach) if reach else context
    streamed = sequences * 2.0 * 8 * 128 * keys * 2.0 / device.memory_bytes_per_s
    assert decode(device, sequences, context, ideal, window=reach) >= streamed


@given(batch, tokens, tokens, tokens, window)
def test_more_new_or_cached_tokens_or_sequences_never_take_less(
    device, sequences, new, cached, more, reach
):
    base = prefill(device, sequences, new, cached, window=reach) * (1 - 1e-9)
    assert prefill(device, sequences, new + more, cached, window=reach) >= base
    assert prefill(device, sequences, new, cached + more, window=reach) >= base
    assert prefill(device, sequences + 1, new, cached, window=reach) >= base


@given(batch, tokens, tokens, window)
def test_a_longer_context_or_a_larger_batch_never_decodes_faster(
    device, sequences, context, more, reach
):
    base = decode(device, sequences, context, window=reach) * (1 - 1e-9)
    assert decode(device, sequences, context + more, window=reach) >= base
    assert decode(device, sequences + 1, context, window=reach) >= base


@given(st.lists(st.tuples(batch, tokens, tokens), min_size=1, max_size=8))
def test_an_array_is_priced_as_each_alone(device, rows):
    sequences, new, cached = (np.array(column, float) for column in zip(*rows, strict=True))
    assert same(prefill(device, sequences, new, cached), [prefill(device, *row) for row in rows])
    assert same(decode(device, sequences, cached), [decode(device, s, c) for s, _, c in rows])


def test_long_prefill_reaches_the_share_that_products_and_exponentials_allow(device):
    parameters = PrefillAttentionParameters()
    flops = 4.0 * 128 * 32 * attended_pairs(32768, 0)
    share = flops / PEAK / float(prefill(device, 1, 32768))
    assert 0.5 * parameters.efficiency_128 < share < parameters.efficiency_128


def test_a_window_caps_the_cost_of_context_in_prefill_and_decode(device):
    assert prefill(device, 1, 16384, window=1024) < 0.3 * prefill(device, 1, 16384)
    assert decode(device, 64, 65536, window=1024) < 0.1 * decode(device, 64, 65536)
    near, far = decode(device, 64, np.array([4096.0, 99999.0]), window=1024)
    assert near <= far < 1.1 * near


def test_splitting_over_the_keys_keeps_one_long_sequence_from_running_on_eight_blocks(device):
    streamed = 2.0 * 8 * 128 * 131072 * 2.0 / device.memory_bytes_per_s
    assert decode(device, 1, 131072) < 3.0 * streamed + 20e-6


@pytest.mark.parametrize("longest", [40, 1_000, 30_000])
def test_splits_that_many_short_contexts_cannot_use_change_no_time(device, longest):
    sequences, context = np.tile([1.0, 3.0, 16.0, 64.0], 100), np.linspace(1.0, longest, 400)
    alone = [decode(device, *row) for row in zip(sequences, context, strict=True)]
    assert same(decode(device, sequences, context), alone)


def test_a_shared_latent_cache_is_read_once(device):
    latent = {"heads": 16, "kv_heads": 1, "head_dim": 576, "value_dim": 512, "floor_s": 0.0}
    ideal = DecodeAttentionParameters(compute_efficiency=1.0)
    shared = decode(device, 256, 16384, ideal, shared_kv=True, **latent)
    apart = decode(device, 256, 16384, ideal, **latent)
    assert apart / shared == pytest.approx((576 + 512) / 576, rel=0.1)


def test_a_smaller_cache_format_decodes_faster(device):
    assert decode(device, 64, 16384, kv_bytes=1.0) < 0.6 * decode(device, 64, 16384, kv_bytes=2.0)


def test_an_encoder_attends_to_all_pairs(device):
    assert prefill(device, 4, 8192, causal=False) > 1.8 * prefill(device, 4, 8192)


def test_more_queries_over_the_same_keys_never_take_less(device):
    new = np.arange(1.0, 1501.0)
    for heads in (1, 32):
        seconds = prefill(device, 1, new, 1500.0 - new, heads=heads, kv_heads=heads, causal=False)
        assert np.all(np.diff(seconds) >= -1e-9 * seconds[1:])


def test_scores_that_are_kept_in_memory_are_moved_for_every_pair_and_head(device):
    fused, kept = (prefill(device, 2, 4096, 1000, score_bytes=size) for size in (0.0, 20.0))
    moved = 20.0 * 2 * 32 * attended_pairs(4096, 1000)
    assert kept - fused == pytest.approx(moved / device.memory_bytes_per_s)
    both = prefill(device, 1, 512, causal=False, score_bytes=20.0)
    assert both - prefill(device, 1, 512, causal=False) == pytest.approx(
        20.0 * 32 * 512**2 / device.memory_bytes_per_s
    )


def test_sparse_attention_reads_the_chosen_keys_or_all_there_are():
    assert list(sparse_context(np.array([100.0, 5000.0]), 2048)) == [100.0, 2048.0]


def test_nothing_to_do_costs_nothing(device):
    assert prefill(device, 0, 512) == 0.0
    assert prefill(device, 3, 0) == 0.0
    assert decode(device, 0, 512) == 0.0

"""Attention, products, experts and scans computed by hand, cause by cause, on a device of round
numbers: 100 units of 1 GHz and 1 TFLOP/s, 1 TB/s, with constants under which nothing overlaps.
"""

import numpy as np
import pytest

from genz_core.latency.decode_attention import decode_attention_time
from genz_core.latency.device import Device
from genz_core.latency.gemm import gemm_time
from genz_core.latency.moe import expected_tiles, moe_time
from genz_core.latency.parameters import (
    DecodeAttentionParameters,
    GemmParameters,
    MoeParameters,
    PrefillAttentionParameters,
    ScanParameters,
)
from genz_core.latency.prefill_attention import prefill_attention_time
from genz_core.latency.scan import scan_time

ROUND = Device({"bf16": 1e14}, 1e12, 100.0, 1e9, 40e6)
ON = {"peak_flops_per_s": 1e14, "device": ROUND}


def causes(kernel):
    """Times by cause [s]: the parallel stages, those after them, and the launch."""
    terms = kernel.terms()
    after = {name: time for name, time in terms.terms.items() if name not in terms.stages}
    after.pop("overlap", None)
    return {name: float(time.item()) for name, time in {**terms.stages, **after}.items()}


def close(found, expected):
    assert found == {name: pytest.approx(time, rel=1e-9) for name, time in expected.items()}


# ------------------------------------------------------------------------------- attention, prefill

PREFILL = {
    "launch_s": 1e-6, "efficiency_64": 0.2, "efficiency_128": 0.5, "efficiency_256": 0.25,
    "exp_efficiency": 1.0, "memory_efficiency": 0.5, "block_s": 1e-6, "longest_block": 0.05,
    "window_blocks": 1.0, "append_passes": 2.0, "overlap": 1.0,
}  # fmt: skip


def prefill(sequences, new, cached, changed=None, **shape):
    """Four query heads, two key heads of 128, values of 64, one byte per cached element."""
    shape = {"heads": 4, "kv_heads": 2, "head_dim": 128, "value_dim": 64, "kv_bytes": 1.0} | shape
    parameters = PrefillAttentionParameters(**(PREFILL | (changed or {})))
    kernel = prefill_attention_time(sequences, new, cached, **shape, **ON, parameters=parameters)
    found = causes(kernel)
    assert float(kernel.seconds()) == pytest.approx(sum(found.values()), rel=1e-9)
    return found


def test_prefill_by_hand():
    """Two blocks of 128 rows and one of the cache: 2 + 3 pairs of 128 × 128, on 2 × 4 heads."""
    pairs = 2 * 4 * 5 * 128 * 128
    queries, appended = 2 * 256 * 4 * 128 * 2, 2 * 256 * 2 * (128 + 64) * 2
    outputs, cache = 2 * 256 * 4 * 64 * 2, 2 * 128 * 2 * (128 + 64) * 1
    close(
        prefill(2, 256, 128),
        {
            "compute": pairs * 2 * (128 + 64) / 0.5e14 + pairs / (16 * 100 * 1e9) + 1e-6,
            "memory": (queries + appended + outputs + cache) / 0.5e12,
            "append": 2 * (queries + appended) / 1e12,
            "launch": 1e-6,
        },
    )


def test_a_prefill_of_many_heads_starts_blocks_in_turn():
    """Six sequences of 64 heads with two blocks each: 768 blocks on 100 units."""
    pairs = 6 * 64 * (2 * 3 // 2) * 128 * 128
    compute = pairs * 2 * (128 + 64) / 0.5e14 + pairs / 1.6e12 + 1e-6 * 768 / 100
    assert prefill(6, 256, 0, heads=64)["compute"] == pytest.approx(compute)


@pytest.mark.parametrize(
    ("new", "cached", "window", "reach", "share_of_rows"),
    [
        (256, 128, 0, 384, 1),
        (256, 1000, 100, 228, 1),
        (256, 0, 200, 256, 1),
        (20, 100, 0, 120, 1 / 4),
    ],
)
def test_the_longest_block_of_prefill_bounds_it(new, cached, window, reach, share_of_rows):
    """128 rows, or those that 20 tokens fill in steps of 16, over all their keys on one unit."""
    found = prefill(1, new, cached, {"longest_block": 3.0}, window=window)
    one_unit = 128 * 3 * reach * (2 * (128 + 64) / 0.5e12 + 1 / 16e9)
    assert found["compute"] == pytest.approx(one_unit * share_of_rows)


def test_a_window_of_prefill_costs_whole_blocks_and_one_beyond():
    """A window of 100 covers its own block and one more: two of two rows each."""
    pairs = 4 * (2 * 2) * 128 * 128
    found = prefill(1, 200, 300, window=100)
    assert found["compute"] == pytest.approx(pairs * 384 / 0.5e14 + pairs / 1.6e12 + 1e-6)
    moved = 200 * 4 * 128 * 2 + 200 * 2 * 192 * 2 + 200 * 4 * 64 * 2 + 100 * 2 * 192
    assert found["memory"] == pytest.approx(moved / 0.5e12)


def test_few_new_tokens_are_computed_in_blocks_of_16():
    """20 tokens fill two blocks, 100 cached ones seven: 2 × 7 + 3 pairs of 16 × 16."""
    pairs = 4 * 17 * 256
    compute = pairs * 384 / 0.5e14 + pairs / 1.6e12 + 1e-6
    assert prefill(1, 20, 100)["compute"] == pytest.approx(compute)


def test_an_encoder_computes_all_blocks():
    pairs = 4 * 2 * (2 + 1) * 128 * 128
    compute = pairs * 384 / 0.5e14 + pairs / 1.6e12 + 1e-6
    assert prefill(1, 200, 100, causal=False)["compute"] == pytest.approx(compute)


@pytest.mark.parametrize(("head_dim", "share"), [(64, 0.2), (128, 0.5), (256, 0.25), (512, 0.25)])
def test_the_share_of_the_peak_goes_with_the_head_size(head_dim, share):
    """Products get the share that is left beside exponentials, at eight times their rate, and a
    start.
    """
    found = prefill(2, 128, 0, {"exp_efficiency": 8.0}, head_dim=head_dim, value_dim=None)
    pairs = 2 * 4 * 128 * 128
    products = found["compute"] - 1e-6 - pairs / (8 * 1.6e12)
    assert products == pytest.approx(pairs * 4 * head_dim / (share * 1e14))


# -------------------------------------------------------------------------------- attention, decode

DECODE = {
    "launch_s": 1e-6, "memory_efficiency": 0.5, "compute_efficiency": 0.25, "ramp": 0.4,
    "block_s": 1e-6, "block_mha_s": 3e-6, "chunk_s": 1e-7, "mha_launch": 2.0, "mha_chunk": 5.0,
    "split_s": 40e-6, "overlap": 1.0, "append_passes": 8.0, "window_leak": 0.5,
    "cache_speedup": 4.0,
}  # fmt: skip


def decode(sequences, context, changed=None, **shape):
    """Eight query heads, two heads of keys and values of 128."""
    shape = {"heads": 8, "kv_heads": 2, "head_dim": 128} | shape
    parameters = DecodeAttentionParameters(**(DECODE | (changed or {})))
    kernel = decode_attention_time(sequences, context, **shape, **ON, parameters=parameters)
    found = causes(kernel)
    assert float(kernel.seconds()) == pytest.approx(sum(found.values()), rel=1e-9)
    return found


def test_decode_by_hand_where_splitting_does_not_pay():
    """Four streams of 1,000 keys on 100 units: a tenth of the bandwidth, 4 % of the peak."""
    cache, queries = 2 * 2 * 1000 * 256 * 2, 2 * 8 * 256 * 2
    flops = 2 * 2 * 16 * 2 * 256 * 1024  # rows in steps of 16, keys in steps of 64
    close(
        decode(2, 1000),
        {
            "memory": (cache / 0.1 + queries) / 0.5e12,
            "compute": flops / 0.25e14 / 0.04,
            "key_steps": 1e-7 * 16,
            "blocks": 1e-6,
            "split_keys": 0.0,
            "append": 8 * (2 * (8 + 2 * 2) * 128 * 2) / 1e12,
            "launch": 1e-6,
        },
    )


def test_decode_by_hand_split_over_all_of_its_keys():
    """Sixteen steps of keys, a block each: 64 blocks on 100 units, which fill the bandwidth."""
    cache, queries = 2 * 2 * 1000 * 256 * 2, 2 * 8 * 256 * 2
    found = decode(2, 1000, {"split_s": 1e-8})
    assert found["memory"] == pytest.approx((cache + queries) / 0.5e12)
    assert found["compute"] == pytest.approx(4 * 16 * 2 * 256 * 1024 / 0.25e14 / 0.64)
    assert found["key_steps"] == pytest.approx(1e-7)
    assert found["split_keys"] == pytest.approx(1e-8 * 4 + 2 * queries * 16 / 1e12)


def test_more_blocks_than_units_take_turns():
    found = decode(500, 1000)
    assert found["blocks"] == pytest.approx(1e-6 * 1000 / 100)
    assert found["compute"] == pytest.approx(1000 * 16 * 2 * 256 * 1024 / 0.25e14)


def test_decode_with_keys_of_its_own_for_each_head():
    """Twice the launch time, three times the block's, five times that of a step of 64 keys."""
    found = decode(200, 1000, kv_heads=8)
    assert found["launch"] == pytest.approx(2e-6)
    assert found["blocks"] == pytest.approx(3e-6 * 1600 / 100)
    assert found["key_steps"] == pytest.approx(5e-7 * 16)
    assert found["append"] == pytest.approx(8 * (200 * (8 + 16) * 128 * 2) / 1e12)


def test_a_window_of_decode_reads_its_keys_and_steps_over_the_others():
    """A window of 100 in 500 keys: two steps, and half of those for the 400 others."""
    found = decode(200, 500, window=100)
    assert found["key_steps"] == pytest.approx(1e-7 * (2 + 0.5 * 400 / 64))
    cache, queries = 400 * 100 * 256 * 2, 200 * 8 * 256 * 2
    assert found["memory"] == pytest.approx((cache + queries) / 0.5e12)
    assert found["compute"] == pytest.approx(400 * 16 * 2 * 256 * 128 / 0.25e14)


def test_a_shared_latent_cache_is_read_once_and_multiplied_twice():
    """Keys of 576 hold the values of 512; heads wider than 256 are not padded."""
    shape = {"heads": 16, "kv_heads": 1, "head_dim": 576, "value_dim": 512, "shared_kv": True}
    found = decode(200, 640, **shape)
    cache, queries = 200 * 640 * 576 * 2, 200 * 16 * (576 + 512) * 2
    assert found["memory"] == pytest.approx((cache + queries) / 0.5e12)
    assert found["compute"] == pytest.approx(200 * 16 * 2 * (576 + 512) * 640 / 0.25e14)


def test_heads_of_96_are_padded_to_128_and_drafts_fill_rows():
    """Five tokens of eight heads on two: 20 rows, padded to 32."""
    found = decode(200, 640, head_dim=96, new_tokens=5)
    assert found["compute"] == pytest.approx(400 * 32 * 2 * 192 * 640 * (128 / 96) / 0.25e14)
    queries = 200 * 8 * 5 * 2
    assert found["append"] == pytest.approx(8 * 200 * 5 * (8 + 4) * 96 * 2 / 1e12)
    assert found["memory"] == pytest.approx((400 * 640 * 192 * 2 + queries * 192) / 0.5e12)


def test_a_warm_cache_as_large_as_0_7_of_the_last_level_serves_half():
    """28 MB of 0.7 × 40 MB: half at the memory's rate, half at four times that bandwidth."""
    streams = 28e6 / (1024 * 512 + 4 * 512)  # 1,024 keys and four queries of 512 bytes
    found = decode(streams / 2, 1024, warm_cache=True)
    assert found["memory"] == pytest.approx(28e6 * (0.5 / 0.5e12 + 0.5 / 4e12), rel=0.01)


# -------------------------------------------------------------------------------- products, experts

GEMM = {
    "launch_s": 1e-6, "compute_efficiency": 0.5, "memory_efficiency": 0.4, "k_step_s": 1e-8,
    "store_share": 0.5, "split_s": 1e-4, "overlap": 1.0, "cache_share": 0.5, "quantize_passes": 3.0,
}  # fmt: skip


def product(m, n, k, changed=None, **options):
    options = {"weight_bytes": 1.0, "activation_bytes": 2.0} | options
    parameters = GemmParameters(**(GEMM | (changed or {})))
    kernel = gemm_time(m, n, k, **options, **ON, parameters=parameters)
    return causes(kernel), float(kernel.seconds())


def test_a_product_by_hand():
    """Tiles of 64 × 32: 2 × 10 of them fit on 100 units, so the wave is one tile."""
    found, seconds = product(100, 300, 4096)
    store = 2 / (0.5 * 64 * 1e9)
    compute = 64 * 32 * (2 * 4096 / 0.5e12 + store)
    memory = (300 * 4096 + 100 * 4096 * 2 + 100 * 300 * 2) / 0.4e12
    k_loop = 4096 * 1e-8 * 2 / 128
    stages = {"compute": compute, "memory": memory, "k_loop": k_loop}
    close(found, {**stages, "split_k": 0.0, "launch": 1e-6})
    assert seconds == pytest.approx(1e-6 + np.hypot(compute + memory, k_loop))


def test_a_product_of_many_tiles_spreads_them_over_the_units():
    """16 × 16 tiles of 256 × 256 in 2.56 waves; no smaller tiling has less work."""
    found, _ = product(4096, 4096, 4096)
    per_output = 2 * 4096 / 0.5e12 + 2 / (0.5 * 64 * 1e9)
    assert found["compute"] == pytest.approx(4096 * 4096 / 100 * per_output)


def test_a_product_split_along_k_pays_for_its_partial_sums():
    """K of 256 in two parts of at least 128: four would be too short, and one takes longer."""
    found, _ = product(64, 32, 256, {"split_s": 1e-8, "k_step_s": 3e-6})
    cache_bytes_per_s = 100 * 1e9 * 64
    assert found["k_loop"] == pytest.approx(128 * 3e-6 * 2 / 128)
    assert found["split_k"] == pytest.approx(8 * 2 * 64 * 32 / cache_bytes_per_s + 1e-8)
    assert found["compute"] == pytest.approx(64 * 32 * (2 * 128 / 0.5e12 + 2 / 32e9))


def test_kernels_for_few_rows_have_tiles_of_eight():
    """One row: a tile of 8 × 64 instead of 64 × 32."""
    per_output = 2 * 4096 / 0.5e12 + 2 / 32e9
    thin, _ = product(1, 64, 4096, least_rows=8)
    assert thin["compute"] == pytest.approx(8 * 64 * per_output)
    thick, _ = product(1, 64, 4096)
    assert thick["compute"] == pytest.approx(64 * 32 * per_output)


def test_activations_are_quantised_in_passes_of_two_bytes():
    found, _ = product(100, 300, 4096, quantized=True)
    assert found["quantize"] == pytest.approx(3 * 2 * 100 * 4096 / 1e12)


def test_a_warm_product_reads_from_the_cache_what_stays_there():
    """Five copies of 4 MB of weights take turns: 20 MB plus the activations, in 0.8 of 40 MB.

    The share that stays is r^4 / (1 + r^4) with r the cache's 32 MB over the set.
    """
    found, _ = product(500, 2000, 2000, warm_cache=True)
    weights, inputs, outputs = 4e6, 500 * 2000 * 2, 500 * 2000 * 2
    ratio = (0.8 * 40e6 / (5 * weights + inputs + outputs)) ** 4
    warm = ratio / (1 + ratio)
    speedup = 0.5 * 6.4e12 / 1e12
    moved = (weights + inputs + outputs) / 1e12
    assert found["memory"] == pytest.approx(moved * ((1 - warm) / 0.4 + warm / speedup))


def test_weights_larger_than_the_cache_are_one_copy():
    found, _ = product(500, 10_000, 10_000, warm_cache=True)
    moved = 1e8 + 2 * 500 * 10_000 * 2
    ratio = (0.8 * 40e6 / moved) ** 4
    warm = ratio / (1 + ratio)
    assert found["memory"] == pytest.approx(moved / 1e12 * ((1 - warm) / 0.4 + warm / 3.2))


def test_experts_by_hand():
    """200 rows on four of eight experts: tiles of 32 rows, two per expert, with ten columns each.

    80 tiles on 100 units are one wave; a tile of 32 rows takes 2 / 1.25 of a full one's time.
    """
    parameters = MoeParameters(
        launch_s=1e-6, compute_efficiency=0.5, memory_efficiency=0.5, permute_passes=3.0,
        token_passes=7.0, overlap=1.0, ramp=1.0, wave=0.8, k_step_s=1e-8, expert_s=1e-7,
    )  # fmt: skip
    shape = {"local_experts": 8, "hidden": 1000, "intermediate": 640}
    size = 3 * 1000 * 640
    kernel = moe_time(100, 200, 4, **shape, **ON, parameters=parameters)
    close(
        causes(kernel),
        {
            "compute": 8 * 32 * 2 * size / 0.5e14 / 0.8 * 2 / 1.25,
            "memory": 4 * size * 2 / 0.5e12 / (4 * 10 / 100),
            "k_loop": 1e-8 * (1000 + 640) / 64,
            "permute": (3 * 200 + 7 * 100) * 1000 * 2 / 1e12,
            "experts": 8 * 1e-7,
            "launch": 1e-6,
        },
    )


def test_waves_of_expert_tiles_round_up_in_part():
    """192 tiles of 256 rows on 100 units: 0.8 of two whole waves and 0.2 of 1.92."""
    parameters = MoeParameters(compute_efficiency=0.5, overlap=1.0, wave=0.8)
    shape = {"local_experts": 8, "hidden": 1000, "intermediate": 768}
    kernel = moe_time(2048, 4096, 8, **shape, **ON, parameters=parameters)
    waves = 16 * 12 / 100
    peak_s = 16 * 256 * 2 * 3 * 1000 * 768 / 0.5e14
    rounded = (0.8 * 2 + 0.2 * waves) / waves
    assert causes(kernel)["compute"] == pytest.approx(peak_s * rounded * (1 + 1 / 8) / 1.25)


def test_waves_of_random_routing_round_up_by_half_a_wave():
    """Sixteen rows for each of 64 experts in tiles of 16: the last wave is half full."""
    parameters = MoeParameters(compute_efficiency=0.5, overlap=1.0, wave=0.8)
    shape = {"local_experts": 64, "hidden": 1000, "intermediate": 768, "at_random": True}
    kernel = moe_time(1024, 1024, 64, **shape, **ON, parameters=parameters)
    size, best = 3 * 1000 * 768, np.inf
    for rows in (16, 32, 64, 128, 256):
        sizes = (np.array([size]) for size in (1024.0, 64.0, 64.0))
        tiles = float(expected_tiles(*sizes, np.array([[float(rows)]])).item())
        waves = tiles * 12 / 100
        rounded = 0.8 * max(waves + 0.5, 1.0) + 0.2 * max(waves, 1.0)
        peak_s = tiles * rows * 2 * size / 0.5e14
        best = min(best, peak_s * rounded / waves * (1 + 32 / rows) / 1.25)
    assert causes(kernel)["compute"] == pytest.approx(best)


# -------------------------------------------------------------------------------------------- scans


@pytest.mark.parametrize(
    ("new", "chunk", "chunks"),
    [(1, 0, 1), (2, 2, 1), (64, 64, 1), (65, 64, 2), (640, 64, 10)],
)
def test_a_scan_by_hand(new, chunk, chunks):
    """Three sequences of 50 heads of a 128 × 32 state: 1.5 waves on 100 units."""
    parameters = ScanParameters(
        launch_s=1e-6, compute_efficiency=0.5, memory_efficiency=0.25, chunk_s=1e-6, overlap=1.0
    )
    kernel = scan_time(3, new, 50, key_dim=128, value_dim=32, **ON, parameters=parameters)
    flops = 3 * new * 50 * (2 * chunk * (128 + 32) + 4 * 128 * 32)
    moved = 3 * new * 50 * 2 * (128 + 32) * 2 + 2 * 3 * 50 * 128 * 32 * 4
    close(
        causes(kernel),
        {
            "compute": flops / 0.5e14,
            "memory": moved / 0.25e12,
            "chunks": 1e-6 * chunks * 1.5,
            "launch": 1e-6,
        },
    )

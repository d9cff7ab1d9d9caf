"""The FLOPs, memory traffic and messages of each operator."""

from __future__ import annotations

import pkgutil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genz_core import operators as op

sizes = st.integers(1, 64)


def test_a_matrix_product_takes_two_flops_a_multiply_add_and_moves_each_operand_once():
    product = op.gemm("x", m=3, n=5, k=7)
    assert product.flops == 2 * 3 * 5 * 7
    assert (product.weight_bytes, product.input_bytes, product.output_bytes) == (70, 42, 30)
    assert product.memory_bytes == 70 + 42 + 30


def test_a_bias_adds_one_flop_an_output_and_its_own_weights():
    with_bias, without = (op.gemm("x", 3, 5, 7, bias=bias) for bias in (True, False))
    assert with_bias.flops - without.flops == 15
    assert with_bias.held_weight_bytes - without.held_weight_bytes == 10


def test_a_product_of_no_tokens_reads_no_weights_but_keeps_them():
    idle = op.gemm("x", 0, 5, 7)
    assert idle.memory_bytes == 0 and idle.held_weight_bytes == 70


def test_block_formats_move_their_scales_too():
    nvfp4 = op.gemm("x", 1, 64, 64, op.Types(weights="nvfp4"))
    assert nvfp4.weight_bytes == 64 * 64 * 4.5 / 8


def test_an_einsum_of_a_plain_product_is_that_product():
    einsum = op.einsum("x", "mk,kn->mn", {"m": 3, "k": 7, "n": 5})
    plain = op.gemm("x", 3, 5, 7)
    for figure in ("flops", "weight_bytes", "input_bytes", "output_bytes"):
        assert getattr(einsum, figure) == getattr(plain, figure)
    assert (einsum.dims["m"], einsum.dims["n"], einsum.dims["k"]) == (3, 5, 7)


def test_a_patch_embedding_is_a_convolution_without_overlap():
    """ViT-L/14 at 336 pixels: 24 x 24 patches of 14 x 14 x 3 to 1024 channels."""
    patches = op.convolution("patches", 24 * 24, 1024, 3, 14 * 14)
    assert patches.flops == 2 * 576 * 1024 * 588
    assert patches.held_weight_bytes == 1024 * 588 * 2


def test_a_causal_convolution_keeps_its_last_inputs_as_state():
    """Mamba's depthwise convolution: 4 taps, so three inputs of every channel stay."""
    conv = op.convolution("conv", 10, 16, 16, 4, groups=16, state_sequences=2)
    assert conv.held_kv_bytes == 2 * 16 * 3 * 2
    assert conv.flops == 2 * 10 * 16 * 4


@given(sizes, sizes, st.integers(0, 40))
def test_attended_pairs_are_the_sum_over_queries(new, cached, window):
    by_hand = sum(min(cached + i, window or 10**9) for i in range(1, new + 1))
    assert op.attended_pairs(new, cached, window) == by_hand


def test_attention_moves_its_queries_its_keys_and_values_and_its_output():
    """Two sequences of three new tokens on 100 cached ones: eight query heads of 16, two of keys
    and values.
    """
    step = op.attention("a", 2, 3, 100, op.Heads(8, 2, 16, 12))
    fresh = 2 * 3 * 2 * (16 + 12) * 2
    assert step.input_bytes == 2 * 3 * 8 * 16 * 2 + fresh
    assert step.output_bytes == 2 * 3 * 8 * 12 * 2
    assert step.kv_write_bytes == fresh and step.kv_read_bytes == 2 * 100 * 2 * (16 + 12) * 2
    assert step.flops == 2 * 2 * (3 * 100 + 6) * 8 * (16 + 12)


def test_cross_attention_takes_in_what_the_step_projects_and_reads_the_rest():
    """Two sequences of three tokens over 50 encoded ones, 20 of which are projected in
    this step.
    """
    step = op.cross_attention("a", 2, 3, 50, op.Heads(8, 2, 16, 12), projected=20)
    fresh = 2 * 20 * 2 * (16 + 12) * 2
    assert step.input_bytes == 2 * 3 * 8 * 16 * 2 + fresh and step.kv_write_bytes == fresh
    assert step.kv_read_bytes == 2 * 30 * 2 * (16 + 12) * 2
    assert step.flops == 2 * 2 * 3 * 50 * 8 * (16 + 12)


def test_grouped_queries_share_keys_but_not_flops():
    many, few = (op.attention("a", 2, 1, 100, op.Heads(32, kv, 128)) for kv in (32, 8))
    assert many.flops == few.flops == 2 * 2 * 101 * 32 * 256
    assert many.kv_read_bytes == 4 * few.kv_read_bytes


def test_decode_reads_the_cache_and_appends_one_token():
    """Llama-3.1-8B: 8 KV heads of 128, keys and values, 2 bytes: 4096 bytes per token and layer."""
    decode = op.attention("a", 1, 1, 1024, op.Heads(32, 8, 128))
    assert decode.kv_read_bytes == 1024 * 4096
    assert decode.kv_write_bytes == 4096
    assert decode.held_kv_bytes == 1025 * 4096


def test_a_window_bounds_what_is_read_and_what_is_kept():
    windowed = op.attention("a", 1, 1, 4096, op.Heads(8, 8, 64, window=128))
    assert windowed.held_kv_bytes == 128 * 2 * 8 * 64 * 2
    assert windowed.kv_read_bytes == 127 * 2 * 8 * 64 * 2
    assert windowed.dims["pairs"] == 128


def test_latent_attention_caches_one_vector_a_token():
    """DeepSeek-V3: 512 latent + 64 rotary elements, read once for keys and values."""
    latent = op.Heads(128, 1, 576, 512, shared_kv=True)
    decode = op.attention("a", 1, 1, 1000, latent, kind="mla_attention")
    assert decode.kv_read_bytes == 1000 * 576 * 2
    assert decode.flops == 2 * 1001 * 128 * (576 + 512)


def test_sparse_attention_reads_its_top_k_only():
    heads = op.Heads(64, 1, 576, 512, shared_kv=True)
    sparse = op.sparse_attention("a", 1, 1, 100_000, heads, 2048)
    assert sparse.kv_read_bytes == 2048 * 576 * 2
    assert sparse.held_kv_bytes == 100_001 * 576 * 2
    short = op.sparse_attention("a", 1, 1, 100, heads, 2048)
    dense = op.attention("a", 1, 1, 100, heads)
    assert (short.flops, short.kv_read_bytes) == (dense.flops, dense.kv_read_bytes)


def test_an_encoder_sees_all_pairs_and_keeps_nothing():
    encoder = op.attention("a", 1, 10, 0, op.Heads(1, 1, 4, causal=False), cached=False)
    assert encoder.dims["pairs"] == 100 and encoder.held_kv_bytes == 0


@given(sizes, st.sampled_from([0, 1, 3, 9, 65, 301]))
def test_mutual_pairs_are_the_sum_over_tokens(tokens, window):
    """A window of w tokens has (w - 1) / 2 on either side of the token in its middle."""
    side = (window - 1) / 2 if window else tokens
    by_hand = sum(abs(i - j) <= side for i in range(tokens) for j in range(tokens))
    assert op.mutual_pairs(tokens, window) == by_hand


def test_a_product_for_each_head_is_so_many_products():
    """Four heads of 3 x 5 x 7: four times the work, with tiles of a single product."""
    heads, single = op.batched_gemm("x", 4, 3, 5, 7), op.gemm("x", 3, 5, 7)
    assert heads.flops == 4 * 2 * 3 * 5 * 7
    assert (heads.input_bytes, heads.output_bytes) == (4 * 3 * 7 * 2, 4 * 3 * 5 * 2)
    assert heads.weight_bytes == heads.held_weight_bytes == 4 * 5 * 7 * 2 == 4 * single.weight_bytes
    assert (heads.dims["m"], heads.dims["n"], heads.dims["k"]) == (3, 20, 7)


@pytest.mark.parametrize(("bias", "cost", "vectors"), [(False, 4, 1), (True, 7, 2)])
def test_a_norm_by_hand(bias, cost, vectors):
    norm = op.norm("n", 3, 8, bias=bias)
    assert (norm.flops, norm.weight_bytes) == (cost * 3 * 8, vectors * 8 * 2)
    assert (norm.input_bytes, norm.output_bytes) == (3 * 8 * 2, 3 * 8 * 2)


def test_sampling_by_hand():
    """Logits in four bytes, a token of four bytes each; a softmax of five FLOPs per element."""
    chosen = op.sampling("s", 3, 1000)
    assert (chosen.flops, chosen.input_bytes, chosen.output_bytes) == (15_000, 12_000, 12)


def test_the_rows_of_a_rank_by_hand():
    """Ten tokens, two of eight experts each, half of them on this rank: ten rows of three
    matrices.
    """
    bank = op.Experts(total=8, local=4, top_k=2, hidden=16, intermediate=32)
    routed = op.moe("m", 10, bank)
    assert routed.flops == 10 * 2 * 3 * 16 * 32
    assert routed.held_weight_bytes == 4 * 3 * 16 * 32 * 2
    assert routed.weight_bytes == pytest.approx(8 * (1 - 0.75**10) / 2 * 3 * 16 * 32 * 2)
    assert routed.input_bytes == routed.output_bytes == 10 * 16 * 2


def test_one_token_reads_exactly_top_k_experts():
    assert op.activated_experts(8, 2, 1) == 2
    assert op.activated_experts(256, 8, 1) == pytest.approx(8)
    assert op.activated_experts(8, 2, 0) == 0


@given(st.integers(2, 256), st.integers(1, 8), st.integers(1, 4096))
def test_experts_read_grow_with_tokens_and_never_pass_all(experts, top_k, tokens):
    top_k = min(top_k, experts)
    read = op.activated_experts(experts, top_k, tokens)
    assert min(top_k, experts) - 1e-9 <= read <= experts + 1e-9
    assert op.activated_experts(experts, top_k, tokens + 1) >= read - 1e-9


def test_mixtral_reads_more_expert_bytes_at_a_larger_batch():
    """8 experts of 3 x 4096 x 14336 at 2 bytes: 2 of them for one token, all 8 for 64."""
    bank = op.Experts(total=8, local=8, top_k=2, hidden=4096, intermediate=14336)
    one_expert = 3 * 4096 * 14336 * 2
    assert op.moe("experts", 1, bank).weight_bytes == 2 * one_expert
    assert op.moe("experts", 64, bank).weight_bytes == pytest.approx(8 * one_expert, rel=1e-6)


def test_expert_parallel_ranks_share_flops_and_weights():
    whole = op.moe("experts", 64, op.Experts(8, 8, 2, 512, 1024))
    part = op.moe("experts", 64, op.Experts(8, 2, 2, 512, 1024))
    assert part.flops == whole.flops / 4
    assert part.weight_bytes == pytest.approx(whole.weight_bytes / 4)
    assert part.held_weight_bytes == whole.held_weight_bytes / 4


@given(st.integers(0, 512), st.sampled_from([1, 2, 8]), st.floats(1.0, 20.0))
def test_the_busiest_rank_works_as_an_even_one_on_more_tokens(tokens, ranks, imbalance):
    def even(count):
        return op.moe("experts", count, op.Experts(64, 64 / ranks, 4, 512, 256))

    busy, most = op.on_the_busiest_rank(even(tokens), imbalance), min(imbalance, ranks)
    for figure in ("flops", "weight_bytes"):
        wanted = getattr(even(tokens * most), figure)
        assert getattr(busy, figure) == pytest.approx(wanted, rel=1e-9, abs=1e-9)
    assert busy.input_bytes == pytest.approx(min(busy.dims["rows"], tokens) * 512 * 2)
    assert busy.dims["rows"] <= tokens * 4 * (1 + 1e-12)
    assert busy.held_weight_bytes == even(tokens).held_weight_bytes


@given(st.sampled_from([2.0, 8.0]), st.floats(1.0, 20.0))
def test_the_busiest_rank_takes_in_its_share_of_the_messages_and_all_at_most(ranks, imbalance):
    even = op.all_to_all("dispatch", 1e6, ranks)
    busy = op.to_the_busiest_rank(even, imbalance)
    assert busy.message_bytes == pytest.approx(1e6 * min(imbalance, ranks))


def test_a_scan_keeps_a_state_that_does_not_grow_with_the_context():
    short, long = (op.ssm_scan("s", 2, n, 5120, 16) for n in (1, 4096))
    assert short.held_kv_bytes == long.held_kv_bytes == 2 * 5120 * 16 * 4
    assert long.flops == 4096 * short.flops


def test_a_selective_scan_by_hand():
    """Three tokens, four channels, five states: 6 FLOPs per state and 2 per channel; reads x, z, B,
    C.
    """
    scan = op.ssm_scan("s", 1, 3, 4, 5)
    assert scan.flops == 3 * 4 * (6 * 5 + 2)
    assert scan.input_bytes == 3 * (2 * 4 + 2 * 5) * 2
    assert scan.output_bytes == 3 * 4 * 2
    assert scan.kv_read_bytes == scan.kv_write_bytes == 4 * 5 * 4


def test_linear_attention_keeps_a_matrix_a_head():
    gated = op.linear_attention("g", 1, 1, 32, 128, 128)
    assert gated.held_kv_bytes == 32 * 128 * 128 * 4


def test_a_gated_delta_rule_by_hand():
    """Two sequences of three tokens, four heads of key 5 and value 7: q, k and v in, one out."""
    gated = op.linear_attention("g", 2, 3, 4, 5, 7)
    assert gated.flops == 2 * 3 * 4 * 7 * 5 * 7
    assert gated.input_bytes == 2 * 3 * 4 * (2 * 5 + 7) * 2
    assert gated.output_bytes == 2 * 3 * 4 * 7 * 2
    assert gated.kv_read_bytes == gated.kv_write_bytes == 2 * 4 * 5 * 7 * 4


@pytest.mark.parametrize(
    "recurrence",
    [
        lambda **more: op.linear_attention("g", 2, 4, 4, 5, 7, **more),
        lambda **more: op.ssm_scan("s", 2, 4, 64, 5, **more),
    ],
)
def test_a_state_is_written_after_each_token_that_may_be_rejected(recurrence):
    plain, verified = recurrence(), recurrence(drafted=3)
    assert verified.kv_read_bytes == plain.kv_read_bytes
    assert verified.kv_write_bytes == 4 * plain.kv_write_bytes


def test_a_look_up_reads_its_rows_and_holds_the_table():
    table = op.embedding("e", 3, 100, 8)
    assert (table.flops, table.weight_bytes, table.output_bytes) == (0, 3 * 8 * 2, 3 * 8 * 2)
    assert table.held_weight_bytes == 100 * 8 * 2


def test_a_residual_norm_with_a_bias_has_two_vectors_of_weights():
    plain, biased = (op.residual_norm("n", 3, 8, bias=bias) for bias in (False, True))
    assert (plain.weight_bytes, biased.weight_bytes) == (8 * 2, 2 * 8 * 2)
    assert (plain.flops, biased.flops) == (3 * 8 * 5, 3 * 8 * 8)


@pytest.mark.parametrize(
    "collective", [op.all_reduce, op.all_gather, op.reduce_scatter, op.all_to_all, op.send_recv]
)
def test_a_collective_over_one_device_sends_nothing(collective):
    assert collective("c", 1e6, 1).message_bytes == 0
    assert collective("c", 1e6, 2).message_bytes == 1e6


@pytest.mark.parametrize(
    ("choices", "places", "groups", "chosen", "reached"),
    [
        (1, 8, 0, 0, 1.0),
        (2, 8, 0, 0, 8 * (1 - (7 / 8) ** 2)),
        (8, 16, 4, 2, 8 * (1 - (7 / 8) ** 8)),  # two of four groups hold eight of sixteen places
        (8, 16, 1, 1, 16 * (1 - (15 / 16) ** 8)),  # one group is not a restriction
        (8, 2, 4, 1, 1.0),  # two groups for each place: one group is one place
        (8, 2, 4, 3, 2 * (1 - (1 / 2) ** 8)),
        (8, 1, 0, 0, 1.0),
    ],
)
def test_places_that_a_token_reaches(choices, places, groups, chosen, reached):
    assert op.places_reached(choices, places, groups, chosen) == pytest.approx(reached)


def test_an_exchange_of_routed_tokens_merges_nothing_on_one_device():
    routing = op.Routing(merged_bytes=5.0, choices=8.0, groups=4.0, chosen=2.0)
    exchange = op.all_to_all("c", 1e6, np.array([1.0, 2.0]), routing)
    named = [list(np.broadcast_to(exchange.dims[name], 2)) for name in op.ROUTED]
    assert named == [[0.0, 5.0], [8.0, 8.0], [4.0, 4.0], [2.0, 2.0]]


def test_arrays_give_what_scalars_give():
    m = np.array([1.0, 7.0, 512.0])
    together = op.gemm("x", m, 5, 7)
    apart = [op.gemm("x", value, 5, 7) for value in m]
    assert list(together.flops) == [single.flops for single in apart]
    assert list(together.memory_bytes) == [single.memory_bytes for single in apart]


def test_no_file_of_the_package_hides_an_operator_behind_its_name():
    files = {module.name for module in pkgutil.iter_modules(op.__path__)}
    assert len(files) > 5 and not files & set(op.__all__)

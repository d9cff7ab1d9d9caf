"""Latency of an operator under an engine: its launches, rates, algorithms and experts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genz_core import operators as op
from genz_core.common.registry import KINDS
from genz_core.engine import EngineProfile
from genz_core.graphs import Graph
from genz_core.latency import LatencyProfile, Pricer
from genz_core.latency.conditions import Conditions
from genz_core.latency.parameters import CLASSES, CollectiveParameters
from genz_core.latency.roofline import roofline
from genz_core.steps.step import price
from genz_core.types import Parallelism, Step
from tests.genz_core.operator_cases import OF_SEQUENCES, SYSTEM

PLAIN = EngineProfile(host_step_s=0.0, host_sequence_s=0.0)
HEADS = op.Heads(32, 8, 128)
LATENT = op.Heads(16, 1, 576, 512, shared_kv=True)
BANK = op.Experts(64, 64, 4, 2048, 1024)

#: One operator of every kind for a number of tokens; in a prompt, these tokens are in `b`
#: sequences.
OF_TOKENS = {
    "gemm": lambda n: op.gemm("x", n, 4096, 4096),
    "einsum": lambda n: op.einsum("x", "mk,kn->mn", {"m": n, "k": 4096, "n": 512}),
    "convolution": lambda n: op.convolution("x", n, 4096, 4096, 4, groups=4096),
    "attention": lambda n, b=1: op.attention("x", b, n, 100, HEADS),
    "mla_attention": lambda n, b=1: op.attention("x", b, n, 100, LATENT, kind="mla_attention"),
    "sparse_attention": lambda n, b=1: op.sparse_attention("x", b, n, 100, LATENT, 64),
    "cross_attention": lambda n, b=1: op.cross_attention("x", b, n, 1500, HEADS),
    "moe": lambda n: op.moe("x", n, BANK),
    "ssm": lambda n, b=1: op.ssm_scan("x", b, n, 4096, 128),
    "linear_attention": lambda n, b=1: op.linear_attention("x", b, n, 32, 128, 128),
    "norm": lambda n: op.norm("x", n, 4096),
    "rope": lambda n: op.rope("x", n, 32, 8, 128),
    "activation": lambda n: op.gated_activation("x", n, 14336),
    "residual": lambda n: op.residual("x", n, 4096),
    "routing": lambda n: op.route("x", n, 64),
    "copy": lambda n: op.copy("x", n * 4096, n * 4096),
    "embedding": lambda n: op.embedding("x", n, 128256, 4096),
    "sampling": lambda n: op.sampling("x", n, 128256),
    "all_reduce": lambda n: op.all_reduce("x", n * 8192, 8),
    "all_gather": lambda n: op.all_gather("x", n * 8192, 8),
    "reduce_scatter": lambda n: op.reduce_scatter("x", n * 8192, 8),
    "all_to_all": lambda n: op.all_to_all("x", n * 8192, 8),
    "send_recv": lambda n: op.send_recv("x", n * 8192, 4),
}
kinds = pytest.mark.parametrize("kind", OF_TOKENS)
tokens = st.integers(2, 20_000)


def expected_s(operator, engine=PLAIN, system=SYSTEM):
    return Pricer(system, engine).expected_s(operator)


def test_every_kind_of_operator_is_here():
    apart = sorted(set(OF_TOKENS) ^ set(KINDS))
    assert not apart, f"OF_TOKENS of this file and the registered kinds differ in {apart}"
    assert all(make(2.0).kind == kind for kind, make in OF_TOKENS.items())


@kinds
@given(count=tokens, more=tokens)
def test_more_tokens_never_take_less_time(kind, count, more):
    few, many = expected_s(OF_TOKENS[kind](np.array([count, count + more], float)))
    assert many >= few * (1 - 1e-9)


@pytest.mark.parametrize("size", [1, 7, 200])
def test_operators_take_together_what_each_takes_alone(size: int):
    counts = np.random.default_rng(size).integers(0, 5000, size).astype(float)
    ops = [make(counts * share) for make in OF_TOKENS.values() for share in (1.0, 3.0)]
    ops += [op.all_reduce("idle", counts, 1), op.norm("number", 7.0, 4096)]
    pricer = Pricer(SYSTEM, replace(PLAIN, launch_s=3e-6))
    least = [roofline(operator, SYSTEM) for operator in ops]
    together = pricer.expected_of(ops, least)
    for operator, time in zip(ops, together, strict=True):
        assert np.array_equal(time, pricer.expected_s(operator)), operator.name


@kinds
def test_nothing_to_do_takes_no_time(kind):
    counts = np.array([0.0, 5.0])
    idle = OF_TOKENS[kind](*((64.0, counts) if kind in OF_SEQUENCES else (counts,)))
    assert expected_s(idle, replace(PLAIN, launch_s=1e-3))[0] == 0.0
    assert np.broadcast_to(roofline(idle, SYSTEM).bound_s, (2,))[0] == 0.0


@kinds
def test_a_host_slower_than_the_device_is_what_one_waits_for(kind):
    operator = OF_TOKENS[kind](np.array([2.0]))
    assert expected_s(operator, replace(PLAIN, launch_s=1.0)) == pytest.approx(1.0)
    assert expected_s(operator, replace(PLAIN, launch_s=1e-9)) == expected_s(operator)


@kinds
def test_kernels_of_half_the_rates_are_never_faster_and_at_most_twice_as_slow(kind):
    operator = OF_TOKENS[kind](np.array([2.0, 700.0, 9000.0]))
    slow = expected_s(operator, replace(PLAIN, compute_efficiency=0.5, memory_efficiency=0.5))
    fast = expected_s(operator)
    assert np.all(slow >= fast * (1 - 1e-12)) and np.all(slow <= 2 * fast * (1 + 1e-9))


@given(st.integers(1, 64), st.sampled_from([128, 1024, 4096]))
def test_weights_are_cold_even_where_the_cache_would_hold_them(rows, width):
    product = op.gemm("x", rows, width, width)
    assert product.weight_bytes < SYSTEM.l2_bytes
    assert expected_s(product) > product.weight_bytes / SYSTEM.memory_bytes_per_s


def test_prompts_and_decodes_in_one_array_are_priced_as_each_alone():
    new, cached = np.array([1.0, 512.0, 1.0]), np.array([4096.0, 0.0, 17.0])
    together = expected_s(op.attention("x", 4, new, cached, HEADS))
    alone = [
        float(expected_s(op.attention("x", 4, n, c, HEADS)))
        for n, c in zip(new, cached, strict=True)
    ]
    assert together == pytest.approx(alone, rel=1e-12)


def test_only_products_with_weights_run_in_the_arithmetic_of_an_engine_s_products():
    eight_bits = replace(PLAIN, products="int8")
    slower = replace(eight_bits, compute_efficiency=0.3)
    for kind in ("gemm", "moe"):
        product = OF_TOKENS[kind](8000.0)
        assert expected_s(product, eight_bits) < expected_s(product)
        assert expected_s(product, slower) > 1.5 * expected_s(product, eight_bits)
    for kind in ("attention", "ssm", "linear_attention"):
        other = OF_TOKENS[kind](8000.0)
        assert expected_s(other, eight_bits) == expected_s(other, slower) == expected_s(other)


def test_decode_over_a_latent_cache_beats_the_same_heads_with_keys_of_their_own():
    separate = op.Heads(16, 16, 192, 128)
    latent, expanded = (expected_s(op.attention("x", 64, 1, 8192, h)) for h in (LATENT, separate))
    assert latent < 0.5 * expanded


def test_sparse_attention_stops_growing_with_the_context():
    near, far = expected_s(op.sparse_attention("x", 8, 1, np.array([4e3, 4e5]), LATENT, 2048))
    assert far == pytest.approx(near, rel=1e-9)


def test_quantising_the_activations_costs_a_second_kernel():
    eight = op.gemm("x", 1, 64, 64, op.Types(weights="fp8"))
    stored = op.gemm("x", 1, 64, 64, op.Types(weights="fp8", activations="fp8"))
    cost = expected_s(eight) - expected_s(stored)
    assert cost == pytest.approx(PLAIN.kernel_floor_s, rel=0.2)


@pytest.mark.parametrize(
    ("change", "ratio"),
    [
        ({"vendor": "NVIDIA", "clock_hz": 3e9}, 0.5),
        ({"vendor": "NVIDIA", "clock_hz": 1e9}, 1.5),
        ({"vendor": "NVIDIA", "clock_hz": None}, 1.0),
        ({"vendor": "NVIDIA", "clock_hz": 3e9, "kind": "cpu"}, 1.0),
        ({"vendor": "AMD", "clock_hz": 3e9}, 1.0),
    ],
)
def test_the_floor_of_a_kernel_takes_as_many_cycles_on_every_nvidia_gpu(change, ratio):
    engine = EngineProfile(kernel_floor_s=4e-6, moe_floor_s=9e-6, floor_clock_hz=1.5e9)
    system = replace(SYSTEM, **change)
    conditions = Conditions(system, engine)
    assert conditions.kernel_floor_s == pytest.approx(ratio * 4e-6, rel=1e-12)
    assert conditions.moe_floor_s == pytest.approx(ratio * 9e-6, rel=1e-12)
    host = Conditions(system, replace(engine, floor_clock_hz=0.0))
    assert (host.kernel_floor_s, host.moe_floor_s) == (4e-6, 9e-6)


def test_thin_products_waste_fewer_rows_where_an_engine_has_kernels_for_them():
    """On a compute-bound device, so that rows count: a tile of 8 rows instead of 64."""
    wide = replace(SYSTEM, memory_bytes_per_s=300e12)
    thin, thick = (
        expected_s(op.gemm("x", 8, 16384, 4096), replace(PLAIN, thin_products=special), wide)
        for special in (True, False)
    )
    assert thin < 0.7 * thick


def test_each_all_reduce_algorithm_has_constants_of_its_own():
    sets = {name: {"default": kind(), "bf16": kind()} for name, kind in CLASSES.items()}
    algorithms = {"nccl": 20e-6, "custom": 5e-6, "in_network": 9e-6}
    sets["collective"] = {
        f"{name}.all_reduce": CollectiveParameters(base_s=base) for name, base in algorithms.items()
    }
    fitted = replace(SYSTEM, latency=LatencyProfile("x", "measured", sets))
    for name, base in algorithms.items():
        engine = replace(PLAIN, all_reduce=name)
        assert expected_s(op.all_reduce("x", 2.0, 2), engine, fitted) == pytest.approx(base, 0.01)
        gather = expected_s(op.all_gather("x", 2.0, 2), engine, fitted)
        assert gather == pytest.approx(algorithms["nccl"], 0.01)


@pytest.mark.parametrize("count", [4, 64, 16384])
def test_everyone_waits_for_the_busiest_rank_of_the_experts(count):
    """Eight ranks of eight experts: at worst one gets all rows, like a single device with its
    share.
    """
    rank = op.moe("x", count, replace(BANK, local=8))
    step = Step.prefill(1, count)

    def time(imbalance):
        split = Parallelism(ep=8, expert_imbalance=imbalance)
        return float(price(Graph((rank,), 1), step, SYSTEM, split, PLAIN).total_s[0])

    even, double, worst, beyond = (time(imbalance) for imbalance in (1.0, 2.0, 8.0, 100.0))
    assert even < double < worst == beyond
    together = price(
        Graph((rank,), 1),
        step,
        SYSTEM,
        Parallelism(ep=8, expert_imbalance=np.array([1.0, 2.0, 8.0])),
        PLAIN,
    )
    assert together.total_s == pytest.approx([even, double, worst], rel=1e-12)
    assert np.all(together.total_s >= together.bound_total_s)

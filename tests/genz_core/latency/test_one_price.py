"""One operator, one price: whoever asks, in parts that sum to it, by a model found by its kind."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genz_core import operators
from genz_core.engine import EngineProfile
from genz_core.errors import InvalidValue
from genz_core.latency import Pricer
from genz_core.latency.measured_operators import OperatorPoints, price_s, roofline_s, types_of
from genz_core.latency.models import PHASES, latency_model, prices
from genz_core.latency.parameters import CLASSES
from genz_core.latency.roofline import roofline
from genz_core.registry import KINDS, operator_kind
from genz_core.types import Link, System

SYSTEM = System(
    slug="round",
    name="Round Numbers",
    vendor="nobody",
    kind="gpu",
    family="round",
    peak_flops_per_s={"bf16": 1000e12, "fp8": 2000e12, "int8": 2000e12, "fp4": 4000e12},
    memory_bytes=80e9,
    memory_bytes_per_s=3e12,
    l2_bytes=50e6,
    compute_units=128,
    clock_hz=1.8e9,
    links=(Link("inner", 450e9, 1e-6, 8), Link("outer", 50e9, 5e-6, 0)),
)
ENGINES = {
    "plain": EngineProfile(),
    "slow host": EngineProfile(launch_s=30e-6),
    "own kernels": EngineProfile(
        compute_efficiency=0.8, memory_efficiency=0.9, four_bit_efficiency=0.7,
        expert_efficiency=0.6, attention_efficiency=0.9, thin_products=True, all_reduce="tree",
    ),
}  # fmt: skip
PRODUCT_FORMATS = (
    "bf16", "fp8", "fp8_block", "nvfp4", "int8", "int8_weight_only", "int4_weight_only", "mxfp4",
    "mxfp4_mxfp8",
)  # fmt: skip
ATTENTION_FORMATS = ("bf16/bf16", "bf16/fp8", "fp8/fp8")
OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
FORMATS = {
    "gemm": PRODUCT_FORMATS,
    "moe": PRODUCT_FORMATS,
    "prefill_attention": ATTENTION_FORMATS,
    "decode_attention": ATTENTION_FORMATS,
    "mla_prefill": ATTENTION_FORMATS,
    "mla_decode": ATTENTION_FORMATS,
    "scan": ("prefill", "decode"),
    "pointwise": ("default",),
    "collective": ("custom.all_reduce", *(f"nccl.{operation}" for operation in OPERATIONS)),
}
SHAPES = {
    "gemm": {"m": 37.0, "n": 4096.0, "k": 2048.0},
    "prefill_attention": {
        "sequences": 3.0, "new_tokens": 700.0, "cached_tokens": 100.0, "heads": 32.0,
        "kv_heads": 8.0, "head_dim": 128.0,
    },
    "decode_attention": {
        "sequences": 9.0, "new_tokens": 1.0, "cached_tokens": 3000.0, "heads": 32.0,
        "kv_heads": 8.0, "head_dim": 128.0, "window": 1024.0,
    },
    "mla_prefill": {
        "sequences": 2.0, "new_tokens": 900.0, "cached_tokens": 0.0, "heads": 16.0,
        "kv_heads": 16.0, "head_dim": 192.0, "value_dim": 128.0,
    },
    "mla_decode": {
        "sequences": 8.0, "new_tokens": 1.0, "cached_tokens": 4000.0, "heads": 16.0,
        "kv_heads": 1.0, "head_dim": 576.0, "value_dim": 512.0,
    },
    "moe": {
        "tokens": 200.0, "experts": 16.0, "experts_total": 64.0, "top_k": 6.0, "hidden": 2048.0,
        "intermediate": 768.0, "routing": 0.0,
    },
    "scan": {
        "sequences": 4.0, "new_tokens": 500.0, "heads": 32.0, "key_dim": 128.0, "value_dim": 128.0,
    },
    "pointwise": {"bytes": 3e7},
    "collective": {"bytes": 3e7, "group": 4.0},
}  # fmt: skip
ALL = [(operator, fmt) for operator, formats in FORMATS.items() for fmt in formats]
every_format = pytest.mark.parametrize(("operator", "fmt"), ALL, ids=str)


def points(operator: str, fmt: str, **changes) -> OperatorPoints:
    shape = SHAPES[operator] | ({"new_tokens": 1.0} if fmt == "decode" else {}) | changes
    size = np.broadcast(*shape.values()).shape
    return OperatorPoints(operator, fmt, shape, np.ones(size))


# ------------------------------------------------------------------------------- one registry


def test_every_class_and_every_format_of_a_profile_is_here():
    assert set(FORMATS) == set(CLASSES) == set(SHAPES)


def test_every_kind_has_a_class_and_a_model_of_its_latency_in_both_phases():
    for kind in KINDS:
        assert KINDS[kind].operator_class
        for phase in PHASES:
            assert latency_model(kind, phase).formula.__doc__


def test_a_second_registration_of_a_kind_is_refused():
    with pytest.raises(InvalidValue, match="operator kind 'gemm' is registered twice"):
        operator_kind("gemm", "gemm")(lambda: None)
    model = latency_model("norm", "decode")
    with pytest.raises(InvalidValue, match="latency model 'norm in prefill' is registered twice"):
        prices("norm", formula=model.formula, key=model.key)(model.arguments)


def test_an_unknown_kind_is_refused_with_the_known_ones():
    with pytest.raises(InvalidValue, match=r"unknown operator kind 'gemmm'; known: .*gemm"):
        KINDS["gemmm"]


# ------------------------------------------------------------------------------- two doors


@every_format
def test_a_measured_point_is_priced_with_the_constants_it_is_named_after(operator, fmt):
    entry = points(operator, fmt)
    constants = entry.pricer(SYSTEM).constants(entry.op())
    assert (constants.operator, constants.fmt) == (operator, fmt)


@every_format
def test_a_measured_point_and_the_operator_of_a_graph_have_one_price(operator, fmt):
    entry = points(operator, fmt)
    pricer = entry.pricer(SYSTEM)
    constants = pricer.constants(entry.op()).parameters
    alone = Pricer(pricer.system, pricer.engine, alone=True)
    assert price_s(entry, SYSTEM, constants) == pytest.approx(alone.expected_s(entry.op()))
    assert roofline_s(entry, SYSTEM) == pytest.approx(roofline(entry.op(), pricer.system).bound_s)


@pytest.mark.parametrize("fmt", PRODUCT_FORMATS)
def test_a_product_of_a_graph_and_its_point_read_the_same_bytes(fmt):
    """Whoever builds it: weights in their format, activations as they travel between operators."""
    op = operators.gemm("q_proj", 37.0, 4096.0, 2048.0, types_of(fmt))
    measured = points("gemm", fmt).op()
    for name in ("flops", "weight_bytes", "input_bytes", "output_bytes"):
        assert getattr(op, name) == getattr(measured, name)


def test_experts_without_a_gate_are_points_too_and_cost_less():
    gated, plain = (points("moe", "bf16", gated=gate) for gate in (1.0, 0.0))
    parameters = CLASSES["moe"]()
    assert plain.op().flops == pytest.approx(2 / 3 * gated.op().flops)
    assert price_s(plain, SYSTEM, parameters) < price_s(gated, SYSTEM, parameters)


def test_an_mxfp4_expert_is_bounded_and_priced_in_one_arithmetic():
    """Hardware that multiplies 4-bit blocks runs them on 8-bit inputs, unless told otherwise."""
    bank = operators.Experts(64, 64, 4, 2048, 1024)
    free, forced = (
        operators.moe("x", 4096.0, bank, operators.Types("mxfp4", compute=compute))
        for compute in ("", "bf16")
    )
    pricer = Pricer(SYSTEM, EngineProfile())
    for op, arithmetic in ((free, "fp8"), (forced, "bf16")):
        price = pricer.explain(op)
        assert price.arithmetic == arithmetic
        peak = SYSTEM.peak_flops_per_s[arithmetic]
        assert price.peak_flops_per_s == peak
        assert price.bound.compute_s == pytest.approx(op.flops / peak)


# ------------------------------------------------------------------------------- parts


@every_format
@pytest.mark.parametrize("engine", ENGINES)
def test_the_terms_of_a_price_sum_to_it(operator, fmt, engine):
    pricer = Pricer(SYSTEM, ENGINES[engine])
    op = points(operator, fmt).op()
    price = pricer.explain(op)
    assert price.seconds == pytest.approx(pricer.expected_s(op), rel=1e-12)
    assert sum(price.terms.values()) == pytest.approx(price.seconds, rel=1e-9)
    assert all(np.all(term >= -1e-12 * price.seconds) for term in price.terms.values())


@every_format
@given(scale=st.floats(0.01, 30.0))
def test_the_terms_sum_at_every_size_and_alone_as_in_an_engine(operator, fmt, scale):
    first = next(iter(SHAPES[operator]))
    size = max(round(SHAPES[operator][first] * scale), 1)
    entry = points(operator, fmt, **{first: np.array([float(size), 1.0])})
    pricer = entry.pricer(SYSTEM)
    price = pricer.explain(entry.op())
    assert sum(price.terms.values()) == pytest.approx(pricer.expected_s(entry.op()), rel=1e-9)


def test_nothing_to_do_has_terms_of_zero():
    price = Pricer(SYSTEM, EngineProfile()).explain(operators.gemm("x", 0.0, 64.0, 64.0))
    assert all(np.all(term == 0) for term in price.terms.values())


def test_a_quantised_product_says_what_quantising_costs():
    pricer = Pricer(SYSTEM, EngineProfile())
    terms = pricer.explain(operators.gemm("x", 512.0, 4096.0, 4096.0, types_of("int8"))).terms
    assert terms["quantize"] > 0
    plain = pricer.explain(operators.gemm("x", 512.0, 4096.0, 4096.0)).terms
    assert "quantize" not in plain


def test_a_price_raised_to_its_bound_says_so():
    """Constants that promise more than physics do not undercut it."""
    eager = replace(SYSTEM, memory_bytes_per_s=SYSTEM.memory_bytes_per_s)
    op = operators.attention("x", 1.0, 1.0, 1.0, operators.Heads(1, 1, 64))
    price = Pricer(eager, EngineProfile(memory_efficiency=1e6)).explain(op)
    assert price.seconds >= price.bound.bound_s

"""A measured point and an operator of a graph have one price, one bound, and parts that add up to
it.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from genz_core import operators
from genz_core.engine import EngineProfile
from genz_core.latency import Pricer
from genz_core.latency.measured_operators import OperatorPoints, price_s, roofline_s, types_of
from genz_core.latency.parameters import CLASSES
from genz_core.latency.roofline import roofline
from tests.draws import cases
from tests.genz_core.latency.test_price_laws import ENGINES
from tests.genz_core.operator_cases import SYSTEM

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


def test_every_class_and_every_format_of_a_profile_is_here():
    assert set(FORMATS) == set(CLASSES) == set(SHAPES) == set(OF_A_GRAPH)


# ------------------------------------------------------------------------------- two ways to ask


@every_format
def test_a_measured_point_is_priced_with_the_constants_it_is_named_after(operator, fmt):
    entry = points(operator, fmt)
    constants = entry.pricer(SYSTEM).constants(entry.op())
    assert (constants.operator, constants.fmt) == (operator, fmt)


def attention(d, fmt: str, shared_kv: bool = False):
    """Attention as builders make it, with a value size if the heads have one."""
    compute, _, cache = fmt.partition("/")
    shape = operators.Heads(
        d["heads"], d["kv_heads"], d["head_dim"], d.get("value_dim", d["head_dim"]),
        d.get("window", 0.0), shared_kv=shared_kv,
    )  # fmt: skip
    types = operators.Types(kv=cache, compute=compute)
    lengths = (d["sequences"], d["new_tokens"], d["cached_tokens"])
    return operators.attention("graph", *lengths, shape, types)


def latent_decode(d, fmt: str):
    return attention(d, fmt, shared_kv=True)


def experts(d, fmt: str):
    bank = operators.Experts(
        d["experts_total"], d["experts"], d["top_k"], d["hidden"], d["intermediate"]
    )
    return operators.moe("graph", d["tokens"], bank, types_of(fmt))


def scan(d, _fmt: str):
    lengths = (d["sequences"], d["new_tokens"], d["heads"])
    return operators.linear_attention("graph", *lengths, d["key_dim"], d["value_dim"])


#: {class: (dimensions, format) -> the operator as the graph of a model has it}.
OF_A_GRAPH = {
    "gemm": lambda d, fmt: operators.gemm("graph", d["m"], d["n"], d["k"], types_of(fmt)),
    "prefill_attention": attention,
    "decode_attention": attention,
    "mla_prefill": attention,
    "mla_decode": latent_decode,
    "moe": experts,
    "scan": scan,
    "pointwise": lambda d, fmt: operators.copy("graph", d["bytes"] / 2, d["bytes"] / 2),
    "collective": lambda d, fmt: getattr(operators, fmt.partition(".")[2])(
        "graph", d["bytes"], d["group"]
    ),
}


@pytest.mark.by_day(12)
@every_format
@settings(max_examples=cases(20))
@given(data=st.data())
def test_a_measured_point_and_the_operator_of_a_graph_have_one_price_and_one_bound(
    operator, fmt, data
):
    scales = data.draw(st.lists(st.floats(0.02, 30.0), min_size=3, max_size=3))
    first = next(iter(SHAPES[operator]))
    sizes = np.maximum(np.round(SHAPES[operator][first] * np.array(scales)), 1.0)
    drawn = {"routing": 3.0} if operator == "moe" else {}  # at random, like real routers
    entry = points(operator, fmt, **{first: sizes}, **drawn)
    pricer = entry.pricer(SYSTEM)
    constants = pricer.constants(entry.op()).parameters
    measured = price_s(entry, SYSTEM, constants)
    for at, size in enumerate(sizes):
        dims = {name: float(values[at]) for name, values in entry.arrays().items()}
        assert dims[first] == size
        op = OF_A_GRAPH[operator](dims, fmt)
        assert measured[at] == pytest.approx(float(pricer.expected_s(op)), rel=1e-12)
        bound = float(roofline(op, pricer.system).bound_s)
        assert roofline_s(entry, SYSTEM)[at] == pytest.approx(bound, rel=1e-12)


@pytest.mark.parametrize("fmt", PRODUCT_FORMATS)
def test_a_product_of_a_graph_and_its_point_read_the_same_bytes(fmt):
    """Whoever builds it: weights in their format, activations in the one between operators."""
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
    """Hardware that multiplies 4-bit blocks runs them with 8-bit inputs by default."""
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


@pytest.mark.by_day(38)
@every_format
@pytest.mark.parametrize("engine", ENGINES)
def test_the_terms_of_a_price_sum_to_it(operator, fmt, engine):
    pricer = Pricer(SYSTEM, ENGINES[engine])
    op = points(operator, fmt).op()
    price = pricer.explain(op)
    assert price.seconds == pytest.approx(pricer.expected_s(op), rel=1e-12)
    assert sum(price.terms.values()) == pytest.approx(price.seconds, rel=1e-9)
    assert all(np.all(term >= -1e-12 * price.seconds) for term in price.terms.values())


def test_an_operator_without_work_has_terms_of_zero():
    price = Pricer(SYSTEM, EngineProfile()).explain(operators.gemm("x", 0.0, 64.0, 64.0))
    assert all(np.all(term == 0) for term in price.terms.values())


def test_a_quantised_product_says_what_quantising_costs():
    pricer = Pricer(SYSTEM, EngineProfile())
    terms = pricer.explain(operators.gemm("x", 512.0, 4096.0, 4096.0, types_of("int8"))).terms
    assert terms["quantize"] > 0
    plain = pricer.explain(operators.gemm("x", 512.0, 4096.0, 4096.0)).terms
    assert "quantize" not in plain


def test_a_price_below_its_bound_is_raised_to_it_by_a_term():
    """Even an engine's kernels that promise more bandwidth than the datasheet stay above
    the bound.
    """
    hasty = EngineProfile(memory_efficiency=100.0, kernel_floor_s=0.0)
    op = operators.gemm("x", 1.0, 16384.0, 16384.0)
    price = Pricer(SYSTEM, hasty).explain(op)
    assert price.seconds == pytest.approx(float(price.bound.bound_s))
    assert price.terms["to_the_bound"] > 0.2 * price.seconds
    honest = Pricer(SYSTEM, EngineProfile()).explain(op)
    assert honest.seconds > honest.bound.bound_s and honest.terms["to_the_bound"] == 0

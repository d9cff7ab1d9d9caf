"""The shipped boosted residuals: laws of their times, and their effect on errors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hardware_db
from genz_core import operators
from genz_core.engine import EngineProfile
from genz_core.latency import Pricer
from genz_core.latency.measured_operators import OperatorPoints, price_s
from genz_core.latency.roofline import roofline
from genz_core.operators import Heads, Types
from hardware_db.profiles import measured_profiles
from hardware_db.profiles.trees import FOLDER, MeasuredTrees
from hardware_db.profiles.validation import summary, validation_rows
from tests.draws import cases

SYSTEMS = ("a100", "h100", "b200", "l40s", "mi300x", "mi355x", "h20-96gb")
size = st.integers(1, 40000)
count = st.integers(1, 600)


def alone(name, warm_cache=False):
    return Pricer(hardware_db.load(name), EngineProfile("bench"), alone=True, warm_cache=warm_cache)


@pytest.mark.by_day(4)
@pytest.mark.parametrize("name", SYSTEMS)
@pytest.mark.parametrize("warm", [False, True])
@settings(max_examples=cases(60), deadline=None)
@given(m=size, n=size, k=size, factor=st.floats(1.0, 5.0), grown=st.sampled_from("mnk"))
def test_a_larger_product_never_takes_less_time(name, warm, m, n, k, factor, grown):
    small = {"m": float(m), "n": float(n), "k": float(k)}
    large = small | {grown: float(np.ceil(small[grown] * factor))}
    both = {axis: np.array([small[axis], large[axis]]) for axis in "mnk"}
    fmt = "fp8_block" if name == "mi300x" else "fp8" if name == "h20-96gb" else "bf16"
    op = operators.gemm("x", both["m"], both["n"], both["k"], Types(fmt))
    assert_no_less(alone(name, warm), op)


def assert_no_less(pricer, op):
    """The second shape takes at least as long as the first, unless the constants already
    disagree.
    """
    low, high = without_trees(pricer).expected_s(op)
    if high >= low:
        low, high = pricer.expected_s(op)
        assert high >= low * (1 - 1e-9)


def without_trees(pricer):
    system = replace(pricer.system, latency=replace(pricer.profile, residual=None))
    return replace(pricer, system=system)


@pytest.mark.by_day(4)
@pytest.mark.parametrize("name", ["a100", "h100", "b200", "l40s"])
@pytest.mark.parametrize("decode", [False, True])
@settings(max_examples=cases(60), deadline=None)
@given(
    sequences=count, new=size, cached=size, factor=st.floats(1.0, 5.0),
    grown=st.sampled_from(["sequences", "new", "cached"]), heads=st.sampled_from([(8, 8), (32, 4)]),
)  # fmt: skip
def test_more_sequences_or_tokens_never_take_less_time_in_attention(
    name, decode, sequences, new, cached, factor, grown, heads
):
    small = {"sequences": sequences, "new": 1 if decode else new + 1, "cached": cached}
    if decode and grown == "new":
        return
    large = small | {grown: float(np.ceil(small[grown] * factor))}
    lengths = [np.array([small[axis], large[axis]], float) for axis in small]
    op = operators.attention("x", *lengths, Heads(float(heads[0]), float(heads[1]), 128.0), Types())
    assert_no_less(alone(name, warm_cache=True), op)


@pytest.mark.by_day(4)
@pytest.mark.parametrize("name", SYSTEMS)
@settings(max_examples=cases(60), deadline=None)
@given(m=size, n=size, k=size)
def test_no_kernel_is_faster_than_its_bound(name, m, n, k):
    op = operators.gemm("x", float(m), float(n), float(k), Types("fp8_block"))
    pricer = alone(name)
    constants = without_trees(pricer).expected_s(op)
    bound = roofline(op, pricer.system).bound_s
    assert pricer.expected_s(op) >= np.minimum(constants, bound)


def test_a_kernel_taken_apart_has_what_the_trees_add_as_a_term():
    op = operators.gemm("x", 48.0, 6144.0, 4096.0, Types())
    pricer = alone("h100", warm_cache=True)
    explained = pricer.explain(op)
    assert explained.terms["measured_kernels"] != 0
    assert float(explained.seconds[0]) == pytest.approx(float(pricer.expected_s(op)), rel=1e-12)
    assert sum(explained.terms.values()) == pytest.approx(explained.seconds, rel=1e-9)


def test_kernels_in_an_engines_graph_have_no_residual():
    op = operators.gemm("x", 48.0, 6144.0, 4096.0, Types())
    system = hardware_db.load("h100")
    without = replace(system, latency=replace(system.latency, residual=None))
    engine = EngineProfile("bench")
    assert Pricer(system, engine).expected_s(op) == Pricer(without, engine).expected_s(op)


def test_one_shape_is_priced_as_among_many():
    many = OperatorPoints("gemm", "bf16", {"m": 2.0 ** np.arange(14), "n": 8192.0, "k": 4096.0},
                          np.ones(14))  # fmt: skip
    one = OperatorPoints("gemm", "bf16", {"m": 64.0, "n": 8192.0, "k": 4096.0}, np.ones(1))
    system = hardware_db.load("h100")
    assert price_s(one, system)[0] == pytest.approx(price_s(many, system)[6], rel=1e-12)


def test_far_beyond_what_was_measured_a_time_grows_as_its_equation():
    system = hardware_db.load("h100")
    points = OperatorPoints("gemm", "bf16", {"m": np.array([1e6, 4e6]), "n": 65536.0, "k": 65536.0},
                            np.ones(2))  # fmt: skip
    near, far = price_s(points, system)
    constants = price_s(points, system, system.latency.constants("gemm", "bf16"))
    assert far / near == pytest.approx(constants[1] / constants[0], rel=0.02)


def test_every_file_of_trees_is_of_a_device_and_of_constants_that_ship():
    own = {profile.name: profile for profile in measured_profiles()}
    files = sorted(FOLDER.glob("*.npz"))
    assert len(files) > 10
    for path in files:
        trees = MeasuredTrees(path.stem)
        known = [key for key in own[path.stem].parameters if trees(*key)]
        assert known
        assert path.stat().st_size < 300_000


@pytest.mark.parametrize(
    ("operator", "most"),
    [("gemm", 0.065), ("prefill_attention", 0.07), ("decode_attention", 0.07), ("moe", 0.117),
     ("mla_prefill", 0.04), ("mla_decode", 0.07), ("collective", 0.05)],
)  # fmt: skip
def test_trees_and_tables_halve_what_constants_miss_of_held_out_shapes_or_nearly(operator, most):
    errors = summary(pd.DataFrame(validation_rows())).set_index(["operator", "split"])["mape"]
    assert errors[operator, "held-out, alone"] <= most
    assert errors[operator, "held-out, alone"] < errors[operator, "held-out shapes"]

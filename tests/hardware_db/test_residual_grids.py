"""Tables of measured kernels: laws between and beyond their sizes, and how they are packed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hardware_db
from genz_core import operators
from genz_core.engine import EngineProfile
from genz_core.latency import Pricer
from genz_core.latency.measured_operators import OperatorPoints, price_s
from genz_core.latency.residual import Shapes
from genz_core.latency.residual_grid import Grid
from genz_core.latency.roofline import roofline
from hardware_db.fit.residual_grids import never_falling
from hardware_db.profiles.trees import packed, unpacked
from tests.draws import cases
from tests.rules import for_every


def table(seconds=((1e-5, 2e-5), (3e-5, 8e-5))):
    """Two sizes of m and two of n, with a single k."""
    axes = {"m": np.array([1.0, 64.0]), "n": np.array([128.0, 512.0]), "k": np.array([256.0])}
    return Grid(axes, {}, np.log(np.array(seconds))[:, :, None])


def asked(grid, predicted=2e-5, **sizes):
    dims = {"m": 1.0, "n": 128.0, "k": 256.0} | sizes
    return float(grid.corrected_s(np.array([predicted]), Shapes("gemm", dims, 100.0))[0])


def test_a_size_of_the_table_has_the_time_of_its_cell():
    assert asked(table()) == pytest.approx(1e-5)
    assert asked(table(), predicted=6e-5, m=64.0, n=512.0) == pytest.approx(8e-5)


def test_half_way_between_two_sizes_a_time_is_the_mean_of_the_logarithms():
    """1 + m = sqrt(2 x 65), so ln(1 + m) is half way between the two: sqrt(1 x 3) = 1.732."""
    assert asked(table(), m=np.sqrt(130.0) - 1.0) == pytest.approx(np.sqrt(3.0) * 1e-5)


def test_above_the_table_the_equation_counts_where_it_says_more():
    assert asked(table(), predicted=9e-5, m=128.0) == 9e-5
    assert asked(table(), predicted=1e-5, m=128.0) == pytest.approx(3e-5)


def test_below_the_table_a_time_is_that_of_its_least_size():
    assert asked(table(), n=16.0) == pytest.approx(1e-5)


def test_a_table_is_at_most_four_times_off_its_equation():
    assert asked(table(), predicted=1e-6) == pytest.approx(4e-6)
    assert asked(table(), predicted=1e-3) == pytest.approx(2.5e-4)


def test_a_kernel_of_other_constants_than_the_table_keeps_its_equation():
    grid = replace(table(), same={"head_dim": 192.0})
    assert asked(grid, head_dim=128.0) == 2e-5
    assert asked(grid, head_dim=192.0) == pytest.approx(1e-5)


def test_a_packed_table_comes_back_to_a_tenth_of_a_percent():
    grid = replace(table(), same={"head_dim": 192.0})
    again = unpacked(packed(grid))
    assert again.same == grid.same
    assert {name: list(axis) for name, axis in again.axes.items()} == {
        "m": [1.0, 64.0], "n": [128.0, 512.0], "k": [256.0],
    }  # fmt: skip
    assert again.ln_s == pytest.approx(grid.ln_s, abs=0.0011)


def test_of_two_that_fall_the_heavier_stays_nearer():
    """The nearest non-decreasing fit is one number: their weighted mean, (3 x 2 + 1 x 0) / 4."""
    found = never_falling(np.array([[2.0], [0.0]]), np.array([[3.0], [1.0]]))
    assert found.ravel() == pytest.approx([1.5, 1.5])


@settings(max_examples=cases(50), deadline=None)
@given(st.lists(st.floats(-3, 3), min_size=24, max_size=24))
def test_the_nearest_table_falls_along_no_axis_and_leaves_alone_what_does_not_fall(values):
    cube = np.array(values).reshape(2, 3, 4)
    found = never_falling(cube, np.ones(cube.shape))
    for axis in range(3):
        assert np.all(np.diff(found, axis=axis) >= -1e-12)
    assert never_falling(found, np.ones(cube.shape)) == pytest.approx(found, abs=1e-9)


@pytest.mark.by_day(5)
@pytest.mark.parametrize("name", ["a100", "h100", "b200", "l40s"])
@pytest.mark.parametrize("kind", ["all_reduce", "all_gather", "all_to_all", "reduce_scatter"])
@settings(max_examples=cases(30), deadline=None)
@given(size=st.integers(1, 2**31), factor=st.floats(1.0, 50.0), group=st.integers(2, 8))
def test_a_larger_message_never_takes_less_time(name, kind, size, factor, group):
    sizes = {"bytes": np.array([float(size), float(np.ceil(size * factor))]), "group": float(group)}
    points = OperatorPoints("collective", f"nccl.{kind}", sizes, np.ones(2), warm_cache=True)
    low, high = price_s(points, hardware_db.load(name))
    assert high >= low * (1 - 1e-9)


@for_every(["a100", "h100", "b200", "l40s"])
def test_no_collective_is_faster_than_its_links(name):
    pricer = Pricer(hardware_db.load(name), EngineProfile("bench"), alone=True, warm_cache=True)
    for kind in ("all_reduce", "all_gather", "all_to_all", "reduce_scatter"):
        op = operators.collective("x", kind, 2.0 ** np.arange(8, 32), 8.0)
        assert np.all(pricer.expected_s(op) >= roofline(op, pricer.system).bound_s)


@pytest.mark.by_day(5)
@pytest.mark.parametrize("name", ["a100", "h100", "b200", "l40s", "rtx-pro-6000-server"])
@pytest.mark.parametrize("grown", ["sequences", "cached_tokens", "heads"])
@settings(max_examples=cases(30), deadline=None)
@given(
    sequences=st.integers(1, 2000), cached=st.integers(1, 200000), heads=st.integers(1, 200),
    factor=st.floats(1.0, 6.0),
)  # fmt: skip
def test_more_of_anything_never_takes_less_time_in_latent_attention(
    name, grown, sequences, cached, heads, factor
):
    sizes = {"sequences": sequences, "cached_tokens": cached, "heads": heads}
    larger = sizes | {grown: int(np.ceil(sizes[grown] * factor))}
    dims = {axis: np.array([sizes[axis], larger[axis]], float) for axis in sizes}
    dims |= {"new_tokens": 1.0, "kv_heads": 1.0, "head_dim": 576.0, "value_dim": 512.0}
    points = OperatorPoints("mla_decode", "bf16/bf16", dims, np.ones(2), warm_cache=True)
    system = hardware_db.load(name)
    low, high = price_s(points, system, system.latency.constants("mla_decode", "bf16/bf16"))
    if high >= low:
        low, high = price_s(points, system)
        assert high >= low * (1 - 1e-9)

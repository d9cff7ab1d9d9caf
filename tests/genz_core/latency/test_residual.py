"""Boosted residuals by hand: one tree of two leaves, and its features."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from genz_core.latency.residual import Residual, Shapes, features, has_features

GEMM = Shapes("gemm", {"m": 8.0, "n": 300.0, "k": 500.0}, units=4.0)


def tree(feature, threshold, below, above, backbone=1.0):
    """One split: e^below if the feature is at most the threshold, e^above beyond it."""
    return Residual(
        feature=np.array([[feature, 0, 0]]),
        threshold=np.array([[threshold, 0.0, 0.0]]),
        left=np.array([[1, 1, 2]]),
        right=np.array([[2, 1, 2]]),
        value=np.array([[0.0, below, above]]),
        backbone=backbone,
        low_s=1e-6,
        high_s=1e-3,
        depth=1,
    )


def test_a_leaf_multiplies_the_time_of_the_equation():
    """Feature 0 is the equation's own time: up to 10 µs the factor is 2, beyond it 3."""
    halves = tree(0, np.log(10e-6), np.log(2.0), np.log(3.0))
    times = np.array([5e-6, 10e-6, 20e-6])
    assert halves.corrected_s(times, GEMM) == pytest.approx([10e-6, 20e-6, 60e-6])


def test_features_follow_the_equations_time():
    """Feature 1 is ln m: 8 rows are not above 8."""
    by_rows = tree(1, np.log(8.0), np.log(2.0), np.log(3.0))
    assert by_rows.corrected_s(1e-5, GEMM) == pytest.approx(2e-5)
    nine = replace_sizes(GEMM, m=9.0)
    assert by_rows.corrected_s(1e-5, nine) == pytest.approx(3e-5)


def replace_sizes(shapes, **sizes):
    return shapes._replace(dims={**shapes.dims, **sizes})


def test_trees_and_steps_down_a_tree_add_up():
    first = tree(0, 0.0, np.log(1.5), 0.0)
    twice = replace(
        first,
        **{
            name: np.repeat(getattr(first, name), 2, axis=0)
            for name in ("feature", "threshold", "left", "right", "value")
        },
        depth=3,
    )
    assert twice.corrected_s(1e-5, GEMM) == pytest.approx(1e-5 * 1.5 * 1.5)


def test_the_backbone_is_a_power_of_the_time_within_its_range_and_a_factor_beyond():
    """An exponent of one half: at 0.1 ms the factor is (1e-4)^-0.5 = 100, limited to four; leaves
    undo most.
    """
    power = tree(0, 0.0, np.log(1e-2), 0.0, backbone=0.5)
    within = power.corrected_s(1e-4, GEMM)
    assert within == pytest.approx(1e-4 * 1e-2 * (1e-4) ** -0.5)
    assert power.corrected_s(5e-3, GEMM) == pytest.approx(5e-3 * 1e-2 * (1e-3) ** -0.5)


def test_a_kernel_is_at_most_four_times_faster_or_slower_than_its_equation():
    up, down = tree(0, 0.0, 9.0, 0.0), tree(0, 0.0, -9.0, 0.0)
    assert up.corrected_s(1e-5, GEMM) == pytest.approx(4e-5)
    assert down.corrected_s(1e-5, GEMM) == pytest.approx(0.25e-5)
    assert up.corrected_s(0.0, GEMM) == 0.0


def test_many_shapes_are_corrected_as_each_alone():
    times = np.geomspace(1e-6, 1e-3, 9000).reshape(3, 3000)
    halves = tree(0, np.log(3e-5), np.log(2.0), np.log(3.0))
    expected = np.where(times <= 3e-5, 2.0, 3.0) * times
    assert np.allclose(halves.corrected_s(times, GEMM), expected)


def growing(shapes):
    return [float(np.exp(f.values)) for f in features(shapes) if f.grows]


def fixed(shapes):
    return [float(f.values) for f in features(shapes) if not f.grows]


def test_features_of_a_product():
    """8 × 300 × 500 on four units: 1 × 5 tiles of 64 × 64 take two waves, tiles of 64 × 256 one."""
    intensity = 1 / (1 / 8 + 1 / 300 + 1 / 500)
    sizes = [8, 300, 500, 8 * 300, 300 * 500, 8 * 500, 8 * 300 * 500, intensity]
    assert growing(GEMM) == pytest.approx([*sizes, 2, 1, 1, 1, 1])
    assert fixed(GEMM) == []


def test_features_of_attention():
    """Three sequences of 200 new and 1,000 cached tokens, 16 heads on 4 of 128, on 10 units."""
    dims = {
        "sequences": 3.0, "new_tokens": 200.0, "cached_tokens": 1000.0, "heads": 16.0,
        "kv_heads": 4.0, "head_dim": 128.0,
    }  # fmt: skip
    shapes = Shapes("attention", dims, units=10.0)
    tail = [48 * 200, 48 * 200 * 1200, 2, 10]
    assert growing(shapes) == pytest.approx([3, 200, 1200, 16, 48, 12, 12 * 1200, 1200, *tail])
    assert fixed(shapes) == [128, 4, 0]
    windowed = replace_sizes(shapes, window=100.0)
    tail = [48 * 200, 48 * 200 * 100, 2, 10]
    assert growing(windowed) == pytest.approx([3, 200, 1200, 16, 48, 12, 12 * 100, 100, *tail])
    assert fixed(windowed) == [128, 4, 1]


def test_features_of_experts_and_of_a_recurrence():
    dims = {
        "tokens": 10.0, "rows": 20.0, "active_experts": 7.0, "hidden": 30.0, "intermediate": 40.0,
        "experts": 16.0, "experts_total": 64.0, "top_k": 2.0,
    }  # fmt: skip
    experts = Shapes("moe", dims, units=10.0)
    assert growing(experts) == pytest.approx([10, 20, 30, 40, 1200, 8400, 24000, 20 / 16])
    assert fixed(experts) == [16, 64, 2]
    scan = Shapes("linear_attention", {"sequences": 3.0, "new_tokens": 5.0, "heads": 7.0}, 10.0)
    assert growing(scan) == pytest.approx([3, 5, 7, 105, 21, 15])
    assert has_features("moe") and not has_features("norm")

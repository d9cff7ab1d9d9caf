"""Workloads: what their figures mean, what is refused, what gets a reason code."""

from __future__ import annotations

import numpy as np
import pytest

import genz_core
from genz_core.errors import InvalidParallelism, InvalidValue
from genz_core.types import Parallelism, Workload


def test_figures_follow_from_prefill_and_the_mean_decode_step(model, system):
    result = genz_core.estimate(model, system, Workload(8, 1000, 101))
    assert result.e2e_s == pytest.approx(result.ttft_s + 100 * result.tpot_s)
    assert result.output_tokens_per_s == pytest.approx(8 * 101 / result.e2e_s)
    assert result.status.tolist() == ["ok"] and result.message() == ""


def test_a_prefix_in_the_cache_saves_its_prefill(model, system):
    whole = genz_core.estimate(model, system, Workload(8, 4000, 10))
    known = genz_core.estimate(model, system, Workload(8, 4000, 10, cached=3000))
    assert known.ttft_s < 0.6 * whole.ttft_s
    assert known.tpot_s == pytest.approx(whole.tpot_s)


@pytest.mark.parametrize("field", ["batch", "isl", "osl"])
@pytest.mark.parametrize("value", [0, -3, 1.5, float("nan"), float("inf")])
def test_a_size_below_one_is_refused_by_name(model, system, field, value):
    with pytest.raises(InvalidValue, match=rf"{field} = {value}"):
        genz_core.estimate(model, system, Workload(**{field: value}))


@pytest.mark.parametrize("field", ["batch", "isl", "osl"])
def test_a_size_beyond_any_float_is_refused_by_name(model, system, field):
    with pytest.raises(InvalidValue, match=f"{field} is beyond any number"):
        genz_core.estimate(model, system, Workload(**{field: 10**400}))


def test_what_may_be_nothing_is_not_less_than_nothing(model, system):
    with pytest.raises(InvalidValue, match="cached = -5"):
        genz_core.estimate(model, system, Workload(cached=-5))
    with pytest.raises(InvalidValue, match="micro_batches = -1"):
        genz_core.estimate(model, system, Workload(), Parallelism(pp=2, micro_batches=-1))
    with pytest.raises(InvalidValue, match=r"moe_tp = 0\.5"):
        genz_core.estimate(model, system, Workload(), Parallelism(moe_tp=0.5))
    with pytest.raises(InvalidValue, match=r"expert_imbalance = 0\.5: the busiest"):
        genz_core.estimate(model, system, Workload(), Parallelism(expert_imbalance=0.5))


def test_degrees_that_do_not_divide_are_refused_with_the_nearest_that_do(model, system):
    with pytest.raises(InvalidParallelism, match="near: 2, 4"):
        genz_core.estimate(model, system, Workload(), Parallelism(tp=3))


def test_in_an_array_a_bad_configuration_is_a_code_in_its_row(model, system):
    result = genz_core.estimate(
        model,
        system,
        Workload(np.array([1, 0, 4, 200_000]), 1000, 100),
        Parallelism(tp=np.array([1, 1, 3, 1])),
    )
    codes = ["ok", "invalid_value", "invalid_parallelism", "out_of_memory"]
    assert result.status.tolist() == codes
    assert "batch = 0" in result.message(1) and "tp=3" in result.message(2)
    assert "KV cache" in result.message(3)
    assert np.isnan(result.ttft_s[1]) and np.isnan(result.ttft_s[2])
    assert np.isfinite(result.ttft_s[[0, 3]]).all()


def test_a_bad_neighbour_changes_nothing(model, system):
    pair = genz_core.estimate(model, system, Workload(np.array([4, -1]), 100, 10))
    alone = genz_core.estimate(model, system, Workload(4, 100, 10))
    assert pair.ttft_s[0] == pytest.approx(alone.ttft_s[0], rel=1e-12)
    assert pair.tpot_s[0] == pytest.approx(alone.tpot_s[0], rel=1e-12)


def test_an_output_of_one_token_is_only_a_prefill(model, system):
    result = genz_core.estimate(model, system, Workload(1, 100, 1))
    assert result.e2e_s == pytest.approx(result.ttft_s)

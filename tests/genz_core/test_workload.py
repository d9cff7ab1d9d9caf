"""Workloads: what their figures mean, what is refused, what gets a reason code."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import genz_core
from genz_core.errors import InvalidParallelism, InvalidValue, OutOfMemory
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


def test_with_status_a_configuration_that_cannot_run_is_a_code_in_its_row(model, system):
    result = genz_core.estimate(
        model,
        system,
        Workload(np.array([1, 4, 200_000]), 1000, 100),
        Parallelism(tp=np.array([1, 3, 1])),
        on_error="status",
    )
    assert result.status.tolist() == ["ok", "invalid_parallelism", "out_of_memory"]
    assert "tp=3" in result.message(1) and "KV cache" in result.message(2)
    assert np.isnan(result.ttft_s[1]) and np.isfinite(result.ttft_s[[0, 2]]).all()


@pytest.mark.parametrize("length", [1, 2, 5])
@pytest.mark.parametrize(
    ("workload", "split", "error", "code"),
    [
        (Workload(4, 1000, 100), Parallelism(tp=3), InvalidParallelism, "invalid_parallelism"),
        (Workload(200_000, 1000, 100), Parallelism(), OutOfMemory, "out_of_memory"),
    ],
    ids=["degrees", "memory"],
)
def test_what_cannot_run_raises_or_is_a_code_whatever_the_length(
    model, system, length, workload, split, error, code
):
    many = replace(workload, batch=np.full(length, workload.batch))
    with pytest.raises(error) as raised:
        genz_core.estimate(model, system, many, split)
    result = genz_core.estimate(model, system, many, split, on_error="status")
    assert result.status.tolist() == [code] * length
    assert str(raised.value).endswith(result.message(0))
    assert str(raised.value).startswith("configuration 0: ") == (length > 1)


def test_an_error_says_which_of_several_configurations_it_means(model, system):
    with pytest.raises(InvalidParallelism, match="configuration 2: tp=3"):
        genz_core.estimate(model, system, Workload(), Parallelism(tp=np.array([1, 2, 3])))


@pytest.mark.parametrize("on_error", ["raise", "status"])
def test_a_size_that_is_none_is_refused_wherever_it_stands(model, system, on_error):
    load = Workload(np.array([4, 0, -1]), 1000, 100)
    with pytest.raises(InvalidValue, match="batch = 0"):
        genz_core.estimate(model, system, load, on_error=on_error)


def test_times_of_what_does_not_fit_are_those_it_would_take(model, system):
    tight = replace(system, memory_bytes=1e6)
    there, short = (
        genz_core.estimate(model, s, Workload(4, 100, 10), on_error="status")
        for s in (system, tight)
    )
    assert short.status[0] == "out_of_memory" and there.status[0] == "ok"
    assert short.ttft_s == there.ttft_s and short.tpot_s == there.tpot_s
    with pytest.raises(OutOfMemory, match="use a larger device"):
        short.raise_for_status()
    short.raise_for_status(ignore=["out_of_memory"])


def test_a_bad_neighbour_changes_nothing(model, system):
    split = Parallelism(tp=np.array([1, 3]))
    pair = genz_core.estimate(model, system, Workload(4, 100, 10), split, on_error="status")
    alone = genz_core.estimate(model, system, Workload(4, 100, 10))
    assert pair.ttft_s[0] == pytest.approx(alone.ttft_s[0], rel=1e-12)
    assert pair.tpot_s[0] == pytest.approx(alone.tpot_s[0], rel=1e-12)


def test_an_output_of_one_token_is_only_a_prefill(model, system):
    result = genz_core.estimate(model, system, Workload(1, 100, 1))
    assert result.e2e_s == pytest.approx(result.ttft_s)

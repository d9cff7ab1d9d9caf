"""Workloads: the meaning of their figures, refusals, and reason codes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import genz_core
from genz_core.errors import InvalidParallelism, InvalidValue, OutOfMemory
from genz_core.types import Group, Parallelism, Workload
from genz_core.validity import check
from genz_core.workload import bounds
from tests.draws import cases

several = settings(
    max_examples=cases(10), suppress_health_check=[HealthCheck.function_scoped_fixture]
)
#: batch, isl, osl, tp, pp, micro_batches, and the share of the prompt in a prefix cache.
configurations = st.tuples(
    st.integers(1, 300), st.sampled_from([1, 2, 100, 5000]) | st.integers(1, 9000),
    st.sampled_from([1, 2, 300]), st.sampled_from([1, 2, 4, 8]), st.sampled_from([1, 2, 4]),
    st.integers(0, 5), st.sampled_from([0.0, 0.5, 1.0]),
)  # fmt: skip
STEP_FIGURES = (
    "expected_s", "compute_s", "memory_s", "communication_s", "flops", "bytes", "total_s",
    "bound_total_s", "pipeline_s", "host_s",
)  # fmt: skip
FIGURES = ("ttft_s", "tpot_s", "e2e_s", "output_tokens_per_s", "bound_ttft_s", "bound_tpot_s")


def priced(model, system, rows):
    """An estimate of some `configurations` as arrays, or as numbers for a single tuple."""
    if isinstance(rows, tuple):
        batch, isl, osl, tp, pp, parts, share = rows
    else:
        batch, isl, osl, tp, pp, parts, share = (np.array(c) for c in zip(*rows, strict=True))
    load = Workload(batch, isl, osl, np.floor(isl * share))
    split = Parallelism(tp=tp, pp=pp, micro_batches=parts)
    return genz_core.estimate(model, system, load, split, on_error="status")


def test_a_figure_of_an_estimate_is_computed_once(model, system):
    found = priced(model, system, (4, 1000, 100, 1, 1, 0, 0.0))
    for name in ("valid", "ttft_s", "tpot_s", "e2e_s"):
        assert getattr(found, name) is getattr(found, name)
    assert found.decode.total_s is found.decode.total_s


@several
@given(rows=st.lists(configurations, min_size=2, max_size=5))
def test_an_array_of_configurations_is_estimated_as_each_alone(model, system, rows):
    """Including prompts of one token, for which one array of prefill steps mixes both phases."""
    together = priced(model, system, rows)
    for at, row in enumerate(rows):
        alone = priced(model, system, row)
        assert together.status[at] == alone.status[0]
        for name in FIGURES:
            expected = pytest.approx(getattr(alone, name)[0], rel=1e-9, nan_ok=True)
            assert getattr(together, name)[at] == expected, name
        for phase in ("prefill", "decode"):
            many, single = getattr(together, phase), getattr(alone, phase)
            for name in STEP_FIGURES:
                expected = pytest.approx(getattr(single, name)[..., 0], rel=1e-9)
                assert getattr(many, name)[..., at] == expected, (phase, name)
            for part, seconds in many.parts().items():
                expected = pytest.approx(single.parts()[part][:, 0], rel=1e-9, abs=1e-15)
                assert seconds[:, at] == expected
        for name in ("weights_bytes", "kv_bytes", "activations_bytes", "total_bytes"):
            weighed = getattr(alone.memory, name)[0]
            assert getattr(together.memory, name)[at] == pytest.approx(weighed, rel=1e-12)


@several
@given(rows=st.lists(configurations, min_size=1, max_size=4))
def test_prefill_and_decode_side_by_side_are_priced_as_each_alone(model, system, rows):
    whole = priced(model, system, rows)
    batch, isl, osl, tp, pp, parts, share = (np.array(c) for c in zip(*rows, strict=True))
    cached = np.minimum(np.floor(isl * share), isl - 1)
    load = Workload(batch, isl, osl, cached)
    split = Parallelism(tp=tp, pp=pp, micro_batches=parts)
    prefill = genz_core.prefill(model, system, load, split)
    decode = genz_core.decode(model, system, load, split)
    for both, alone in ((whole.prefill, prefill), (whole.decode, decode)):
        for name in STEP_FIGURES:
            assert getattr(both, name) == pytest.approx(getattr(alone, name), rel=1e-9), name
        for row in range(len(both.graph.ops)):
            assert both.explain(row).seconds == pytest.approx(alone.explain(row).seconds, rel=1e-9)


@several
@given(
    sizes=st.lists(
        st.tuples(st.integers(1, 64), st.integers(1, 3000), st.integers(0, 3000)),
        min_size=2, max_size=4,
    )
)  # fmt: skip
def test_mixed_steps_side_by_side_are_priced_as_each_alone(model, system, sizes):
    """An array of steps, each a prefill chunk with decodes."""
    batch, new, cached = (np.array(column, float) for column in zip(*sizes, strict=True))
    together = genz_core.mixed(model, system, [Group(1.0, new, 0.0), Group(batch, 1.0, cached)])
    for at, (count, chunk, context) in enumerate(sizes):
        groups = [Group(1.0, float(chunk), 0.0), Group(float(count), 1.0, float(context))]
        alone = genz_core.mixed(model, system, groups)
        assert together.expected_s[:, at] == pytest.approx(alone.expected_s[:, 0], rel=1e-9)
        assert together.total_s[at] == pytest.approx(alone.total_s[0], rel=1e-9)


def test_figures_follow_from_prefill_and_the_mean_decode_step(model, system):
    result = genz_core.estimate(model, system, Workload(8, 1000, 101))
    assert result.e2e_s == pytest.approx(result.ttft_s + 100 * result.tpot_s)
    assert result.output_tokens_per_s == pytest.approx(8 * 101 / result.e2e_s)
    assert result.status.tolist() == ["ok"] and result.message() == ""


def test_a_prefix_in_the_cache_saves_its_prefill(model, system):
    whole = genz_core.estimate(model, system, Workload(8, 4000, 10))
    prefixed = genz_core.estimate(model, system, Workload(8, 4000, 10, cached=3000))
    assert prefixed.ttft_s < 0.6 * whole.ttft_s
    assert prefixed.tpot_s == pytest.approx(whole.tpot_s)


@pytest.mark.parametrize("field", ["batch", "isl", "osl"])
@pytest.mark.parametrize("value", [0, -3, 1.5, float("nan"), float("inf")])
def test_a_size_below_one_is_refused_by_name(model, system, field, value):
    with pytest.raises(InvalidValue, match=rf"{field} = {value}"):
        genz_core.estimate(model, system, Workload(**{field: value}))


@pytest.mark.parametrize("field", ["batch", "isl", "osl"])
def test_a_size_beyond_any_float_is_refused_by_name(model, system, field):
    with pytest.raises(InvalidValue, match=f"{field} is too large a number"):
        genz_core.estimate(model, system, Workload(**{field: 10**400}))


def test_sizes_below_their_least_value_are_refused(model, system):
    with pytest.raises(InvalidValue, match="cached = -5"):
        genz_core.estimate(model, system, Workload(cached=-5))
    with pytest.raises(InvalidValue, match="micro_batches = -1"):
        genz_core.estimate(model, system, Workload(), Parallelism(pp=2, micro_batches=-1))
    with pytest.raises(InvalidValue, match=r"moe_tp = 0\.5"):
        genz_core.estimate(model, system, Workload(), Parallelism(moe_tp=0.5))
    with pytest.raises(InvalidValue, match=r"expert_imbalance = 0\.5: give at least 1"):
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
    with pytest.raises(OutOfMemory, match="use more devices"):
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


@several
@given(rows=st.lists(configurations, min_size=2, max_size=6))
def test_bounds_alone_are_those_of_the_estimate(model, system, rows):
    whole = priced(model, system, rows)
    good = whole.status != "invalid_parallelism"
    load = check(model, whole.workload, whole.parallelism)
    prefill, decode = bounds(model, system, load.workload, load.parallelism)
    assert prefill[good] == pytest.approx(whole.prefill.bound_total_s[good], rel=1e-12)
    assert decode[good] == pytest.approx(whole.decode.bound_total_s[good], rel=1e-12)

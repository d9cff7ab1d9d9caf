"""Loads as arrays and as scalars, and those that are refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from genz_core.errors import InvalidParallelism, InvalidValue, OutOfMemory
from genz_core.serving import Traffic, serve
from genz_core.types import Parallelism
from tests.genz_core.serving.closed_loops import ENGINE, closed


def test_an_array_gives_what_scalars_give(model, system):
    users = np.array([1, 7, 100])
    together = closed(model, system, users)
    for at, number in enumerate(users):
        alone = closed(model, system, int(number))
        assert together.ttft_s[at] == pytest.approx(alone.ttft_s[0], rel=1e-9)
        assert together.tpot_s[at] == pytest.approx(alone.tpot_s[0], rel=1e-9)


def test_one_rate_over_several_lengths_is_priced_as_each_alone(model, system):
    lengths = np.array([100, 2000, 300])
    together = serve(model, system, Traffic(isl=lengths, osl=50, rate_per_s=5.0), engine=ENGINE)
    for at, isl in enumerate(lengths):
        alone = serve(model, system, Traffic(isl=int(isl), osl=50, rate_per_s=5.0), engine=ENGINE)
        assert together.ttft_s[at] == pytest.approx(alone.ttft_s[0], rel=1e-9)
        assert together.tpot_s[at] == pytest.approx(alone.tpot_s[0], rel=1e-9)


@pytest.mark.parametrize("traffic", [Traffic(), Traffic(concurrency=1, rate_per_s=1.0)])
def test_a_load_is_a_concurrency_or_a_rate(model, system, traffic):
    with pytest.raises(InvalidValue, match="give either a concurrency or an arrival rate"):
        serve(model, system, traffic)


def test_half_a_user_is_refused_as_a_concurrency(model, system):
    with pytest.raises(InvalidValue, match=r"concurrency = 0\.5"):
        serve(model, system, Traffic(concurrency=0.5))


def test_a_rate_of_nothing_is_refused(model, system):
    with pytest.raises(InvalidValue, match="above 0"):
        serve(model, system, Traffic(rate_per_s=0.0))


@pytest.mark.parametrize("ratio", [0.0, -1.0, 1.5, float("nan")])
def test_lengths_beyond_the_nominal_ones_are_refused(model, system, ratio):
    with pytest.raises(InvalidValue, match=f"length_ratio = {ratio:g}"):
        serve(model, system, Traffic(concurrency=4, length_ratio=ratio))


@pytest.mark.parametrize("name", ["stream_interval", "recv_interval"])
def test_an_interval_below_one_is_refused(model, system, name):
    with pytest.raises(InvalidValue, match=f"{name} = 0: "):
        serve(model, system, Traffic(concurrency=4, **{name: 0}))


@pytest.mark.parametrize("length", [1, 3])
@pytest.mark.parametrize("load", ["concurrency", "rate_per_s"])
def test_a_load_that_cannot_be_served_raises_or_is_a_code_whatever_the_length(
    model, system, length, load
):
    traffic = Traffic(100, 10, **{load: np.full(length, 2.0)})
    with pytest.raises(InvalidParallelism, match="tp=3"):
        serve(model, system, traffic, Parallelism(tp=3))
    coded = serve(model, system, traffic, Parallelism(tp=3), on_error="status")
    assert coded.status.tolist() == ["invalid_parallelism"] * length
    tight = replace(system, memory_bytes=1e6)
    with pytest.raises(OutOfMemory, match="use more devices"):
        serve(model, tight, traffic)
    full = serve(model, tight, traffic, on_error="status")
    assert full.status.tolist() == ["out_of_memory"] * length
    assert np.isfinite(full.tpot_s).all()

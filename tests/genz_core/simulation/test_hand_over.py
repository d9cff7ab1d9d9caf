"""Prefill workers that transfer to decode workers: each token and each transfer happen once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from genz_core.deployment import deploy
from genz_core.errors import InvalidParallelism, InvalidValue
from genz_core.models.acceptance import Acceptance
from genz_core.models.speculative import Speculation
from genz_core.serving.simulation import (
    Disaggregation,
    Options,
    Requests,
    ServingPool,
    Transfer,
    simulate,
)
from genz_core.types import Parallelism, Precision
from tests.genz_core.simulation.loads import ENGINE, READING, requests

SCHEDULERS = ("vllm", "sglang", "tensorrt_llm")
every_scheduler = pytest.mark.parametrize("name", SCHEDULERS)


def pool(model, system, name="vllm", workers=1, **degrees) -> ServingPool:
    engine = replace(ENGINE, scheduler=name)
    return ServingPool(deploy(model, system, engine), Parallelism(**degrees), workers)


def served(model, system, load, *, name="vllm", prefill=1, transfer=None, **options):
    transfer = transfer or Transfer(1e9, 1e-3)
    apart = Disaggregation(pool(model, system, name, prefill), transfer)
    options = {"price": READING, **options}
    engine = replace(ENGINE, scheduler=name)
    return simulate(model, system, load, engine=engine, disaggregation=apart, **options)


def cache_of(model, tokens) -> float:
    """Bytes of a prompt's cache: keys and values of four layers, four heads of 64, 16 bits."""
    return tokens * 4 * 2 * 4 * 64 * 2.0


# ------------------------------------------------------------------------------- one request


@pytest.mark.parametrize("shown_by", ["prefill", "decode"])
def test_one_request_is_read_travels_once_and_is_answered(model, system, shown_by):
    transfer = Transfer(1e9, 0.005, shown_by=shown_by)
    run = served(model, system, Requests([1.0], [1024], [11]), transfer=transfer)
    read_s, way_s = 0.01 + 1024e-5, cache_of(model, 1024) / 1e9 + 0.005
    shown = way_s if shown_by == "decode" else 0.0
    assert run.ttft_s[0] == pytest.approx(read_s + shown)
    assert run.e2e_s[0] == pytest.approx(read_s + way_s + 10 * 0.01)
    assert run.tpot_s[0] == pytest.approx((way_s - shown + 10 * 0.01) / 10)
    assert run.gap_counts.sum() == 10
    gaps = np.repeat(run.gaps_s, run.gap_counts.astype(int))
    assert gaps.max() == pytest.approx(0.01 + way_s - shown, rel=0.01)


def first_tokens(model, system, steps, load, name="vllm"):
    """First tokens if a worker checks for new transfers every `steps` steps."""
    engine = replace(ENGINE, scheduler=name, hand_over_steps=steps)
    apart = Disaggregation(pool(model, system, name, 2), Transfer(1e9, 1e-3, shown_by="decode"))
    run = simulate(model, system, load, engine=engine, disaggregation=apart, price=READING,
                   concurrency=8)  # fmt: skip
    assert np.isfinite(run.e2e_s).all()
    return run.ttft_s


@every_scheduler
def test_a_sequence_waits_for_the_steps_of_its_hand_over_while_others_run(name, model, system):
    load = requests(400, osl=200)
    at_once, later = (first_tokens(model, system, steps, load, name) for steps in (0.0, 12.0))
    assert later[50:].mean() - at_once[50:].mean() == pytest.approx(12 * 0.01, rel=0.1)


def test_an_idle_worker_takes_a_sequence_at_once(model, system):
    alone = Requests(10.0 * np.arange(20), np.full(20, 500), np.full(20, 50))
    at_once, later = (first_tokens(model, system, steps, alone) for steps in (0.0, 12.0))
    assert later == pytest.approx(at_once)


def test_a_request_of_one_token_never_travels(model, system):
    slow = Transfer(1.0)
    run = served(model, system, Requests([0.0], [1000], [1]), transfer=slow)
    assert run.e2e_s[0] == pytest.approx(0.01 + 1000e-5)


def test_prompts_of_a_worker_travel_one_after_another(model, system):
    transfer = Transfer(cache_of(model, 1024))  # one second each
    run = served(model, system, Requests([0.0] * 3, [1024] * 3, [2] * 3), transfer=transfer)
    apart = np.diff(np.sort(run.e2e_s))
    assert apart == pytest.approx([1.0, 1.0], rel=0.05)


def test_layers_that_travel_while_others_are_computed_leave_a_layers_way(model, system):
    whole, by_layer = (
        served(
            model, system, Requests([0.0], [4096], [2]), transfer=Transfer(2e9, layer_wise=on)
        ).e2e_s[0]
        for on in (False, True)
    )
    way_s = cache_of(model, 4096) / 2e9
    assert way_s * 0.2 < whole - by_layer <= way_s * 0.75 + 1e-9


@every_scheduler
def test_a_first_token_waits_for_a_place_among_those_that_decode(name, model, system):
    """Engines pass it on with the cache: the user sees it once a decode worker admits the
    sequence.
    """
    way = {by: Transfer(1e9, 1e-3, shown_by=by) for by in ("prefill", "decode")}
    load = Requests([0.0, 0.0], [64, 64], [41, 41])
    one = Options(max_num_seqs=1)
    early, late = (served(model, system, load, name=name, transfer=way[by], options=one)
                   for by in way)  # fmt: skip
    assert early.e2e_s == pytest.approx(late.e2e_s)
    first, second = np.argsort(late.ttft_s)
    assert late.ttft_s[second] - late.ttft_s[first] == pytest.approx(0.4, rel=0.1)
    assert late.tpot_s == pytest.approx(0.01, rel=0.05)
    assert early.ttft_s.max() < 0.05 and early.tpot_s[second] == pytest.approx(0.02, rel=0.1)


# ------------------------------------------------------------------------------- laws


@every_scheduler
@pytest.mark.parametrize("shown_by", ["prefill", "decode"])
def test_every_request_gets_all_its_tokens(name, model, system, shown_by):
    load = requests(200)
    transfer = Transfer(1e9, 1e-3, shown_by=shown_by)
    run = served(model, system, load, name=name, transfer=transfer, concurrency=32)
    assert run.ended.all() and run.gap_counts.sum() == (load.output_tokens - 1).sum()
    gaps = np.sum(run.gaps_s * run.gap_counts)
    assert gaps == pytest.approx(np.sum(run.e2e_s - run.ttft_s), rel=0.01)


@every_scheduler
def test_decodes_are_never_held_up_by_prompts(name, model, system):
    """With separate prefill, every step of a decode worker is a pure decode step."""
    run = served(model, system, requests(300, rate=20.0), name=name)
    gaps = np.repeat(run.gaps_s, run.gap_counts.astype(int))
    assert np.percentile(gaps, 90) == pytest.approx(0.01, rel=0.01)
    together = simulate(model, system, requests(300, rate=20.0), engine=ENGINE, price=READING)
    assert np.nanmean(run.tpot_s) < np.nanmean(together.tpot_s)


def test_the_slower_pool_decides(model, system):
    """Prompts of 2,000 tokens take 30 ms: one worker prefills at most 33 of them per second."""
    load = requests(1000, 2000, 5, ratio=1.0)
    one, two = (
        served(model, system, load, prefill=n, replicas=1, concurrency=64).summary() for n in (1, 2)
    )
    assert two["requests_per_s"] > 1.5 * one["requests_per_s"]


def test_what_an_answer_outgrows_is_read_again_by_the_decode_worker(model, system):
    small = replace(system, memory_bytes=0.2e9)
    run = served(model, small, requests(200, 3000, 2000), concurrency=64)
    assert run.ended.all() and run.preemptions > 0


def test_both_pools_report_how_busy_they_were(model, system):
    run = served(model, system, requests(300), concurrency=32)
    assert run.busy.shape == (2,) and np.all((run.busy > 0) & (run.busy <= 1))


def test_drafts_are_read_by_both_pools(model, system):
    speculation = Speculation("ngram", Acceptance((0.8, 0.6)))
    run = served(model, system, requests(200), concurrency=16, speculation=speculation)
    assert run.ended.all()
    assert run.gap_counts.sum() < (requests(200).output_tokens - 1).sum()


# ------------------------------------------------------------------------------- refusals


def test_pools_need_one_format_of_the_cache(model, system):
    other = model.with_precision(Precision(kv="fp8"))
    apart = Disaggregation(pool(other, system), Transfer(1e9))
    with pytest.raises(InvalidValue, match="the KV cache is fp8 in prefill and bf16 in decode"):
        simulate(model, system, requests(1), engine=ENGINE, disaggregation=apart)


def test_pools_need_one_model(model, system):
    class Larger(type(model)):
        @property
        def parameters(self):
            return 2 * super().parameters

    apart = Disaggregation(pool(Larger(), system), Transfer(1e9))
    with pytest.raises(InvalidValue, match="both pools need the same model"):
        simulate(model, system, requests(1), engine=ENGINE, disaggregation=apart)


def test_degrees_of_the_prefill_workers_must_divide_the_model(model, system):
    with pytest.raises(InvalidParallelism):
        apart = Disaggregation(pool(model, system, tp=3), Transfer(1e9))
        simulate(model, system, requests(1), engine=ENGINE, disaggregation=apart)


@pytest.mark.parametrize(("rate", "latency"), [(0.0, 0.0), (-1.0, 0.0), (1e9, -1.0)])
def test_a_transfer_needs_a_bandwidth(rate, latency):
    with pytest.raises(InvalidValue, match="bandwidth above 0"):
        Transfer(rate, latency)

"""Drafts in the simulator: randomly accepted tokens, and the laws of queues."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genz_core.models.acceptance import Acceptance, expected_steps
from genz_core.models.speculative import Speculation
from genz_core.serving.simulation import draws, simulate
from genz_core.serving.simulation.policies import Sglang, StaticBatch, TensorRtLlm, Vllm
from tests.genz_core.simulation.loads import ENGINE, EVEN, requests

THREE = Acceptance((0.8, 0.6, 0.4))
SCHEDULERS = {
    "vllm": Vllm(budget=2048, sequences=64, query=4),
    "sglang": Sglang(budget=2048, sequences=64, query=4),
    "tensorrt_llm": TensorRtLlm(budget=2048, sequences=64, query=4),
    "static": StaticBatch(sequences=16, query=4),
}
every_scheduler = pytest.mark.parametrize("name", SCHEDULERS)


def served(model, system, load, name="vllm", acceptance=THREE, **options):
    options = {"price": EVEN, "scheduler": replace(SCHEDULERS[name]), **options}
    speculation = Speculation("ngram", acceptance)
    return simulate(model, system, load, engine=ENGINE, speculation=speculation, **options)


# ------------------------------------------------------------------------------- draws


@given(
    shares=st.lists(st.floats(0.0, 1.0), min_size=1, max_size=6),
    tokens=st.integers(0, 300),
    seed=st.integers(0, 99),
)
def test_an_answer_takes_at_least_full_drafts_and_at_most_a_step_a_token(shares, tokens, seed):
    acceptance = Acceptance(tuple(sorted(shares, reverse=True)))
    generator = np.random.default_rng(seed)
    steps = draws.decode_steps(np.full(20, tokens), acceptance, generator)
    assert np.all(steps >= np.ceil(tokens / (1 + acceptance.draft_tokens)))
    assert np.all(steps <= tokens)


@pytest.mark.parametrize("tokens", [1, 2, 5, 40])
def test_steps_are_distributed_as_if_drawn_one_by_one(tokens):
    generator, count = np.random.default_rng(0), 40_000
    drawn = draws.decode_steps(np.full(count, tokens), THREE, generator)
    yields = generator.choice([1, 2, 3, 4], p=THREE.probabilities, size=(count, tokens))
    one_by_one = 1 + (np.cumsum(yields, axis=1) < tokens).sum(axis=1)
    for steps in range(1, tokens + 1):
        assert np.mean(drawn == steps) == pytest.approx(np.mean(one_by_one == steps), abs=0.01)


@pytest.mark.parametrize("tokens", [1, 3, 10, 100, 1000])
def test_mean_steps_are_those_of_the_closed_form(tokens):
    drawn = draws.decode_steps(np.full(20_000, tokens), THREE, np.random.default_rng(1))
    assert np.mean(drawn) == pytest.approx(float(expected_steps(tokens, THREE)), rel=0.01)


@pytest.mark.parametrize(("share", "steps"), [(0.0, 99), (1.0, 33)])
def test_drafts_that_are_never_or_always_accepted(share, steps):
    acceptance = Acceptance((share,) * 2)
    assert draws.decode_steps([99], acceptance, np.random.default_rng(0)).tolist() == [steps]


# ------------------------------------------------------------------------------- laws


@every_scheduler
def test_every_request_gets_all_its_tokens_in_fewer_steps(name, model, system):
    load = requests()
    run = served(model, system, load, name)
    assert run.ended.all()
    steps = run.gap_counts.sum()
    assert steps == pytest.approx(np.sum(expected_steps(load.output_tokens - 1, THREE)), rel=0.05)
    assert steps < (load.output_tokens - 1).sum()


@every_scheduler
def test_a_sequence_holds_exactly_its_tokens_when_it_ends(name, model, system):
    """The cache is empty at the end, whatever was accepted, preempted and repeated."""
    small = replace(system, memory_bytes=0.2e9)
    run = served(model, small, requests(300, 3000, 400), name, concurrency=64)
    assert run.ended.all() and run.series["kv_use"][-1] < 0.2
    assert run.series["kv_use"].max() <= 1.0 + 1e-9


def test_the_time_of_a_token_is_that_of_a_step_over_its_tokens(model, system):
    run = served(model, system, requests(400, 100, 1000), concurrency=16)
    assert np.mean(run.tpot_s) == pytest.approx(0.01 / THREE.tokens_per_step, rel=0.02)


def test_seeds_repeat_and_differ(model, system):
    first, again, other = (served(model, system, requests(), seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(first.e2e_s, again.e2e_s)
    assert not np.array_equal(first.e2e_s, other.e2e_s)


def test_a_draft_that_is_never_accepted_serves_as_none_does(model, system):
    load = requests()
    never = served(model, system, load, acceptance=Acceptance((0.0,)), scheduler=Vllm())
    none = simulate(model, system, load, engine=ENGINE, price=EVEN, scheduler=Vllm())
    np.testing.assert_allclose(never.e2e_s, none.e2e_s)


def test_a_preempted_sequence_writes_the_rest_of_its_answer(model, system):
    small = replace(system, memory_bytes=0.2e9)
    run = served(model, small, requests(300, 3000, 400), "vllm", concurrency=64)
    assert run.preemptions > 0 and run.ended.all()


def test_drafts_pay_off_for_few_sequences_and_less_for_many(model, system):
    gains = []
    for users in (1, 64):
        load = requests(20 * users, 200, 100)
        speculation = Speculation("eagle", THREE, replace(model, name="half"))
        plain, drafted = (
            simulate(
                model, system, load, engine=ENGINE, concurrency=users, speculation=chosen
            ).summary()["tpot_mean_s"]
            for chosen in (None, speculation)
        )
        gains.append(plain / drafted)
    assert gains[0] > gains[1]

"""Accounts, sensitivities and comparisons of disaggregated serving: laws of both pools."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.decide import comparison, economics, sensitivity
from app.decide.account import Account
from app.decide.operation import Operation, operation
from app.question.query import ask
from app.question.question import Question
from app.scenario import served_rows
from app.scenario.scenario import resolve
from genz_core.errors import InvalidValue

MODEL = "Qwen/Qwen3-32B"
POOL = Question(
    model=MODEL, system="h100", engine="vllm", tp=2, concurrency=32, isl=2048, osl=256,
    prefill_workers=2, prefill_tp=2, replicas=3, max_num_batched_tokens=8192, max_num_seqs=256,
)  # fmt: skip
SPLIT = replace(POOL, prefill_system="h200")


def of(question: Question) -> Operation:
    return operation(resolve(question))


@pytest.mark.parametrize("question", [POOL, SPLIT])
def test_an_account_is_of_all_devices_and_of_what_is_served(question):
    found, served = of(question), served_rows.served(resolve(question))
    assert found.devices == served.devices[0] == 10
    assert found.requests_per_s * found.osl == pytest.approx(served.output_tokens_per_s[0])
    assert all(0.0 < used <= 1.0 for used in (found.compute, found.memory))


def test_prompts_cost_what_their_workers_do():
    assert of(POOL).prefill_share == pytest.approx(4 / 10)
    dear = replace(SPLIT, price="h100=2,h200=4")
    assert of(dear).prefill_share == pytest.approx(4 * 4 / (4 * 4 + 6 * 2))
    found = economics.document(Account(resolve(dear)))["ways"]["rented"]
    assert found["usd_per_replica_hour"] == pytest.approx(4 * 4 + 6 * 2)
    parts = found["usd_per_mtok_in"] * 2048 + found["usd_per_mtok_out"] * 256
    assert parts == pytest.approx(found["usd_per_request"] * 1e6)


def test_one_load_has_one_price_of_a_token_in_an_account_and_in_a_comparison():
    for question in (replace(POOL, price="2"), replace(SPLIT, price="h100=2,h200=4")):
        resolved = resolve(question)
        account = economics.document(Account(resolved))["ways"]["rented"]
        beside = comparison.figures(resolved)
        assert account["usd_per_mtok"] == pytest.approx(beside["usd_per_mtok"].value)
        per_device = beside["output_tokens_per_s_per_device"].value
        served = served_rows.served(resolved)
        assert per_device == pytest.approx(float(served.output_tokens_per_s_per_device[0]))


def test_replicas_share_a_load_and_cost_what_each_costs():
    one = replace(POOL, prefill_workers=0, prefill_tp=1, replicas=1, concurrency=16)
    two = replace(one, replicas=2, concurrency=32)
    first, second = of(one), of(two)
    assert second.devices == 2 * first.devices
    assert second.requests_per_s == pytest.approx(2 * first.requests_per_s, rel=1e-6)
    assert second.prefill_share == pytest.approx(first.prefill_share, rel=1e-6)
    assert second.memory == pytest.approx(first.memory, rel=1e-6)


@pytest.mark.parametrize("resource", sensitivity.RESOURCES)
@pytest.mark.parametrize("question", [POOL, SPLIT])
def test_more_of_a_resource_never_serves_less(question, resource):
    resolved = resolve(question)
    least, base, most = (
        sensitivity.figures(sensitivity.scaled(resolved, resource, by)) for by in (0.5, 1.0, 2.0)
    )
    name = "output_tokens_per_s_per_device"
    assert least[name] <= base[name] * 1.001 and base[name] <= most[name] * 1.001


@pytest.mark.parametrize("question", [POOL, SPLIT])
def test_a_resource_reaches_the_workers_that_read(question):
    """With enough decode workers, faster arithmetic and hosts shorten the first token."""
    spare = replace(question, concurrency=1, replicas=1)
    for resource in ("peak", "host"):
        base, more = (
            served_rows.served(sensitivity.scaled(resolve(spare), resource, by)).prefill_s[0]
            for by in (1.0, 2.0)
        )
        assert more < base


def test_the_ridge_of_prompts_is_that_of_their_workers():
    wide = replace(POOL, prefill_tp=8)
    alone = replace(POOL, prefill_workers=0, prefill_tp=1, replicas=1, tp=8)
    _, found = sensitivity.ridges(resolve(wide))
    _, expected = sensitivity.ridges(resolve(alone))
    assert found.compute_s == pytest.approx(expected.compute_s)


@pytest.mark.parametrize("verb", ["economics", "sensitivity", "compare", "calibrate", "guard"])
def test_a_verb_takes_a_pool_and_refuses_degrees_without_one(verb):
    pool = {"prefill_workers": 1, "prefill_tp": 2, "concurrency": 8}
    named = {} if verb in ("compare", "calibrate", "guard") else {"model": MODEL}
    assert ask(verb, {**named, **pool}).question.prefill_tp == 2
    with pytest.raises(InvalidValue, match="prefill_tp without a prefill pool"):
        ask(verb, {**named, "prefill_tp": 2, "concurrency": 8})

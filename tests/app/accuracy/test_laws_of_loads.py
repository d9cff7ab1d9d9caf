"""Laws of loads on random deployments: no work from nothing, no gain from larger requests."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from app.accuracy import simulation_grid
from app.question.question import nominal_lengths
from genz_core.serving import ServingEstimate, Traffic, closed_form, serve
from tests.draws import cases, seed

COUNT = cases(40)
pytestmark = pytest.mark.draws


@cache
def drawn() -> list[Any]:
    """(question, resolved names) of deployments, from one user to twice as many as fit."""
    found = simulation_grid.cases(COUNT, seed(31), ("closed",))
    return [(case.question, case.resolved) for case in found]


def loaded(question: Any, **changed: Any) -> Traffic:
    sizes = {"isl": question.isl, "osl": question.osl, "concurrency": question.concurrency}
    arrays = {name: np.asarray(value, dtype=float) for name, value in (sizes | changed).items()}
    isl, osl, ratio = nominal_lengths(arrays["isl"], arrays["osl"], question.length_ratio)
    return Traffic(isl, osl, arrays["concurrency"], length_ratio=ratio)


def served(question: Any, deployed: Any, **changed: Any) -> ServingEstimate:
    return serve(
        deployed.model, deployed.system, loaded(question, **changed), question.parallelism,
        deployed.engine, on_error="status",
    )  # fmt: skip


def requests_per_s(load: ServingEstimate) -> np.ndarray:
    return (load.output_tokens_per_s / load.osl)[load.status == "ok"]


def times(question: Any, name: str, factors: list[float]) -> np.ndarray:
    return np.unique(np.round(getattr(question, name) * np.array(factors)))


def utilisation(question: Any, deployed: Any) -> float:
    """Least share of a second that a rank needs for the work of a second, at its own step price.

    A prompt costs what its tokens add to full steps, an answer its share of shared steps.
    """
    split = question.parallelism
    model = closed_form._served(
        deployed.model, deployed.system, loaded(question), split, deployed.engine
    )
    correction = model.correction(model.users())
    balance = model.balance(correction)
    ((batching, _),) = model.kept.values()
    many, none = np.maximum(batching.admitted, 1.0), np.zeros_like(batching.admitted)
    beside = many if batching.mixed else none
    room = batching.room(beside)
    reading = batching.cycle_s(beside, room, room) - batching.cycle_s(beside, none)
    prompt = reading * batching.isl / room / batching.lanes
    answer = (batching.steps - 1.0) * batching.cycle_s(many, none) / many
    return float((balance.requests_per_s / split.dp * (prompt + answer) * correction.steps)[0])


def step_rates(question: Any, deployed: Any, users: np.ndarray) -> np.ndarray:
    """Work that steps do in a second, [kinds of steps, users]: decodes, prompts, those of half the
    users, and both at the balance of the load; it falls where a further tile of rows or experts
    begins.
    """
    model = closed_form._served(
        deployed.model, deployed.system, loaded(question, concurrency=users), question.parallelism,
        deployed.engine,
    )  # fmt: skip
    balance = model.balance(model.correction(model.users()))
    ((batching, of),) = model.kept.values()
    batching = batching.picked(of)
    many = np.maximum(batching.admitted, 1.0)
    none = np.zeros_like(many)
    gaps = np.maximum(batching.steps - 1.0, 1e-9)
    decodes = balance.requests_per_s / question.dp * gaps * balance.cycle_s
    beside = np.maximum(decodes, 1.0) if batching.mixed else none
    room = batching.room(none)
    some = np.minimum(
        np.maximum(batching.prompts(decodes), 1.0) * batching.isl, batching.room(beside)
    )
    half = np.minimum(np.maximum(many / 2.0, 1.0) * batching.isl, room)
    return np.array(
        [
            many / batching.cycle_s(many, none),
            half / batching.cycle_s(none, half, half),
            room / batching.cycle_s(none, room, room),
            (some + beside / batching.lanes) / batching.cycle_s(beside, some, some),
        ]
    )


def share_of(broken: list[str]) -> str:
    return f"{len(broken)} of {COUNT}: " + "; ".join(broken[:5])


@pytest.mark.slow
def test_a_second_holds_no_more_work_than_a_second():
    broken = [
        f"{utilisation(*case):.3f} {case[0]}" for case in drawn() if utilisation(*case) > 1.005
    ]
    assert len(broken) <= 0.003 * COUNT, share_of(broken)


def test_open_requests_are_arrivals_times_their_time():
    for question, deployed in drawn():
        load = served(question, deployed)
        gaps = np.nan_to_num((load.osl - 1.0) * load.tpot_s)
        held = load.output_tokens_per_s / load.osl * (load.ttft_s + gaps)
        assert held[0] == pytest.approx(question.concurrency, rel=0.02), question


def test_longer_answers_bring_no_more_requests():
    broken = []
    for question, deployed in drawn():
        lengths = times(question, "osl", [1, 1.15, 1.4, 2, 3, 4.5])
        rate = requests_per_s(served(question, deployed, osl=lengths))
        if rate.size > 1 and (gain := (rate[1:] / rate[:-1]).max()) > 1.005:
            broken.append(f"{gain:.3f} {question}")
            assert gain < 1.05, broken[-1]
    assert len(broken) <= 0.01 * COUNT, share_of(broken)


def test_more_users_shorten_no_first_token():
    broken = []
    for question, deployed in drawn():
        load = served(
            question,
            deployed,
            concurrency=times(question, "concurrency", [1, 1.1, 1.3, 1.7, 2.2, 4]),
        )
        first = load.ttft_s[load.status == "ok"]
        if first.size > 1 and (less := (first[1:] / first[:-1]).min()) < 0.99:
            broken.append(f"{less:.3f} {question}")
            assert less > 0.95, broken[-1]
    assert len(broken) <= 0.02 * COUNT, share_of(broken)


def test_a_few_more_users_shorten_no_first_token():
    """One stage, prompts beside decodes: under engines that prefill first, equal answers of some
    more users fall in step (test_prompts_first.py), and lanes with a request more let others wait.
    What is left is the price of steps between two nodes.
    """
    users = np.arange(1.0, 17.0)
    for question, deployed in drawn():
        if question.pp > 1 or not deployed.engine.mixed_steps:
            continue
        load = served(question, deployed, concurrency=users)
        first = load.ttft_s[load.status == "ok"]
        if first.size > 1:
            assert (first[1:] / first[:-1]).min() > 0.985, question


def test_more_users_lower_throughput_only_where_a_step_of_theirs_costs_more():
    """A further tile costs as much as a full one: `test_a_further_tile_of_experts_...` switches the
    tiles off.  What is left are few users of a pipeline with prompts of several steps.
    """
    broken = []
    for question, deployed in drawn():
        users = times(question, "concurrency", [1, 1.1, 1.3, 1.7, 2.2, 4])
        load = served(question, deployed, concurrency=users)
        if users.size < 2 or np.any(load.status != "ok"):
            continue
        more = load.output_tokens_per_s[1:] / load.output_tokens_per_s[:-1]
        if more.min() >= 0.99:
            continue
        rates = step_rates(question, deployed, users)
        dearer = np.minimum((rates[:, 1:] / rates[:, :-1]).min(axis=0), 1.0)
        if (less := (more / dearer).min()) < 0.99:
            broken.append(f"{less:.3f} {question}")
            assert less > 0.9, broken[-1]
    assert len(broken) <= 0.01 * COUNT, share_of(broken)

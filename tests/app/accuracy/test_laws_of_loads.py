"""What no load may do, on deployments drawn at random: create work, or gain by being larger."""

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
    """(question, what it names) of deployments from one user to twice as many as fit."""
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
    """Share of a second that a rank's work of a second takes at least, at its own step price.

    A prompt costs what its tokens add to full steps, an answer its share of the steps of all.
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

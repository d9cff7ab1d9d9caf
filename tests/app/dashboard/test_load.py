"""The static batch that represents a load."""

from __future__ import annotations

import pytest

from app.dashboard import caches
from app.dashboard.load_curves import alone, as_batch
from app.question.question import STANDARD, Question
from app.scenario.setup import Setup


@pytest.mark.parametrize("users", (4, 512, 4096))
def test_the_batch_of_a_load_that_runs_fits(users):
    setup = Setup(Question(concurrency=users))
    batch = as_batch(setup).scenario.batch
    most = caches.largest(alone(setup))[0]
    assert batch == min(users, batch, most)
    assert caches.priced(as_batch(setup)).memory.fits[0]


def test_of_what_never_fits_the_batch_is_that_of_all_users_and_priced_all_the_same():
    setup = Setup(Question(model="meta-llama/Llama-3.1-405B", concurrency=8))
    assert caches.largest(alone(setup))[0] == 0
    assert as_batch(setup).scenario.batch == 8  # as where it is drawn "if it fitted"
    assert not caches.priced(as_batch(setup)).memory.fits[0]


def test_the_batch_of_replicas_is_that_of_one():
    together, alike = Question(concurrency=32, replicas=4), Question(concurrency=8)
    assert as_batch(Setup(together)).scenario.batch == as_batch(Setup(alike)).scenario.batch == 8


def test_the_batch_of_a_load_has_no_parameters_that_only_a_load_has():
    pool = Setup(Question(concurrency=8, prefill_workers=2, replicas=2, max_num_seqs=64))
    batch = as_batch(pool).scenario
    assert (batch.prefill_workers, batch.replicas, batch.max_num_seqs) == (
        STANDARD.prefill_workers, STANDARD.replicas, STANDARD.max_num_seqs,
    )  # fmt: skip

"""The static batch that represents a load."""

from __future__ import annotations

import pytest

from app.dashboard import caches
from app.dashboard.load_curves import alone, as_batch
from app.question.question import Question
from app.scenario.setup import Setup


@pytest.mark.parametrize("users", (4, 512, 4096))
def test_the_batch_of_a_load_that_runs_fits(users):
    setup = Setup(Question(concurrency=users))
    batch = as_batch(setup).scenario.batch
    most = caches.largest(alone(setup))[0]
    assert batch == min(users, batch, most)
    assert caches.priced(as_batch(setup)).memory.fits[0]


def test_of_what_never_fits_the_batch_is_priced_all_the_same():
    setup = Setup(Question(model="meta-llama/Llama-3.1-405B", concurrency=8))
    assert caches.largest(alone(setup))[0] == 0
    assert as_batch(setup).scenario.batch == 1
    assert not caches.priced(as_batch(setup)).memory.fits[0]

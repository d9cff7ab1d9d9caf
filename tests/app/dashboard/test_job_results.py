"""Jobs that pages ask for: they leave the queue with their page, and a full queue is a sentence."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from app.jobs import SIMULATING, Job, queue, server_queue
from tests.app.jobs import works
from tests.app.pages import opened, path_of, settled

ASKED = {"model": "Qwen/Qwen3-8B", "target": "tpot < 31ms", "rate": "3"}


@pytest.fixture
def busy() -> Iterator[Job]:
    """A job that keeps the lane of simulations busy."""
    job = server_queue().submit(works.wait, None, "a long one", SIMULATING)
    yield job
    job.end()


def test_a_job_that_has_not_begun_leaves_the_queue_with_its_page(busy: Job):
    app = opened("plan", **ASKED)
    job = app.session_state["plan_simulated_job"]
    assert job.place and job in server_queue().under_way
    app = app.switch_page(path_of("explain")).run()
    assert not app.exception and job not in server_queue().under_way
    assert "plan_simulated_job" not in app.session_state
    app = app.switch_page(path_of("plan")).run()
    assert app.session_state["plan_simulated_job"].place
    busy.end()
    assert settled(app).dataframe[0].value["TPOT P99"].str.endswith("ms").all()


def test_where_the_queue_is_full_the_closed_form_is_shown_and_says_why(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(queue, "MOST_WAITING", 0)
    app = opened("plan", **{**ASKED, "rate": "2.9"})
    assert not app.exception and not app.error
    assert "jobs are waiting already" in app.warning[0].value
    assert (app.dataframe[0].value["TPOT P99"] == "not simulated").all()
    nothing = opened("plan", **{**ASKED, "target": "tpot < 0.01ms"})
    assert not nothing.exception and "jobs are waiting" in nothing.error[0].value

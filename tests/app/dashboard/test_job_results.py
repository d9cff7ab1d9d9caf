"""Jobs that pages ask for: they leave the queue with their page, and a full queue is a sentence."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import hardware_db
from app.dashboard import visitor
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


def jobs_of_plans() -> list[Job]:
    return [job for job in server_queue().under_way if job.title == "Simulating the plans"]


def test_two_visitors_who_ask_the_same_wait_for_one_job_and_either_may_leave(busy: Job):
    asked = {**ASKED, "rate": "2.7"}
    one, other = opened("plan", **asked), opened("plan", **asked)
    (job,) = jobs_of_plans()
    assert one.session_state["plan_simulated_job"] is other.session_state["plan_simulated_job"]
    one.button(key="cancel_plan_simulated_job").click().run()
    assert not one.exception and "cancelled" in one.warning[0].value
    assert jobs_of_plans() == [job] and not job.stopping
    busy.end()
    assert settled(other).dataframe[0].value["TPOT P99"].str.endswith("ms").all()


def test_visitors_with_own_files_have_jobs_of_their_own(
    busy: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    asked = {**ASKED, "rate": "2.6"}
    opened("plan", **asked)
    (tmp_path / "systems").mkdir()
    shipped = Path(hardware_db.__file__).parent / "systems" / "h100-sxm5-80gb.yaml"
    shutil.copy(shipped, tmp_path / "systems")
    monkeypatch.setattr(visitor, "own_folder", lambda: tmp_path)
    opened("plan", **asked)
    jobs = jobs_of_plans()
    assert len(jobs) == 2
    for job in jobs:
        job.end()

"""Results of jobs that a page asks for by itself, kept for all visitors who ask the same.

Visitors who ask the same at once wait for one job.  A question holds the visitor's own texts and
the state of the visitor's own files, so only visitors without any share a job or a result.
"""

import pickle
from collections.abc import Callable, Hashable
from functools import partial
from typing import Any, TypeVar

import streamlit as st

from app.accuracy import kept_records
from app.accuracy.tables import Columns
from app.dashboard import visitor
from app.dashboard.caches import CLEARING, ByteCache
from app.dashboard.job_progress import show_progress, submitted
from app.jobs import SIMULATING, Job, Lane
from app.jobs.job_files import Work
from genz_core.errors import RidgelineError
from hardware_db import data_folder

Result = TypeVar("Result")
#: Results by the names of their jobs and what was asked; in memory they take twice these bytes.
RESULTS = ByteCache[Any](5 << 20, ttl_s=3600.0)
CLEARING.append(RESULTS.clear)


def shared_result(
    name: str, work: Callable[..., Result], asked: Hashable, title: str, argument: Any = None,
    lane: Lane = SIMULATING,
) -> Result | None:  # fmt: skip
    """The result of a job for a question; None while it runs, with its progress drawn.

    name: of the job among those of a page; it has one at a time.  argument: of the work, `asked`
    unless given.  lane: of the queue.
    """
    result = f"{name}_result"
    kept = st.session_state.get(result)
    if kept is None or kept[0] != asked:
        outcome = RESULTS.get((name, asked))
        if outcome is None:
            given = asked if argument is None else argument
            outcome = _outcome(name, work, asked, title, given, lane)
        if outcome is None:
            return None
        kept = st.session_state[result] = (asked, outcome)
    if isinstance(kept[1], RidgelineError):
        st.button(
            "Try again", icon=":material/replay:", key=f"again_{name}",
            on_click=lambda: st.session_state.pop(result, None),
        )  # fmt: skip
        raise kept[1]
    found: Result = kept[1]
    return found


def leave_queue(page: str) -> None:
    """On another page than before, take this session's jobs that have not begun out of the queue;
    they are queued again when their page is opened.
    """
    before, st.session_state[_PAGE] = st.session_state.get(_PAGE), page
    if before == page:
        return
    for key in [key for key in st.session_state.get(_QUEUED, ()) if key in st.session_state]:
        if st.session_state[key].place:
            _let_go(st.session_state.pop(key))


#: In the session: keys of its jobs, and the page of its last run.
_QUEUED, _PAGE = "queued_jobs", "page_of_jobs"


def _outcome(
    name: str, work: Work, asked: Hashable, title: str, argument: Any, lane: Lane
) -> Any:  # fmt: skip
    """The result of this session's job for a question, or its error; None while it runs."""
    job_key, of_key = f"{name}_job", f"{name}_of"
    running = st.session_state.get(job_key)
    if running is not None and st.session_state.get(of_key) != asked:
        del st.session_state[job_key]
        _let_go(running)
    st.session_state[of_key] = asked
    # a job without own files reads none, even if its visitor saves one before it starts
    own = visitor.own_folder() if visitor.own_edition()[1] else None
    with data_folder.overlay(own):
        question = name, asked, data_folder.stamp()
        job = submitted(job_key, work, argument, title, lane, question)
    st.session_state[_QUEUED] = {*st.session_state.get(_QUEUED, ()), job_key}
    if not job.over:
        show_progress(job_key, cancel=partial(_cancel, name, asked))
        return None
    del st.session_state[job_key]
    if job.error:
        return RidgelineError(job.error)
    RESULTS.put((name, asked), job.result, job.size_bytes)
    return job.result


def _cancel(name: str, asked: Hashable) -> None:
    """Cancel this session's job, or only leave it if others wait for it."""
    job_key = f"{name}_job"
    if st.session_state[job_key].let_go():
        st.session_state[job_key].cancel()
    else:
        del st.session_state[job_key]
        st.session_state[f"{name}_result"] = (asked, RidgelineError("cancelled"))


def _let_go(job: Job) -> None:
    if job.let_go():
        job.abandon()


def measured_records(area: str) -> Columns | None:
    """The measured records of an area of page Accuracy; None while a job prices them."""
    key = ("accuracy", area)
    if RESULTS.get(key) is None and (kept := kept_records.read(area)) is not None:
        RESULTS.put(key, kept, len(pickle.dumps(kept)))
    title = f"Pricing every measured run ({area})"
    return shared_result("accuracy", kept_records.records, area, title)

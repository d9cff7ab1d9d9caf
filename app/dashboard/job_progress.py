"""Jobs on a page: their place in the queue, progress and buttons, until the result is available."""

from collections.abc import Callable, Hashable
from datetime import UTC, datetime
from typing import Any

import streamlit as st

from app.dashboard import visitor
from app.dashboard.page_texts import page_text
from app.dashboard.widgets import say_error
from app.jobs import Job, Lane, server_queue
from app.jobs.job_files import Work
from app.scenario.setup import Setup
from app.wording.markdown import plain


def is_running(key: str) -> bool:
    """Whether the job in the session state `key` has started and not ended."""
    job = st.session_state.get(key)
    return job is not None and not job.over


def submitted(
    key: str, work: Work, argument: Any, title: str, lane: Lane, question: Hashable = None
) -> Job:
    """The job in the session state `key`, polled; it is queued on the first call.

    Errors and arguments as `app.jobs.Queue.submit`.
    """
    if key not in st.session_state:
        st.session_state[key] = server_queue().submit(
            work, argument, title, lane, visitor.name(), question
        )
    job: Job = st.session_state[key]
    job.poll()
    return job


def start(key: str, work: Work, argument: Any, title: str, lane: Lane) -> None:
    """Queue a job in place of the one in the session state `key`, and redraw the page.

    Errors and arguments as `app.jobs.Queue.submit`.
    """
    st.session_state.pop(key, None)
    submitted(key, work, argument, title, lane)
    st.rerun()


@st.fragment(run_every=0.7)
def show_progress(key: str, note: str = "", cancel: Callable[[], None] | None = None) -> None:
    """Draw the progress of the job in the session state `key`; redraws the page when it ends.

    note: shown while the job stops.  cancel: called by the button instead of `Job.cancel`; it may
    remove the job from the session.
    """
    job = st.session_state.get(key)
    if job is not None:
        job.poll()
    if job is None or job.over:
        st.rerun()
    place = f"number {job.place} in this server's queue ({job.lane.name})"
    stage = place if job.place else job.what
    st.progress(min(max(job.share, 0.0), 1.0), plain(f"{job.title}: {stage}"))
    with st.container(horizontal=True):
        st.button(
            "Cancel", on_click=cancel or job.cancel, key=f"cancel_{key}", icon=":material/stop:"
        )
        if job.stopping:
            st.button("Stop at once", on_click=job.end, key=f"end_{key}")
            if note:
                st.caption(note)


def result_of(key: str, note: str = "") -> Any:
    """The result of the job in the session state `key`, None if there is none; its progress is
    drawn while it runs, its error if it failed.

    note: as of `show_progress`.
    """
    if is_running(key):
        show_progress(key, note)
    job = st.session_state.get(key)
    if job is None or not job.over:
        return None
    if job.error:
        say_error(job.error)
    return job.result


def kept_result(key: str, result_key: str, now: Setup) -> Any:
    """The last result of the job `key`, a setup and what was found for it; None if there is none.

    It is in the session state `result_key`, and remains while the next job runs and if that fails.
    A note says that there is none yet, or that it belongs to another question than `now`.
    """
    result = result_of(key)
    if not is_running(key):
        st.session_state.pop(key, None)
    if result is not None:
        st.session_state[result_key] = result
    shown = st.session_state.get(result_key)
    if shown is None and not is_running(key):
        st.info("Nothing has been simulated in this session yet.", icon=":material/play_arrow:")
    if shown is not None and shown[0] != now:
        st.info(page_text("earlier result"), icon=":material/history:")
    return shown


def show_interrupted(lane: Lane) -> None:
    """List this visitor's jobs that a restart of the server ended, until the visitor dismisses it.

    Errors as `app.jobs.server_queue`.
    """
    queue = server_queue()
    lost = queue.lost(lane)
    for job in lost:
        asked = datetime.fromtimestamp(job.asked, UTC).strftime("%Y-%m-%d %H:%M UTC")
        sentence = page_text("interrupted job", job=job, asked=asked)
        st.warning(plain(sentence), icon=":material/power_off:")
    if lost and st.button("Dismiss", key="dismiss_interrupted"):
        queue.interrupted[:] = [job for job in queue.interrupted if job not in lost]
        st.rerun()

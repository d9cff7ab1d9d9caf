"""Jobs on a page: their place in the queue, progress and buttons, until their result is there."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import streamlit as st

from app.dashboard import visitor
from app.jobs import Job, Lane, server_queue
from app.jobs.job_files import Work
from app.wording import quantities
from app.wording.markdown import plain


def is_running(key: str) -> bool:
    """Whether the job in the session state `key` has started and not ended."""
    job = st.session_state.get(key)
    return job is not None and not job.over


def submitted(key: str, work: Work, argument: Any, title: str, lane: Lane) -> Job:
    """The job in the session state `key`, polled; it is queued there the first time.

    Errors and arguments as `app.jobs.Queue.submit`.
    """
    if key not in st.session_state:
        st.session_state[key] = server_queue().submit(work, argument, title, lane, visitor.name())
    job: Job = st.session_state[key]
    job.poll()
    return job


@st.fragment(run_every=0.7)
def show_progress(key: str, name: str, note: str = "") -> None:
    """Draw the progress of the job in the session state `key`; redraws the page when it ends.

    name: ends the keys of its buttons, "cancel_run".  note: shown while the job stops.
    """
    job: Job = st.session_state[key]
    job.poll()
    if job.over:
        st.rerun()
    st.progress(min(max(job.share, 0.0), 1.0), plain(f"{job.title}: {_stage(job)}"))
    with st.container(horizontal=True):
        st.button("Cancel", on_click=job.cancel, key=f"cancel_{name}", icon=":material/stop:")
        if job.stopping:
            st.button("Stop at once", on_click=job.end, key=f"end_{name}")
            if note:
                st.caption(note)


def result_of(key: str, name: str, note: str = "") -> Any:
    """The result of the job in the session state `key`, None without one; meanwhile its progress is
    drawn, or what it failed of.

    name, note: as of `show_progress`.
    """
    if is_running(key):
        show_progress(key, name, note)
    job = st.session_state.get(key)
    if job is None or not job.over:
        return None
    if job.error:
        st.error(plain(job.error), icon=":material/error:")
    return job.result


def _stage(job: Job) -> str:
    """The present piece of work of a job, or its place in the queue."""
    if not job.place:
        return job.what
    return f"number {job.place} in the queue of this server ({job.lane.name})"


def show_interrupted(lane: Lane) -> None:
    """Say which of this visitor's jobs ended with the server before this one, until that is read.

    Errors as `app.jobs.server_queue`.
    """
    queue = server_queue()
    lost = queue.lost(lane)
    for job in lost:
        asked = datetime.fromtimestamp(job.asked, UTC).strftime("%Y-%m-%d %H:%M UTC")
        sentence = (
            f"{job.title}, asked for at {asked}, ended with the server at "
            f"{quantities.percent(job.share)} ({job.what}); nothing of it was kept."
        )
        st.warning(plain(sentence), icon=":material/power_off:")
    if lost and st.button("Dismiss", key="dismiss_interrupted"):
        queue.interrupted[:] = [job for job in queue.interrupted if job not in lost]
        st.rerun()

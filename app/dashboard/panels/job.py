"""A background job on a page: its progress, and the buttons that stop it."""

from __future__ import annotations

import streamlit as st

from app.measuring.background_job import Job
from app.wording.markdown import plain


def is_running(key: str) -> bool:
    """Whether the job in the session state `key` has started and not ended."""
    job = st.session_state.get(key)
    return job is not None and not job.over


@st.fragment(run_every=0.7)
def show_progress(key: str, name: str, note: str = "") -> None:
    """Draw the progress of the job in the session state `key`; redraws the page when it ends.

    name: ends the keys of its buttons, "cancel_run".  note: shown while the job stops.
    """
    job: Job = st.session_state[key]
    job.poll()
    if job.over:
        st.rerun()
    st.progress(min(max(job.share, 0.0), 1.0), plain(job.what))
    with st.container(horizontal=True):
        st.button("Cancel", on_click=job.cancel, key=f"cancel_{name}", icon=":material/stop:")
        if job.stop.is_set():
            st.button("Stop at once", on_click=job.end, key=f"end_{name}")
            if note:
                st.caption(note)

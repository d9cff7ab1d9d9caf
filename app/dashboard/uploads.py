"""What boxes for uploads share: names told apart, contents known again."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Protocol

import streamlit as st

from app.dashboard.job_progress import show_progress, submitted
from app.jobs import Lane
from app.jobs.order import Work
from genz_core.errors import ReportError


class Sent(Protocol):
    """A file that was uploaded, with what it is read by."""

    @property
    def name(self) -> str: ...


def unlike(name: str, taken: Mapping[str, object]) -> str:
    """The name, numbered where another upload has the same."""
    numbered = (f"{name} ({number})" for number in range(2, len(taken) + 3))
    return name if name not in taken else next(n for n in numbered if n not in taken)


@st.cache_data(max_entries=64, show_spinner=False)
def digest(file_id: str, _content: bytes) -> str:
    """Hash of a file's content, by the id that the browser's upload has."""
    return hashlib.sha256(_content).hexdigest()


def read_by_job(key: str, read: Work, sent: Sent, lane: Lane) -> Any | None:
    """What the job in the session state `key` has read of a file, None while it reads.

    Raises:
        ReportError: it cannot be read.
    """
    job = submitted(key, read, sent, f"Reading {sent.name}", lane)
    if not job.over:
        show_progress(key, key)
        return None
    if job.error:
        raise ReportError(job.error)
    del st.session_state[key]
    return job.result

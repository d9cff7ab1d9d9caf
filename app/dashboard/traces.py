"""The trace of requests uploaded by a visitor: its box in the form, and its content."""

import hashlib
import io

import streamlit as st

from app.dashboard.page_texts import page_text
from app.simulation import trace_file
from genz_core.errors import InvalidValue

_KEY, _READ, _MOST_MB = "sim_trace", "sim_trace_read", 200


def uploader() -> str:
    """Draw the box; returns the name of the file in it, or that there is none."""
    words = page_text("trace file")
    file = st.file_uploader("Trace", key=_KEY, max_upload_size=_MOST_MB, help=words)
    return "(no file yet)" if file is None else str(file.name)


def keyed(most: int) -> tuple[str, trace_file.Trace]:
    """The first `most` requests of the file in the box, 0 for all, with a key of its content."""
    file = st.session_state.get(_KEY)
    if file is None:
        raise InvalidValue("upload a trace first: CSV or JSON lines")
    asked, kept = (file.file_id, most), st.session_state.get(_READ, (None, "", None))
    if kept[0] != asked:
        content = file.getvalue()
        trace = trace_file.parse(io.BytesIO(content), file.name, most)
        key = f"{hashlib.sha256(content).hexdigest()} {most}"
        kept = st.session_state[_READ] = (asked, key, trace)
    return kept[1], kept[2]

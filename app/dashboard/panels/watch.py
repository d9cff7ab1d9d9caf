"""A recording of a server's metrics page beside its prediction."""

from __future__ import annotations

from typing import Any

import pandas as pd
import streamlit as st

from app.dashboard.job_progress import is_running, show_progress, submitted
from app.jobs import READING
from app.question.pairs import pairs
from app.watching.job_work import watched
from app.wording.markdown import plain
from genz_core.errors import RidgelineError

JOB = "watch_job"
_QUESTION = "model=meta-llama/Llama-3.1-8B system=h100 engine=vllm window=60"


def show_watch() -> None:
    """Draw the box, the progress of its job and what it came to."""
    st.caption(
        "`ridgeline watch ADDRESS --record FILE` records the page of vLLM, SGLang or llama.cpp; "
        "here it says when the server left its prediction, and why."
    )
    question = st.text_input("What serves", _QUESTION, key="watch_question")
    file = st.file_uploader("Recording", key="watch_file")
    if file is not None and st.button("Watch", key="watch_start", disabled=is_running(JOB)):
        try:
            given = pairs(question)
            st.session_state.pop(JOB, None)
            asked = given, file.name, file.getvalue()
            submitted(JOB, watched, asked, "Watch of a recording", READING)
            st.rerun()
        except RidgelineError as error:
            st.error(plain(str(error)), icon=":material/error:")
            return
    if is_running(JOB):
        show_progress(JOB, "watch")
    job = st.session_state.get(JOB)
    if job is not None and job.over:
        if job.error:
            st.error(plain(job.error), icon=":material/error:")
        else:
            _found(job.result)


def _found(document: dict[str, Any]) -> None:
    for sentence in document["sentences"]:
        st.markdown(plain(sentence))
    st.dataframe(pd.DataFrame(document["windows"]), key="watch_windows", hide_index=True)

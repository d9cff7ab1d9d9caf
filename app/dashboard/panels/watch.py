"""A recording of a server's metrics page beside its prediction."""

from __future__ import annotations

import shlex

import pandas as pd
import streamlit as st

from app.dashboard import sidebar
from app.dashboard.job_progress import is_running, result_of, start
from app.dashboard.widgets import saying_errors
from app.jobs import READING
from app.question.pairs import pairs
from app.question.question import STANDARD
from app.watching.job_work import watched
from app.wording.markdown import plain

JOB = "watch_job"
#: Parameters of the server that the box takes from the sidebar's question.
_SERVES = ("model", "system", "engine", "tp", "dp", "ep", "weights", "isl", "osl")


def show_watch(name: str, content: bytes) -> None:
    """Draw the box for the server, the progress of a recording's watch, and its result.

    name, content: of the recording.
    """
    st.caption(
        "A recording of a server's metrics page (`ridgeline watch ADDRESS --record FILE`): when "
        "the server left its prediction, and why."
    )
    scenario = sidebar.chosen_setup().scenario
    said = {name: getattr(scenario, name) for name in _SERVES}
    usual = {name: getattr(STANDARD, name) for name in _SERVES[2:]} | {"engine": None}
    words = [f"{k}={shlex.quote(str(v))}" for k, v in said.items() if v != usual.get(k) and v]
    question = st.text_input("What serves", " ".join([*words, "window=60"]), key="watch_question")
    with saying_errors():
        if st.button("Watch", key="watch_start", disabled=is_running(JOB)):
            given = pairs(question)
            start(JOB, watched, (given, name, content), "Watch of a recording", READING)
        if document := result_of(JOB, "watch"):
            for sentence in document["sentences"]:
                st.markdown(plain(sentence))
            st.dataframe(pd.DataFrame(document["windows"]), key="watch_windows", hide_index=True)

"""A search over a server's settings, with the simulator instead of a server."""

import shlex
from collections.abc import Mapping
from typing import Any

import pandas as pd
import streamlit as st

from app.dashboard import sidebar
from app.dashboard.job_progress import is_running, result_of, start
from app.dashboard.load_curves import load_of, under
from app.dashboard.page_texts import page_text
from app.dashboard.widgets import say_each, saying_errors
from app.jobs import SIMULATING
from app.planning.options import stated
from app.question.extras import extras_of
from app.question.pairs import pairs
from app.question.parameters import PARAMETERS
from app.question.query import ask
from app.question.question import Question
from app.tuning.job_work import dry_run

JOB = "tune_job"
_SETTINGS = "max_num_seqs=8,16,32,64 max_num_batched_tokens=512,2048 kv=checkpoint,fp8"


def show_tuning() -> None:
    """Draw the form, the progress of its job and the result, for the sidebar's question."""
    setup = sidebar.chosen_setup()
    loaded = under(setup, load_of(setup))
    st.caption(page_text("tuning"))
    st.caption(sidebar.describe(loaded))
    with st.form("tune_form"):
        settings = st.text_input("Settings to try", _SETTINGS, key="tune_settings")
        sent = st.form_submit_button("Dry run", disabled=is_running(JOB))
    with saying_errors():
        s, tried = loaded.scenario, pairs(settings)
        given = {"model": s.model, "system": s.system, **s.changed(), **tried}
        if sent:
            asked = {name: v for name, v in given.items() if name not in extras_of("tune")}
            ask("tune", asked)  # refused here, in a sentence
            start(JOB, dry_run, given, "Search of settings", SIMULATING)
        if document := result_of(JOB, "Stopping after the current run."):
            _found(document, s, tried)


def _found(document: dict[str, Any], question: Question, tried: Mapping[str, str]) -> None:
    say_each(document["sentences"])
    st.dataframe(pd.DataFrame(document["rows"]), key="tune_runs", hide_index=True)
    of_question = [name for name in PARAMETERS if name != "model" and name not in tried]
    words = ["ridgeline", "tune", question.model, *stated(question, of_question)]
    for name, value in tried.items():
        words += [f"--{name.replace('_', '-')}", value]
    words += ["--folder", "search", "--server", "vllm serve {model} --port {port}"]
    st.caption(page_text("tuning a server"))
    st.code(shlex.join(words), language="bash")

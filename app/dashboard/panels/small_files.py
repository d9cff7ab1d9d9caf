"""Uploaded files that are not runs: models, systems, recorded metrics, routed experts."""

import shlex
from collections.abc import Callable, Sequence
from functools import partial

import pandas as pd
import streamlit as st

from app.benchmarks.sent_files import SentFile, Unread
from app.dashboard import own_definitions, sidebar
from app.dashboard.job_progress import is_running, result_of, start
from app.dashboard.page_texts import page_text
from app.dashboard.uploads import Uploaded
from app.dashboard.widgets import draw_table, say_each, saying_errors
from app.decide.routing import read_counts
from app.jobs import READING
from app.question.pairs import pairs
from app.question.question import STANDARD
from app.watching.job_work import watched
from app.wording.markdown import plain
from genz_core.models.routing import busiest_rank

_RANKS = (2, 4, 8, 16, 32, 64, 72, 128)
JOB = "watch_job"
#: Parameters of the server that the box takes from the sidebar's question.
_SERVES = ("model", "system", "engine", "tp", "dp", "ep", "weights", "isl", "osl")


def parts_of(files: Uploaded) -> dict[str, Callable[[], None]]:
    """The parts of page Upload that these files fill, by title."""
    parts: dict[str, Callable[[], None]] = {}
    definitions = files.of_kind("model", "system")
    if definitions:
        parts["Model or system"] = lambda: _definitions(definitions)
    if recording := files.first("recording", "Metrics over time"):
        parts["Metrics over time"] = partial(show_watch, recording.name, recording.content)
    if counts := files.first("routing", "Routed experts"):
        parts["Routed experts"] = partial(_routing, counts)
    return parts


def _definitions(definitions: Sequence[tuple[str, Unread, SentFile]]) -> None:
    """Store the models and systems for the session, and draw the outcome of each."""
    for file_id, found, sent in definitions:
        kind: own_definitions.Kind = "models" if found.kind == "model" else "systems"
        if not own_definitions.is_read(file_id):  # it stays in its box when the page is redrawn
            name = sent.name.rpartition(".")[0] or sent.name
            own_definitions.keep(kind, name, sent.content, file_id)
        if len(definitions) > 1:
            st.caption(plain(sent.name))
        own_definitions.show_outcome(kind, file_id)


def _routing(sent: SentFile) -> None:
    """Draw the load of the busiest rank relative to the mean, by the number of ranks."""
    with sidebar.stopping():
        counts = read_counts(sent.content.decode("utf-8", "replace"))
        steps, layers, experts = counts.shape
        ranks = [many for many in _RANKS if experts % many == 0]
        rows = [{"expert parallel": many, "busiest rank over the mean": busiest_rank(counts, many),
                 "with one redundant expert per rank": busiest_rank(counts, many, many)}
                for many in ranks]  # fmt: skip
    sizes = {"layers": layers, "experts": experts, "steps": steps}
    st.markdown(page_text("routed experts", file=plain(sent.name), **sizes))
    draw_table(rows, "routing_rows", height="auto")
    st.page_link("views/chip_lab.py", label="Gain from redundant experts",
                 query_params={"part": "Uneven experts"}, icon=":material/memory_alt:")  # fmt: skip


def show_watch(name: str, content: bytes) -> None:
    """Draw the box for the server, the progress of a recording's watch, and its result."""
    st.caption(page_text("recording"))
    scenario = sidebar.chosen_setup().scenario
    said = {name: getattr(scenario, name) for name in _SERVES}
    usual = {name: getattr(STANDARD, name) for name in _SERVES[2:]} | {"engine": None}
    words = [f"{k}={shlex.quote(str(v))}" for k, v in said.items() if v != usual.get(k) and v]
    question = st.text_input("Deployment", " ".join([*words, "window=60"]), key="watch_question")
    with saying_errors():
        if st.button("Watch", key="watch_start", disabled=is_running(JOB)):
            given = pairs(question)
            start(JOB, watched, (given, name, content), "Watch of a recording", READING)
        if document := result_of(JOB):
            say_each(document["sentences"])
            st.dataframe(pd.DataFrame(document["windows"]), key="watch_windows", hide_index=True)

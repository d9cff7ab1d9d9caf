"""Traces of a model's own code, made by a job: a server never imports PyTorch for a page."""

import streamlit as st

from app.dashboard.job_progress import show_progress, submitted
from app.jobs import TRACING
from app.model_inside import builder_and_trace
from app.scenario.setup import Setup
from genz_core.errors import UnsupportedModel

_READY = "traces that are ready"


def is_trace_ready(setup: Setup, *, described: bool) -> bool:
    """Whether the trace that a page needs exists; if not, it is made, and its progress drawn.

    described: whether to trace even a model that a builder describes, to compare the two.

    Raises:
        RidgelineError: an unknown model, or one that cannot be traced.
    """
    key = f"trace {setup.scenario.model} {hash(setup.model_config):x}"
    ready: set[tuple[str, bool]] = st.session_state.setdefault(_READY, set())
    if (key, described) in ready:
        return True
    if builder_and_trace.is_trace_missing(setup, described=described):
        title = f"Tracing {setup.scenario.model}"
        job = submitted(key, builder_and_trace.keep_trace, setup, title, TRACING)
        if not job.over:
            show_progress(key, "trace")
            return False
        if job.error:
            raise UnsupportedModel(job.error)
    ready.add((key, described))
    return True

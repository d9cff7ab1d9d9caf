"""Traces of a model's own code, made by a job: a server never imports PyTorch for a page."""

from functools import partial

from app.dashboard.job_results import shared_result
from app.jobs import TRACING
from app.model_inside.builder_and_trace import is_trace_missing, keep_trace
from app.scenario.setup import Setup


def is_trace_ready(setup: Setup, *, described: bool) -> bool:
    """Whether the trace that a page needs exists; if not, it is made, and its progress drawn.

    described: whether to trace even a model that a builder describes, to compare the two.
    """
    missing = partial(is_trace_missing, setup, described=described)
    if missing():
        model = setup.scenario.model
        key = f"trace {model} {hash(setup.model_config):x}"
        shared_result(key, keep_trace, key, f"Tracing {model}", setup, TRACING)
    return not missing()

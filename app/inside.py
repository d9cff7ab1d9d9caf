"""A model from inside: one step of it priced, built by hand or traced, and both side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

import genz_core
import model_registry
from app import pricing, text
from app.pricing import Setup
from app.scenario import Resolved
from genz_core.errors import InvalidParallelism
from genz_core.estimate import StepEstimate
from genz_core.types import Model
from model_registry.structure import sums

#: What builder and trace are compared in: name, field of an operator, its classes, unit.
_FIGURES = (
    ("FLOPs of matrix products and experts", "flops", ("gemm", "moe", "convolution"), text.flops),
    ("FLOPs of attention and scans", "flops", ("attention", "ssm"), text.flops),
    ("FLOPs of the rest", "flops", ("norm", "pointwise", "embedding", "sampling"), text.flops),
    ("Weights read", "weight_bytes", (), text.size),
    ("Weights held", "held_weight_bytes", (), text.size),
    ("Cache read", "kv_read_bytes", (), text.size),
    ("Cache written", "kv_write_bytes", (), text.size),
    ("Cache held", "held_kv_bytes", (), text.size),
)


@st.cache_resource(max_entries=16, show_spinner="Tracing the model's own code …")
def traced(setup: Setup) -> Model:
    """The model of a setup as transformers' own code runs it, from its config alone.

    Raises:
        RidgelineError: there is no such code here, or it needs remote code.
    """
    name, config = setup.scenario.model, setup.model_config
    source: Any = pricing.parse_config(config) if config else name
    return model_registry.traced(source, **setup.scenario.precisions)


def step(asked: Resolved, model: Model, phase: str) -> StepEstimate:
    """One step of `model` in a scenario: the prefill, or the decode step halfway the output.

    Raises:
        RidgelineError: degrees that cannot split the model.
    """
    from profilers.collect.eager import as_run

    scenario = asked.scenario
    runs, degrees = as_run(model, asked.engine), scenario.parallelism
    if message := runs.invalid(degrees):
        raise InvalidParallelism(message)
    if phase == "prefill":
        return genz_core.prefill(runs, asked.system, scenario.workload, degrees, asked.engine)
    context = scenario.isl + scenario.osl // 2
    return genz_core.decode_step(runs, asked.system, scenario.batch, context, degrees, asked.engine)


def beside(built: Model, trace: Model, one: StepEstimate, other: StepEstimate) -> pd.DataFrame:
    """Builder and trace, a row a figure; per device and step."""
    rows = [_row("Parameters", built.parameters, trace.parameters, text.parameters)]
    rows.append(
        _row("Active per token", built.active_parameters, trace.active_parameters, text.parameters)
    )
    for name, field, classes, words in _FIGURES:
        built_sum, traced_sum = (sums(priced.graph, field, classes) for priced in (one, other))
        rows.append(_row(name, built_sum, traced_sum, words))
    mine, theirs = (float(np.sum(priced.operators_s)) for priced in (one, other))
    rows.append(_row("Predicted time of the operators", mine, theirs, text.seconds))
    return pd.DataFrame(rows)


def _row(
    name: str, built: float, traced: float, words: Callable[[float], str]
) -> Mapping[str, str]:
    same = abs(built - traced) <= 5e-4 * max(built, traced)
    return {
        "figure": name,
        "builder": words(built),
        "trace": words(traced),
        "trace against builder": "same" if same else text.change(built, traced),
    }

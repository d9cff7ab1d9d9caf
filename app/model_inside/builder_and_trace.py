"""A model from inside: one step of it priced, built by hand or traced, and both side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd

import genz_core
import model_registry
from app.model_inside import layer_tree
from app.scenario import intervals
from app.scenario.intervals import Latency
from app.scenario.scenario import Resolved, Scenario
from app.scenario.setup import Setup, parse_config
from app.wording import quantities
from genz_core.errors import InvalidParallelism
from genz_core.step import StepEstimate
from genz_core.types import Model, Op
from model_registry.reports.symbolic import graph_total

#: What builder and trace are compared in: name, field of an operator, its classes, unit.
_FIGURES = (
    (
        "FLOPs of matrix products and experts",
        "flops",
        ("gemm", "moe", "convolution"),
        quantities.flops,
    ),
    ("FLOPs of attention and scans", "flops", ("attention", "ssm"), quantities.flops),
    (
        "FLOPs of the rest",
        "flops",
        ("norm", "pointwise", "embedding", "sampling"),
        quantities.flops,
    ),
    ("Weights read", "weight_bytes", (), quantities.size),
    ("Weights held", "held_weight_bytes", (), quantities.size),
    ("Cache read", "kv_read_bytes", (), quantities.size),
    ("Cache written", "kv_write_bytes", (), quantities.size),
    ("Cache held", "held_kv_bytes", (), quantities.size),
)


def traced(setup: Setup) -> Model:
    """The model of a setup as transformers' own code runs it, from its config alone.

    Raises:
        RidgelineError: there is no such code here, or it needs remote code.
    """
    name, config = setup.scenario.model, setup.model_config
    source: Any = parse_config(config) if config else name
    return model_registry.traced(source, **setup.scenario.precisions)


def step(asked: Resolved, model: Model, phase: str) -> StepEstimate:
    """One step of `model` in a scenario: the prefill, or the decode step halfway the output.

    Raises:
        RidgelineError: degrees that cannot split the model.
    """
    from genz_core.eager import as_run

    scenario = asked.scenario
    runs, degrees = as_run(model, asked.engine), scenario.parallelism
    if message := runs.invalid(degrees):
        raise InvalidParallelism(message)
    if phase == "prefill":
        return genz_core.prefill(runs, asked.system, scenario.workload, degrees, asked.engine)
    context = halfway(scenario)
    return genz_core.decode_step(runs, asked.system, scenario.batch, context, degrees, asked.engine)


def halfway(scenario: Scenario) -> int:
    """Tokens in the cache of a sequence that has half of its output."""
    return scenario.isl + scenario.osl // 2


def operators(steps: Mapping[str, StepEstimate]) -> dict[str, tuple[StepEstimate, int]]:
    """Every operator that takes time by "side op:row", the costliest of each side first."""
    return {
        f"{side} op:{row}": (step, row)
        for side, step in steps.items()
        for row in np.argsort(-step.operators_s[:, 0], kind="stable")
        if step.operators_s[row, 0] > 0
    }


def called(name: str, step: StepEstimate, row: int, *, with_side: bool) -> str:
    """An operator as a list names it: "qkv_proj · layers 0–31, trace".

    name: its key in `operators`.  with_side: say whether it is of the builder or of the trace.
    """
    op = step.graph.ops[row]
    side = f", {name.partition(' ')[0]}" if with_side else ""
    return f"{op.name} · {place(op)}{side}"


def place(op: Op) -> str:
    """Where in the model an operator runs: its layers, or the stage before or after them."""
    return layer_tree.ranges(op.layers) if op.layers else f"{op.stage} stage"


def beside(built: Model, trace: Model, one: StepEstimate, other: StepEstimate) -> pd.DataFrame:
    """Builder and trace, a row a figure; per device and step."""
    rows = [_row("Parameters", built.parameters, trace.parameters, quantities.parameters)]
    rows.append(
        _row(
            "Active per token",
            built.active_parameters,
            trace.active_parameters,
            quantities.parameters,
        )
    )
    for name, field, classes, words in _FIGURES:
        built_sum, traced_sum = (
            graph_total(priced.graph, field, classes) for priced in (one, other)
        )
        rows.append(_row(name, built_sum, traced_sum, words))
    mine, theirs = operators_latency(one), operators_latency(other)
    timed = _row(
        "Predicted time of the operators", mine.seconds, theirs.seconds, quantities.seconds
    )
    trusted = {side: said(one) for side, one in (("builder", mine), ("trace", theirs))}
    return pd.DataFrame([*rows, {**timed, **trusted}])


def said(one: Latency) -> str:
    return f"{quantities.seconds(one.seconds)} (80 %: {one.trust})"


def operators_latency(step: StepEstimate) -> Latency:
    """All operators of a step, without the host."""
    return Latency.total(intervals.of_rows(intervals.operator_table(step)))


def _row(
    name: str, built: float, traced: float, words: Callable[[float], str]
) -> Mapping[str, str]:
    same = abs(built - traced) <= 5e-4 * max(built, traced)
    return {
        "figure": name,
        "builder": words(built),
        "trace": words(traced),
        "trace against builder": "same" if same else quantities.change(built, traced),
    }

"""One step of a model's graph priced, from its builder or from a trace, and both compared."""

from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd

import genz_core
import model_registry
from app.model_inside import layer_tree
from app.model_inside.operator_detail import mean_graph
from app.scenario import operator_intervals
from app.scenario.intervals import Ranged
from app.scenario.scenario import Resolved
from app.scenario.setup import Setup, source_of
from app.wording import quantities
from genz_core.common.progress import Cancel, Progress
from genz_core.errors import InvalidParallelism
from genz_core.graphs import Model, Op
from genz_core.steps.step_estimate import StepEstimate
from model_registry.reports.symbolic import graph_total

#: Figures by which builder and trace are compared: name, field and operator classes, description.
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


def traced_model(setup: Setup) -> Model:
    """The model of a setup as traced from transformers' own code, from its config alone.

    Raises:
        RidgelineError: there is no such code here, or it needs remote code.
    """
    return model_registry.traced(_source(setup), **setup.scenario.precisions)


def is_trace_missing(setup: Setup, *, described: bool) -> bool:
    """Whether the trace of a setup must still be made, by a job, because it imports PyTorch.

    described: whether to trace even a model that a builder describes, to compare the two.

    Raises:
        RidgelineError: an unknown name, or a config that cannot be read.
    """
    return model_registry.is_trace_missing(_source(setup), described=described)


def keep_trace(setup: Setup, progress: Progress, cancelled: Cancel) -> None:
    """Trace the model of a setup in a job's process; the registry stores the trace on disk."""
    progress(0.1, "running the model's own code without weights")
    traced_model(setup)


def _source(setup: Setup) -> str | Mapping[str, Any]:
    return source_of(setup.scenario.model, setup.model_config)


def priced_step(resolved: Resolved, model: Model, phase: str) -> StepEstimate:
    """The estimate of one step of `model` with the scenario, system and engine of `resolved`.

    phase: "prefill", or "decode" for the mean step over the output, as in tables of operators.

    Raises:
        RidgelineError: degrees that cannot split the model.
    """
    from genz_core.eager import as_run

    scenario = resolved.scenario
    runs, degrees = as_run(model, resolved.engine), scenario.parallelism
    if message := runs.invalid(degrees):
        raise InvalidParallelism(message)
    if phase == "prefill":
        return genz_core.prefill(runs, resolved.system, scenario.workload, degrees, resolved.engine)
    return genz_core.decode(runs, resolved.system, scenario.workload, degrees, resolved.engine)


def operator_place(op: Op) -> str:
    """The layers that an operator runs in, or its stage before or after them, as text."""
    return layer_tree.layer_ranges(op.layers) if op.layers else f"{op.stage} stage"


def compared_figures(
    models: tuple[Model, Model], steps: tuple[StepEstimate, StepEstimate]
) -> pd.DataFrame:
    """Builder and trace compared, one row per figure: of the model, or of one step on one device.

    models: of the builder and of the trace.  steps: one of each, priced with the same inputs.
    """
    built, traced = models
    rows = [
        _row("Parameters", built.parameters, traced.parameters, quantities.parameters),
        _row("Active per token", built.active_parameters, traced.active_parameters,
             quantities.parameters),
    ]  # fmt: skip
    graphs = [mean_graph(step) for step in steps]
    for name, field, classes, words in _FIGURES:
        built_sum, traced_sum = (graph_total(graph, field, classes) for graph in graphs)
        rows.append(_row(name, built_sum, traced_sum, words))
    built_time, traced_time = map(operators_latency, steps)
    row = _row(
        "Predicted time of the operators",
        built_time.value,
        traced_time.value,
        quantities.seconds,
    )
    trusted = {"builder": latency_words(built_time), "trace": latency_words(traced_time)}
    return pd.DataFrame([*rows, {**row, **trusted}])


def latency_words(latency: Ranged) -> str:
    """A latency with its interval: "4.52 ms (80 %: 4.2 to 5.1 ms)"."""
    return f"{quantities.seconds(latency.value)} (80 %: {latency.trust})"


def operators_latency(step: StepEstimate) -> Ranged:
    """The sum of a step's operators with its interval, without host and pipeline wait."""
    return Ranged.total(operator_intervals.of_rows(operator_intervals.operator_table(step)))


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

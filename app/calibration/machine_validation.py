"""Validate a calibration: predict a model that the fit did not use, measure it here, compare.

The fit uses microbenchmarks only: no time of a whole step, and no matrix product of the model's
shape.
"""

import datetime
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import model_registry
from app.calibration.machine import ThisMachine, fit_machine, measure_machine
from app.measuring.prediction import RunContext, agreements, step_rows
from genz_core.common.progress import Cancel, Progress, never, part, silent
from genz_core.eager import as_run
from genz_core.errors import MeasurementError
from genz_core.graphs import Model
from genz_core.types import Group, Parallelism, Step
from profilers.collect.agreement import Agreement
from profilers.collect.clock import SHARED
from profilers.collect.steps import StepRun, measure_steps
from profilers.steps import StepPoint

#: A Llama of 0.47 B parameters with the shape of small published ones (grouped heads of 64,
#: SwiGLU).
LLAMA_HALF_BILLION: Mapping[str, Any] = {
    "_id": "Llama-shaped, 0.47 B",
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 64,
    "vocab_size": 32000,
    "max_position_embeddings": 4096,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "hidden_act": "silu",
    "tie_word_embeddings": True,
    "torch_dtype": "bfloat16",
}

#: Prompts of 128 to 1,024 tokens, contexts of 128 to 2,048, batches of 1 to 8.
POINTS: Sequence[StepPoint] = (
    *(
        StepPoint("prefill", batch, isl)
        for batch, isl in (
            (1, 128), (1, 256), (1, 512), (1, 1024), (2, 256), (4, 128), (4, 256), (8, 128),
        )
    ),
    *(
        StepPoint("decode", batch, context)
        for batch, context in (
            (1, 128), (1, 512), (1, 1024), (1, 2048), (2, 512), (2, 2048), (4, 256), (4, 1024),
            (8, 128), (8, 512), (8, 2048),
        )
    ),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Validation:
    """Predictions and measurements of a model on this machine.

    machine: fitted before and after the run.  rows: of `step_rows`, for steps that ran.  phases:
    agreement by phase, and "all".  day: ISO date.
    """

    model: str
    parameters: int
    machine: ThisMachine
    run: StepRun
    rows: tuple[dict[str, Any], ...]
    phases: Mapping[str, Agreement]
    day: str

    @property
    def overall(self) -> Agreement:
        """Agreement over all points of both phases."""
        return self.phases["all"]

    @property
    def noise(self) -> float:
        """Median over the points of half the range of their repeats; NaN without repeats."""
        spreads = [step.spread for step in self.run.steps if len(step.samples_s) > 1]
        return statistics.median(spreads) if spreads else float("nan")

    @property
    def doubts(self) -> tuple[str, ...]:
        """Reasons to doubt the figures, one sentence each."""
        sentences = []
        if self.run.threads > 1 and self.machine.contention > SHARED:
            sentences.append(
                f"other programs used the cores (contention {self.machine.contention:.2f}): "
                f"{self.run.threads} threads that wait for each other then slow down by large "
                f"factors; measure with --threads 1, or on an idle machine"
            )
        if any(len(step.samples_s) == 1 for step in self.run.steps):
            sentences.append(
                "the noise cannot be estimated from points measured once; give --rounds 2 or more"
            )
        return tuple(sentences)


def validate(
    calibrated: ThisMachine,
    config: Mapping[str, Any] | None = None,
    points: Sequence[StepPoint] = POINTS,
    rounds: int = 3,
    progress: Progress = silent,
    cancelled: Cancel = never,
) -> Validation:
    """Measure a model's steps on this machine and compare them with the calibrated predictions.

    The microbenchmarks run again after the model, and the fit uses both sets: the speed of a shared
    machine drifts, and the model's run lies between the two.

    Args:
        config: of the model, as in config.json; default: `LLAMA_HALF_BILLION`.
        points: the steps to measure.  rounds: measurements of each.

    Raises:
        MeasurementError: the model does not run, or one of its products is a calibration point.
    """
    from profilers.collect.measured_model import RunSettings

    wanted = dict(LLAMA_HALF_BILLION if config is None else config)
    model = model_registry.load(wanted)
    shared = shared_products(model, calibrated, points)
    if shared:
        raise MeasurementError(
            f"{len(shared)} of the model's products are calibration points, such as {shared[0]}: "
            f"its error would prove nothing; choose another model"
        )
    before = calibrated.measurements
    settings = RunSettings(wanted, device=before.device)
    run = measure_steps(settings, points, rounds, part(progress, 0.0, 0.85), cancelled)
    after = measure_machine(
        before.device, run.threads, part(progress, 0.85, 1.0), never if run.cancelled else cancelled
    )
    calibrated = fit_machine(before.joined(after))
    context = RunContext(model, calibrated.system, calibrated.engine)
    rows = tuple(row for row in step_rows(run.steps, context) if row["status"] == "ok")
    return Validation(
        model=str(wanted.get("_id", model.name)),
        parameters=run.parameters,
        machine=calibrated,
        run=run,
        rows=rows,
        phases=agreements(rows),
        day=datetime.date.today().isoformat(),
    )


def shared_products(
    model: Model, calibrated: ThisMachine, points: Sequence[StepPoint]
) -> list[tuple[int, int, int]]:
    """(m, n, k) of the model's products in eager execution that are also calibration points."""
    fitted_on = {
        tuple(int(result.dims[name]) for name in ("m", "n", "k"))
        for result in calibrated.suite.results_of("gemm")
    }
    products = set()
    for point in points:
        new = point.length if point.phase == "prefill" else 1
        step = Step((Group(float(point.batch), float(new), float(point.length - new)),))
        for op in as_run(model, calibrated.engine).graph(step, Parallelism()).ops:
            if op.kind == "gemm":
                products.add(tuple(int(np.max(op.dims[name])) for name in ("m", "n", "k")))
    return sorted(products & fitted_on)  # type: ignore[arg-type]

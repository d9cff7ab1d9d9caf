"""Runs measured and kept on this machine: the measurement, its comparison, its artifacts."""

import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from app.measuring import nsight, prompts, ranks, sweep
from app.measuring.comparison import compared
from app.measuring.completion import system_differs
from app.measuring.live import run_live
from app.measuring.outcome import Outcome, Swept
from app.measuring.own_sources import keep_sources, own_context
from app.measuring.prediction import RunContext
from app.wording import quantities
from genz_core import Estimate, Workload, estimate
from genz_core.common.progress import Cancel, Progress, never, silent
from genz_core.errors import InvalidValue, MeasurementError, RidgelineError
from genz_core.types import Parallelism, Step
from hardware_db.data_folder import data_folder, data_folders
from profilers import Comparison, Measurement
from profilers.phases.what_ran import what_was_kept
from profilers.runs.artifacts import write_artifacts
from profilers.runs.run_bundle import Material
from profilers.runs.run_config import RunConfig
from profilers.runs.store import Store

Runner = Callable[[RunConfig, Path, Progress, Cancel], Outcome]


def store() -> Store:
    """The store that new runs are kept in."""
    return Store(data_folder() / "runs")


def stores() -> list[Store]:
    """The store that new runs are kept in, and read-only ones."""
    return [Store(folder / "runs") for folder in reversed(data_folders())]


def execute(config: RunConfig, progress: Progress = silent, cancelled: Cancel = never) -> str:
    """Measure what a run configuration describes and keep it; returns the id of the run.

    The store is opened first: a run of minutes must not fail at a folder that cannot be written.

    Raises:
        MeasurementError: the run failed or ran out of memory, or nothing of it can be kept.
        Cancelled: it was stopped before anything was complete.
    """
    return _executed(config, progress, cancelled)[0]


def execute_sweep(
    config: RunConfig, progress: Progress = silent, cancelled: Cancel = never
) -> tuple[str, Swept | None]:
    """`execute` a sweep; returns the id of the run, and its steps with their predictions."""
    identity, outcome = _executed(config, progress, cancelled)
    return identity, outcome.swept


def _executed(config: RunConfig, progress: Progress, cancelled: Cancel) -> tuple[str, Outcome]:
    with scratch() as folder:
        outcome = perform(config, folder, progress, cancelled)
        if outcome.out_of_memory:
            raise MeasurementError(outcome.measurement.notes[0])
        return keep(outcome, config, folder), outcome


@contextmanager
def scratch(kept: bool = True) -> Iterator[Path]:
    """A temporary folder for the files of a run, in the store if the run is to be kept.

    Raises:
        MeasurementError: it cannot be made.
    """
    if kept:
        with store().scratch() as folder:
            yield folder
    else:
        with tempfile.TemporaryDirectory(prefix="ridgeline-") as name:
            yield Path(name)


def perform(
    config: RunConfig, scratch: Path, progress: Progress = silent, cancelled: Cancel = never
) -> Outcome:
    """Measure one workload here or inside Nsight, a sweep, several ranks, or prompts.

    Args:
        config: of one of these kinds; by default one workload in this process.
        scratch: a folder for the files of the run.

    Raises:
        InvalidValue: the configuration asks for several kinds of runs.
        MeasurementError: the run failed.  Cancelled: it was stopped too early.
    """
    runners: dict[str, tuple[bool, Runner]] = {
        "Nsight": (config.nsys.enable or config.ncu.enable, nsight.run_inside),
        "a sweep": (bool(config.sweep.batches), sweep.run_sweep),
        "ranks": (bool(config.ranks.tp), ranks.run_ranked),
        "prompts": (bool(config.prompts.files or config.prompts.lengths), prompts.run_prompts),
    }
    kinds = {name: run for name, (enabled, run) in runners.items() if enabled}
    if len(kinds) > 1:
        raise InvalidValue(f"{' and '.join(kinds)} are separate kinds of runs: choose one of them")
    run = next(iter(kinds.values()), run_live)
    return run(config, scratch, progress, cancelled)


def keep(outcome: Outcome, config: RunConfig, folder: Path, tags: Sequence[str] = ()) -> str:
    """Store a run with its artifacts and the inputs of its prediction; returns its id.

    Its files are moved from `folder` to the store.
    """
    runs = store()
    with runs.draft(outcome.measurement, outcome.label) as draft:
        repeats = keep_sources(outcome, config, draft)
        write_artifacts(draft, replace(_material(outcome, config), inputs=repeats.to_dict()))
        _move(outcome.files, folder, draft)
        identity = runs.identity(draft)
    runs.tag(identity, *tags)
    return identity


def _material(outcome: Outcome, config: RunConfig) -> Material:
    """The data that the artifacts of a run are written from."""
    comparison, notes = _comparison(outcome)
    static = config.static_analysis.enable
    return Material(
        outcome.measurement, config.to_dict(), comparison,
        static=static_rows(outcome.measurement, outcome.context) if static else (),
        kernels=outcome.kernels,
        assumptions=[*_assumptions(config, outcome), *outcome.context.notes, *notes],
        commands=outcome.commands,
        metrics=outcome.metrics,
        steps=outcome.swept.rows if outcome.swept else (),
        prompts=outcome.prompts,
    )  # fmt: skip


def _comparison(outcome: Outcome) -> tuple[Comparison | None, list[str]]:
    """The run compared with its prediction; None where nothing is predicted, with the reason.

    Where the priced system is not the one that ran, no finding is stated, and a sentence names
    both.
    """
    try:
        predicted = predicted_estimate(outcome.measurement, outcome.context)
        if predicted is None:
            return None, []
        comparison = compared(predicted, outcome.measurement, outcome.reports)
    except RidgelineError as error:
        return None, [f"no prediction: {error}"]
    if apart := _priced_elsewhere(outcome):
        return replace(comparison, findings=()), apart
    return comparison, []


def _priced_elsewhere(outcome: Outcome) -> list[str]:
    """Sentences on why the priced system is not the system that ran."""
    system, threads = outcome.context.system, outcome.measurement.facts.get("threads")
    if system is None:
        return []
    found = [str(one) for one in system_differs(system, what_was_kept(outcome.measurement))]
    if system.kind == "cpu" and threads and system.compute_units not in (None, threads):
        ours, cores = quantities.counted(threads, "thread"), system.compute_units
        found.append(f"it ran on {ours}, and {system.name} is priced with {cores:g} cores")
    return [f"{sentence}; no finding is stated" for sentence in found]


def _move(files: Sequence[Path], source: Path, target: Path) -> None:
    """Move files to the same relative paths under another folder."""
    try:
        for file in files:
            place = target / file.relative_to(source)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.move(file, place)
    except OSError as error:
        raise MeasurementError(f"{target} cannot be written: {error.strerror}") from None


def predicted_estimate(measurement: Measurement, context: RunContext) -> Estimate | None:
    """The estimate of the measured workload, as its engine runs it.

    None without a model, a system or a workload.
    """
    load = measurement.workload
    if context.model is None or context.system is None or load is None:
        return None
    sizes = Workload(*_sizes(load))
    return estimate(
        context.model, context.system, sizes, context.split, context.engine, on_error="status"
    )


def _sizes(load: Workload) -> tuple[float, float, float]:
    return float(load.batch), float(load.isl), float(load.osl)  # type: ignore[arg-type]


def _assumptions(config: RunConfig, outcome: Outcome) -> list[str]:
    """Sentences on weights, omitted layers, system and engine behind the figures of a run."""
    layers, system = config.model.layers, outcome.context.system
    weights = "a checkpoint" if config.model.checkpoint else "random weights of its true shapes"
    sentences = [f"the model ran with {weights}; times do not depend on their values"]
    if layers and outcome.live is not None:
        sentences.append(
            f"it was cut to {layers} layers; times and operators are scaled to all, kernels and "
            "trace are of the cut model"
        )
    elif layers:
        sentences.append(
            f"it was cut to {layers} layers; times and predictions are of the cut model"
        )
    if system is not None:
        engine = outcome.context.engine
        sentences.append(f"predicted for {system.name} with the engine {engine.name}")
        sentences += system.assumptions
    return sentences


def own_estimate(kept: Store, identity: str) -> tuple[Estimate | None, RunContext]:
    """The estimate of a kept run, priced with the inputs stored with it.

    None if its model or its system is unknown here; the notes of the context say so.
    """
    measurement = kept.load(identity)
    context = own_context(kept.path(identity), measurement)
    return predicted_estimate(measurement, context), context


def static_rows(measurement: Measurement, context: RunContext) -> list[dict[str, Any]]:
    """Operators of a prefill and of the middle decode step with their FLOPs and bytes.

    phase, name, kind, class, module, runs, flops and bytes (of one run).  No hardware is involved;
    a model without a graph has no rows.
    """
    if context.model is None or measurement.workload is None:
        return []
    batch, isl, osl = _sizes(measurement.workload)
    steps = {"prefill": Step.prefill(batch, isl), "decode": Step.decode(batch, isl + osl / 2.0)}
    return [
        {
            "phase": phase, "name": op.name, "kind": op.kind, "class": op.operator_class,
            "module": op.module, "runs": op.count, "flops": float(np.max(op.flops)),
            "bytes": float(np.max(op.memory_bytes)),
        }
        for phase, step in steps.items()
        for op in context.model.graph(step, Parallelism()).ops
    ]  # fmt: skip

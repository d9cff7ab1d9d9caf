"""Run a model as a run file says, and keep it: measurement, comparison and artifacts."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from app.measuring import nsight, ranks, sweep
from app.measuring.comparison import compared
from app.measuring.live import run_live
from app.measuring.outcome import Outcome, Swept
from app.measuring.prediction import Setting
from genz_core import Estimate, Workload, estimate
from genz_core.errors import InvalidValue, MeasurementError, RidgelineError
from genz_core.types import Parallelism, Step
from hardware_db import library
from profilers import Measurement
from profilers.artifacts import write
from profilers.collect.progress import Cancel, Progress, never, silent
from profilers.material import Material
from profilers.store import Store


def store() -> Store:
    """The runs in the user's data folder."""
    return Store(library.data_folder() / "runs")


def refuse_path(name: str) -> None:
    """A visitor names models; files of the server are not theirs to open.

    Raises:
        InvalidValue: the name is a path.
    """
    if name.startswith((".", "/", "~", "\\")) or name.endswith((".json", ".yaml", ".yml")):
        raise InvalidValue(
            f"{name!r} is a path: give a name; `ridgeline runs start` takes files on this machine"
        )


def execute(tree: Mapping[str, Any], progress: Progress = silent, cancelled: Cancel = never) -> str:
    """Measure what a resolved run file asks and keep it; returns the id of the run.

    The store is opened first: a run of minutes must not end at a folder that cannot be written.

    Raises:
        MeasurementError: the run failed or ran out of memory, or nothing of it can be kept.
        Cancelled: it was stopped before anything was complete.
    """
    return _executed(tree, progress, cancelled)[0]


def execute_sweep(
    tree: Mapping[str, Any], progress: Progress = silent, cancelled: Cancel = never
) -> tuple[str, Swept | None]:
    """`execute` a run file that asks for a sweep; its steps beside their predictions as well."""
    identity, outcome = _executed(tree, progress, cancelled)
    return identity, outcome.swept


def _executed(
    tree: Mapping[str, Any], progress: Progress, cancelled: Cancel
) -> tuple[str, Outcome]:
    with scratch() as folder:
        outcome = perform(tree, folder, progress, cancelled)
        if outcome.out_of_memory:
            raise MeasurementError(outcome.measurement.notes[0])
        return keep(outcome, tree, folder), outcome


@contextmanager
def scratch(kept: bool = True) -> Iterator[Path]:
    """A folder for what a run writes, beside the runs if it is to be kept.

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
    tree: Mapping[str, Any], scratch: Path, progress: Progress = silent, cancelled: Cancel = never
) -> Outcome:
    """Measure what a resolved run file asks: one workload here or inside Nsight, a sweep, or
    several ranks; files go to `scratch`.

    Raises:
        InvalidValue: it asks for several of these.
        MeasurementError: the run failed.  Cancelled: it was stopped too early.
    """
    ways = {
        "Nsight": (nsight.asked, nsight.run_inside),
        "a sweep": (sweep.asked, sweep.run_sweep),
        "ranks": (ranks.asked, ranks.run_ranked),
    }
    wanted = {name: run for name, (asked, run) in ways.items() if asked(tree)}
    if len(wanted) > 1:
        raise InvalidValue(f"{' and '.join(wanted)} are runs of their own: ask for one of them")
    run = next(iter(wanted.values()), run_live)
    return run(tree, scratch, progress, cancelled)


def keep(outcome: Outcome, tree: Mapping[str, Any], folder: Path, tags: Sequence[str] = ()) -> str:
    """Keep a run with its artifacts; returns its id.  Its files move there from `folder`."""
    measurement, known = outcome.measurement, outcome.known
    predicted, found, notes = None, None, list(known.notes)
    try:
        predicted = prediction(measurement, known)
        found = compared(predicted, measurement, outcome.reports) if predicted else None
    except RidgelineError as error:
        notes.append(f"no prediction: {error}")
    material = Material(
        measurement, tree, found,
        static=static_rows(measurement, known) if tree["static_analysis"]["enable"] else (),
        kernels=outcome.kernels,
        assumptions=[*_basis(tree, outcome), *notes],
        commands=outcome.commands,
        metrics=outcome.metrics,
        steps=outcome.swept.rows if outcome.swept else (),
    )  # fmt: skip
    kept = store()
    with kept.draft(measurement, outcome.label) as draft:
        write(draft, material)
        _move(outcome.files, folder, draft)
        identity = kept.identity(draft)
    kept.tag(identity, *tags)
    return identity


def _move(files: Sequence[Path], source: Path, target: Path) -> None:
    try:
        for file in files:
            place = target / file.relative_to(source)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.move(file, place)
    except OSError as error:
        raise MeasurementError(f"{target} cannot be written: {error.strerror}") from None


def prediction(measurement: Measurement, known: Setting) -> Estimate | None:
    """The estimate of what a measurement ran, as its engine runs it; None where it is unknown."""
    load = measurement.workload
    if known.model is None or known.system is None or load is None:
        return None
    sizes = Workload(*_sizes(load))
    return estimate(known.model, known.system, sizes, known.split, known.engine, on_error="status")


def _sizes(load: Workload) -> tuple[float, float, float]:
    return float(load.batch), float(load.isl), float(load.osl)  # type: ignore[arg-type]


def _basis(tree: Mapping[str, Any], outcome: Outcome) -> list[str]:
    """What the figures of a run rest on, in sentences."""
    known, layers = outcome.known, tree["model"]["layers"]
    weights = "a checkpoint" if tree["model"]["checkpoint"] else "random weights of its true shapes"
    found = [f"the model ran with {weights}; times do not depend on their values"]
    if layers and outcome.live is not None:
        found.append(
            f"it was cut to {layers} layers; times and operators are scaled to all, kernels and "
            "trace are of the cut model"
        )
    elif layers:
        found.append(f"it was cut to {layers} layers; times and predictions are of the cut model")
    if known.system is not None:
        found.append(f"predicted for {known.system.name} with the engine {known.engine.name}")
        found += known.system.assumptions
    return found


def static_rows(measurement: Measurement, known: Setting) -> list[dict[str, Any]]:
    """Operators of a prefill and of the middle decode step with their FLOPs and bytes.

    No hardware enters; a model that is not known has no rows.
    """
    if known.model is None or measurement.workload is None:
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
        for op in known.model.graph(step, Parallelism()).ops
    ]  # fmt: skip

"""The requests of a measured run, as a simulation uses them."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from app.benchmarks.deployment import Deployment
from app.question.question import Question
from app.scenario.scenario import Resolved, asking
from app.simulation import rows
from app.simulation.offered_load import AT_A_RATE, PER_SLOT
from app.simulation.run import Run, run
from app.simulation.trace_file import Trace
from genz_core.common.progress import Cancel, Progress, never, silent
from genz_core.errors import OutOfMemory
from genz_core.serving.simulation import Requests
from genz_core.types import Array

#: Most requests of a simulation; of a longer run only the first ones are used.
MOST = 5000


def offered(deployment: Deployment) -> tuple[Resolved, dict[str, Any]]:
    """The question of a run, and the lengths of its requests where the file lists them.

    The users of a closed loop start together, as in benchmarks.  Requests at a rate keep their
    arrival times where the file lists these.

    Raises:
        InvalidValue: something required is missing.
    """
    resolved, measured = deployment.priced(), deployment.measurement.load
    question = resolved.scenario
    if trace := arrived(deployment):
        asked = asking(resolved, as_trace(question, trace.name))
        return asked, {**deployment.objects, "trace": trace}
    users = question.concurrency
    usual = max(users * PER_SLOT, 1) if users else AT_A_RATE
    count = min(measured.completed or measured.requests or usual, MOST)
    told: dict[str, Any] = {"requests": count}
    if users:
        told |= {"concurrency": min(users, count), "burst_start": True}
    pairs = listed_lengths(deployment.measurement.requests)
    if pairs is not None:
        told |= {"lengths": deployment.measurement.file or "requests", "length_ratio": None}
    objects = dict(deployment.objects) | ({} if pairs is None else {"lengths": pairs})
    return asking(resolved, replace(question, **told)), objects


def arrived(deployment: Deployment) -> Trace | None:
    """The requests of a run at a rate with their arrival times; None where the file does not list
    them all.
    """
    measurement, requests = deployment.measurement, deployment.measurement.requests
    if requests is None or not deployment.load.rate:
        return None
    known = requests[(requests["isl"] >= 1) & (requests["osl"] >= 1)]
    count = measurement.load.completed or measurement.load.requests or len(requests)
    if len(known) < _NEARLY_ALL * count or known["arrival_s"].isna().any():
        return None
    return trace_of(known.sort_values("arrival_s", kind="stable").head(MOST), measurement.file)


#: Share of a run's requests that a file must list to represent the run.
_NEARLY_ALL = 0.9


def trace_of(requests: pd.DataFrame, name: str) -> Trace:
    """Listed requests in order of arrival, the first at zero."""
    arrival = requests["arrival_s"].to_numpy(dtype=float)
    lengths = (requests[name].to_numpy(dtype=float) for name in ("isl", "osl"))
    return Trace(Requests(arrival - arrival[0], *lengths), name or "requests")


def as_trace(question: Question, name: str) -> Question:
    """The question with recorded requests instead of a random load."""
    return replace(
        question, concurrency=None, rate=None, burst_start=False, requests=None, burstiness=1.0,
        lengths=None, length_ratio=None, trace=name,
    )  # fmt: skip


def listed_lengths(requests: pd.DataFrame | None) -> Array | None:
    """Prompt and answer of every request that has both, [requests, 2]; None without any."""
    if requests is None:
        return None
    pairs = requests[["isl", "osl"]].to_numpy(dtype=float)
    known = pairs[(np.nan_to_num(pairs) >= 1.0).all(axis=1)]
    return known if len(known) else None


#: Factor on the memory of a device that is priced as if it had enough.
_ROOMY = 64.0


def with_room(resolved: Resolved) -> Resolved:
    """The deployment with enough memory, because a measured deployment did fit."""
    system = resolved.system
    return replace(resolved, system=replace(system, memory_bytes=system.memory_bytes * _ROOMY))


def run_as_measured(
    resolved: Resolved,
    objects: Mapping[str, Any],
    progress: Progress = silent,
    cancelled: Cancel = never,
    drawn: Trace | None = None,
) -> Run:
    """Simulate what was measured, with enough memory where it is predicted not to fit.

    Raises:
        RidgelineError, Cancelled: as `app.simulation.run.run`.
    """
    try:
        return run(resolved, objects, progress, cancelled, drawn=drawn)
    except OutOfMemory as error:
        said = f"{error}; since it ran, it is priced with enough memory"
        roomy = replace(with_room(resolved), notes=(*resolved.notes, said))
        return run(roomy, objects, progress, cancelled, drawn=drawn)


def figures_of(outcome: Run) -> dict[str, float]:
    """Every figure of a simulation under the names of a comparison's."""
    figures = rows.figures(outcome)
    figures["total_tokens_per_s"] = figures["input_tokens_per_s"] + figures["output_tokens_per_s"]
    return figures

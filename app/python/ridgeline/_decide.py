"""What to run: tables of deployments, plans, fleets, changing loads, costs, studies."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ridgeline._made import Own, verb

if TYPE_CHECKING:
    from app.decide.study import Study
    from app.fleets.result import Fleet
    from app.planning.result import Planned
    from app.planning.sweep_result import SweptTable
    from app.question.query import Query
    from app.scaling.availability import Available
    from app.scaling.scale import Scaled
    from genz_core.validity import OnError


@verb(
    Own(
        "output",
        "str | Path | None",
        None,
        "File for the table, .parquet or .csv; a stopped sweep continues there.",
    )
)
def sweep(
    query: Query, on_error: OnError, bounds_only: bool, output: str | Path | None
) -> SweptTable:
    """Price every combination of the values of some parameters.

    Numbers take a list, "1,2,4", or a range {"from": 1, "to": 8, "step": 1}; they vary in the order
    in which they are given.  Model, system, engine and formats take several names; the model may
    also be a YAML file of axes (docs/planning.md).

    Returns:
        A table, one row per combination.

    Raises:
        RidgelineError: an invalid axis or value.

    >>> table = sweep("meta-llama/Llama-3.1-8B", system="h100", batch=[1, 8, 64], tp=[1, 2])
    >>> len(table), table.rows[0]["status"]
    (6, 'ok')
    """
    from app.planning import sweep_result
    from app.scenario.local_files import sources

    return sweep_result.sweep(query, on_error, bounds_only, output, sources)


@verb()
def plan(query: Query) -> Planned:
    """Find the deployments that serve a load within targets, best first.

    Give exactly one of concurrency, rate and trace.  Degrees, formats, engines, systems and
    other parameters that take lists are tried in all combinations.

    Returns:
        The plans as a table, and in `to_dict()` why the others lose, changes that would allow a
        plan if there is none, launch commands, and the most useful measurement.

    Raises:
        RidgelineError: an invalid name, target or number.

    >>> found = plan("meta-llama/Llama-3.1-8B", system="h100", rate=4, target="tpot < 20ms")
    >>> found.best["devices"], found.best["status"]
    (1, 'ok')
    """
    from app.planning import result

    return result.plan(query)


def fleet(given: str | Path | Mapping[str, Any]) -> Fleet:
    """Choose which of several models runs on which of several kinds of machines, by priority.

    Args:
        given: the YAML file of a fleet, or its mapping: `machines` with a system, devices, a count,
            and owned or a price each; `models`, `plan` questions with a name and a priority;
            `question`, their common options; `budget` in dollars an hour (docs/fleets.md).

    Returns:
        What runs where as a table, with `models`, `machines`, `refusals` and `one_more`.

    Raises:
        RidgelineError: an invalid key, name or value.

    >>> machines = [{"system": "h100", "devices": 8, "owned": True}]
    >>> one = {"model": "meta-llama/Llama-3.1-8B", "engine": "vllm", "target": "tpot < 20ms"}
    >>> models = [{**one, "name": "chat", "rate": 30}, {**one, "name": "rest", "rate": 400,
    ...           "priority": 2}]
    >>> found = fleet({"machines": machines, "models": models, "question": {"simulate": False}})
    >>> [model["share"] == 1.0 for model in found.models]
    [True, False]
    """
    from app.fleets import result
    from app.scenario.local_files import sources

    return result.fleet(_document(given), sources)


@verb()
def scale(query: Query, **extras: Any) -> Scaled:
    """Simulate a load with autoscaled replicas, and again with a fixed number of them.

    A rate is that of the busiest hour; `day` gives the 24 hours as shares of it.  A trace is served
    as recorded or, with `day`, repeated over a day.  `replicas` is the fixed number.

    Returns:
        Both runs.  Printed, they show what autoscaling saves and which percentiles get worse;
        `rows` has their figures, `to_dataframe()` the windows of the day, `to_dict()` what
        `ridgeline scale --json` prints.

    Raises:
        RidgelineError: as `simulate`; invalid limits of the autoscaler, or targets that even a
        single request misses.

    >>> day = scale("meta-llama/Llama-3.1-8B", system="h100", engine="vllm", rate=0.05, osl=64,
    ...             day=[0] * 20 + [1] * 4, policy="keda", min_replicas=0)
    >>> day.following.figures()["replica_hours"] < 6 < day.fixed.figures()["replica_hours"]
    True
    """
    from app.scaling import scale as following

    return following.scale(query, **extras)


@verb()
def availability(query: Query, **extras: Any) -> Available:
    """Find how many replicas keep a share of requests within the targets, while some are lost.

    Returns:
        `bare`, the smallest number with none lost; `average`, the smallest number with random
        losses, None if no number is enough; `rows`, one row per number.

    Raises:
        RidgelineError: as `simulate`; or `max_replicas` is too small.

    >>> found = availability("meta-llama/Llama-3.1-8B", system="h100", engine="vllm", rate=30,
    ...                      requests=1000, ttft_target_s=0.5, share=99.9)
    >>> found.bare
    2
    """
    from app.scaling import availability as enough

    return enough.availability(query, **extras)


@verb()
def sensitivity(query: Query) -> dict[str, Any]:
    """How a deployment's figures depend on resources, its ridges, and the hardware that targets
    need.

    Returns:
        The output of `ridgeline sensitivity --json`.

    Raises:
        RidgelineError: as `estimate`.

    >>> found = sensitivity("meta-llama/Llama-3.1-8B", system="h100", change=10)
    >>> "bandwidth" in str(found)
    True
    """
    from app.decide import sensitivity_rows

    return sensitivity_rows.document(query)


@verb(
    Own(
        "kept_runs", "bool", True, "Take the power that a kept run near this load measured, if any."
    )
)
def economics(query: Query, kept_runs: bool) -> dict[str, Any]:
    """Token costs of a deployment: rented, owned, over a day, against an API; energy, carbon.

    Returns:
        The output of `ridgeline economics --json`.

    Raises:
        RidgelineError: as `estimate`.

    >>> found = economics("meta-llama/Llama-3.1-8B", system="h100", concurrency=64, price=2.5)
    >>> "rent" in str(found)
    True
    """
    from app.decide import economics as decide
    from app.measuring import run_store

    return decide.economics(query, run_store.stores() if kept_runs else ())


def study(study: str | Path | Mapping[str, Any]) -> Study:
    """Price every combination of the chips, formats and techniques of a study.

    Args:
        study: the document (docs/studies.md), or a YAML file of it.

    Returns:
        The study: `title`, and `rows` with speed, cost, energy, memory and the limiting resource.

    Raises:
        RidgelineError: invalid keys, names or values, or too many combinations.

    >>> shared = {"model": "meta-llama/Llama-3.1-8B", "system": "h200", "batch": 16}
    >>> chips = [{"name": "H200"}, {"name": "twice the bandwidth", "bandwidth": 2}]
    >>> as_it_is, faster = study({"question": shared, "chips": chips}).rows
    >>> faster["tpot_s"] < as_it_is["tpot_s"]
    True
    """
    from app.decide import study as decide
    from app.scenario.local_files import sources

    return decide.study(_document(study), sources)


def _document(given: str | Path | Mapping[str, Any]) -> Mapping[str, Any]:
    """The mapping of a document, given as such or as a YAML file."""
    from hardware_db import yaml_document

    return given if isinstance(given, Mapping) else yaml_document.read(Path(given))

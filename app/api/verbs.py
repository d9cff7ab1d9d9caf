"""The verbs: a body in, the document that the command line prints out.  Nothing is computed here.

No function below opens what a text names: models and systems are looked up by name alone
(`app.scenario.local_files` is out of reach, a contract says so), traces and reports are sent.
"""

from __future__ import annotations

import io
import math
from typing import Any

import numpy as np

from app.api.bodies import EstimateBody, PlanBody, Range, ServeBody, SimulateBody, SweepBody
from app.planning import result as planning
from app.planning import sweep_axes, sweep_file, sweep_result
from app.planning.manifests.bundle import check_kind
from app.scenario import results
from app.scenario.reading import phases_of
from app.scenario.summary import operator_rows
from app.simulation import result as simulation
from app.simulation import trace_file
from app.simulation.trace_file import Trace
from genz_core.errors import InvalidValue

#: Rows of a sweep, and requests of a simulation, in one answer.
MOST_SWEPT = 10_000
_NAMES = ("model", "system", "engine")
_PLAIN = ("batch", "isl", "osl", "tp", "pp", "dp", "ep", "cp")
_DEGREES = ("tp", "pp", "dp", "ep", "max_num_seqs")


def estimate(body: EstimateBody) -> dict[str, Any]:
    """Static batches: {"rows": [what `ridgeline estimate --json` prints]}."""
    found = results.estimate(**body.model_dump(exclude={"operators"}))
    rows = found.rows
    if body.operators:
        if not found.scalar:
            raise InvalidValue("operators are of one configuration: give numbers, not lists")
        priced = found.engine_estimate
        steps = {phase: getattr(priced, phase) for phase in phases_of(priced.model)}
        rows[0]["operators"] = {phase: operator_rows(step) for phase, step in steps.items()}
    return {"rows": rows}


def serve(body: ServeBody) -> dict[str, Any]:
    """Loads: {"rows": [what `ridgeline serve --json` prints]}."""
    return {"rows": results.serve(**body.model_dump()).rows}


def simulate(body: SimulateBody) -> dict[str, Any]:
    """What `ridgeline simulate --json` prints."""
    given = body.model_dump()
    given["trace"] = _trace(body.trace, body.requests)
    if body.lengths is not None:
        given["lengths"] = np.array(body.lengths, dtype=float)
    return simulation.simulate(**given).to_dict()


def _trace(text: str | None, count: float | None = None) -> Trace | None:
    """The requests in the text of a trace, or the first `count` of them."""
    if not text:
        return None
    return trace_file.parse(io.BytesIO(text.encode()), "trace", int(count or 0))


def sweep(body: SweepBody) -> dict[str, Any]:
    """Combinations: {"rows": [what `ridgeline sweep --json` prints]}.

    Raises:
        InvalidValue: more rows than one answer holds.
    """
    names = body.model_dump(include={*_NAMES, *results.FORMATS})
    given: dict[str, Any] = {
        name: value.plain() if isinstance(value, Range) else value
        for name in SweepBody.model_fields
        if name in sweep_axes.KNOWN and name not in names
        and (value := getattr(body, name)) is not None
    }  # fmt: skip
    if body.bounds_only or _several(names, given):
        axes = sweep_axes.sweep_axes(sweep_result.axes_of({**names, "axes": given}))
        _check_rows(len(axes))
        return {"rows": sweep_file.rows(sweep_file.table(axes, bounds_only=body.bounds_only))}
    _check_rows(math.prod(len(np.atleast_1d(values)) for values in given.values()))
    return {"rows": results.sweep(**names, on_error=body.on_error, axes=given).rows}


def _several(names: dict[str, Any], axes: dict[str, Any]) -> bool:
    """Whether more is asked than numeric axes of one model on one system."""
    return any(isinstance(name, list) for name in names.values()) or any(
        name not in _PLAIN or isinstance(values, dict) for name, values in axes.items()
    )


def _check_rows(rows: int) -> None:
    if rows > MOST_SWEPT:
        raise InvalidValue(f"{rows:,} rows: sweep at most {MOST_SWEPT:,} in one request")


def plan(body: PlanBody) -> dict[str, Any]:
    """What `ridgeline plan --json` prints; with a deployment, its files and notes."""
    given = body.model_dump()
    kind = given.pop("deployment")
    if kind:
        check_kind(kind)
    given["trace"] = _trace(body.trace)
    for name in _DEGREES:
        if isinstance(given[name], float):
            given[name] = [given[name]]
    if isinstance(given["devices"], float):
        given["devices"] = str(given["devices"])
    found = planning.plan(given.pop("model"), **given)
    named = found.to_dict()
    if kind:
        named["deployment"] = found.deployment(kind).document() if named["plans"] else None
    return named


def models(find: str = "") -> dict[str, Any]:
    """The models that ship, those whose names contain a text, as `ridgeline models --json`."""
    import model_registry

    columns = ("name", "model_type", "parameters", "active_parameters", "source")
    names = [name for name in model_registry.names() if find.casefold() in name.casefold()]
    described = (model_registry.describe(name) for name in names)
    return {"rows": [{key: facts[key] for key in columns} for facts in described]}


def model(name: str) -> dict[str, Any]:
    """A model, as `ridgeline models NAME --json`."""
    import model_registry

    return dict(model_registry.describe(name))


def systems(vendor: str = "", kind: str = "", find: str = "") -> dict[str, Any]:
    """The hardware that there is, as `ridgeline systems --json`."""
    from app.scenario import system_facts

    return {"rows": system_facts.listed(vendor, kind, find)}


def system(name: str) -> dict[str, Any]:
    """A system with the source of every figure, as `ridgeline systems NAME --json`."""
    from app.scenario import system_facts

    return system_facts.sourced_facts(name)

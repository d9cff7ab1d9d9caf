"""The measured figures of each engine, with the facts by which splits leave them out."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from packaging.version import InvalidVersion
from packaging.version import Version as PythonVersion

import hardware_db
from app.accuracy import measured_points
from app.question.question import Question
from app.scenario import points_file
from app.scenario.drafting import drafted
from app.scenario.points_row import Point, parse
from app.scenario.scenario import Resolved, resolve
from genz_core.calibration.engine_calibration import moved
from genz_core.calibration.operator_calibration import TOLERANCE
from genz_core.deployment import GRAPHS, bulk_format, with_defaults
from genz_core.engine import NO_RECIPE, EngineProfile, Recipe
from genz_core.systems import System
from genz_core.types import Array, Mask
from hardware_db.engine_files import prior_engine

#: Function (deployment, its rows, its engine) -> the engine used to price the rows.
Under = Callable[[Resolved, Sequence[int], EngineProfile], EngineProfile]
_LOW = 4  # users up to which an engine is nearly idle


@dataclass(frozen=True, slots=True)
class Target:
    """One measured figure: its row and the facts by which splits leave it out.

    run: id of the row.

    facts: model, system, configuration, source (of a published point), set ("serving" or
    "published"), engine, recipe (the key of `hardware_db.recipes.load_recipe`, joined by "|"), era
    and release of the engine, newest (the model if this is its newest release, else ""), tier of
    the latency profile, named (the model), load ("low" for one to four users, else "high", "" for a
    batch point), users (open requests per rank), output (mean output tokens of a served request),
    plausible ("no" if a figure of the row lies below the lower bound of its stated load).
    """

    row: int
    metric: str
    measured_s: float
    facts: Mapping[str, str]
    run: str = ""


@dataclass(slots=True)
class EngineFitData:
    """The measured figures of one engine, with rows grouped for pricing.

    A group shares model, formats and system, and therefore its constants.
    """

    engine: str
    prior: EngineProfile
    rows: list[Point]
    groups: list[tuple[Resolved, list[int]]]
    targets: list[Target]

    def logs(self, moves: Array, wanted: Mask | None = None, under: Under | None = None) -> Array:
        """ln(predicted / measured), [targets]; NaN for those not wanted.

        moves: change of the logarithm of each prior constant, [targets, constants].  under: further
        changes of the engine of some rows; without it there are no corrections from runs.
        """
        chosen = np.ones(len(self.targets), dtype=bool) if wanted is None else wanted
        of_row = {self.targets[at].row: moves[at] for at in np.flatnonzero(chosen)}
        priced: dict[int, points_file.Row] = {}
        for resolved, members in self.groups:
            if rows := [row for row in members if row in of_row]:
                engine = replace(moved(self.prior, of_row[rows[0]]), recipe=NO_RECIPE)
                engine = under(resolved, rows, engine) if under else engine
                priced |= self._price(resolved, rows, engine)
        predicted = [
            _figure(priced[target.row], target) if target.row in priced else np.nan
            for target in self.targets
        ]
        return np.log(predicted) - np.log([target.measured_s for target in self.targets])

    def logs_of(self, engine: EngineProfile) -> Array:
        """ln(predicted / measured) with one engine for every device and recipe, [targets]."""
        predicted = self.predicted_s(self.targets, engine)
        return np.asarray(np.log(predicted) - np.log([t.measured_s for t in self.targets]))

    def predicted_s(
        self, targets: Sequence[Target], engine: EngineProfile, recipe: Recipe | None = None
    ) -> Array:
        """Predictions of some targets with an engine [s], [targets]."""
        wanted = {target.row for target in targets}
        priced: dict[int, points_file.Row] = {}
        for resolved, members in self.groups:
            if wanted_members := [at for at in members if at in wanted]:
                scaled = replace(engine, recipe=recipe or NO_RECIPE)
                priced |= self._price(resolved, wanted_members, scaled)
        return np.array([_figure(priced[target.row], target) for target in targets])

    def _price(
        self, resolved: Resolved, rows: Sequence[int], engine: EngineProfile
    ) -> dict[int, points_file.Row]:
        """The priced rows by index, with the launches and captured graphs of the version."""
        if not resolved.engine.prompt_launch_s:
            engine = replace(engine, prompt_launch_s=0.0)
        engine = replace(engine, score_bytes=resolved.engine.score_bytes)
        engine = with_defaults(engine, resolved.engine, GRAPHS)
        under = replace(resolved, engine=engine)
        priced = points_file.price_group(under, [self.rows[at] for at in rows])
        return dict(zip(rows, priced, strict=True))


def _figure(row: points_file.Row, target: Target) -> float:
    return _number(row, points_file.FIGURES[target.metric].predicted)


def _number(row: points_file.Row, column: str) -> float:
    return float(row.get(column) or "nan")


def load_measurements(only: str = "") -> list[EngineFitData]:
    """The shipped measurements of every engine, or of the engine named `only`."""
    by_engine: dict[str, EngineFitData] = {}
    for source in ("published", "serving"):
        for row in measured_points.measured_rows(source):
            name = hardware_db.load_engine(row["engine"]).name
            if only and name != only:
                continue
            data = by_engine.setdefault(name, EngineFitData(name, prior_engine(name), [], [], []))
            at = len(data.rows)
            data.rows.append(parse(measured_points.as_run(row), row["id"]))
            data.targets += [Target(at, m, s, _facts(row), row["id"]) for m, s in _measured(row)]
    for data in by_engine.values():
        groups: dict[Any, list[int]] = defaultdict(list)
        for at, point in enumerate(data.rows):
            groups[point.group].append(at)
        data.groups = [(_resolved(data.rows[m[0]].query.question), m) for m in groups.values()]
        _add_group_facts(data)
        _add_newest(data)
        _add_plausible(data)
    return list(by_engine.values())


def _resolved(question: Question) -> Resolved:
    """A deployment with its drafts, but without the user's own calibrations."""
    return drafted(resolve(question))


def _add_group_facts(data: EngineFitData) -> None:
    """Add the facts engine, system, recipe, tier and model of its group to every target."""
    names: dict[int, dict[str, str]] = {}
    for resolved, members in data.groups:
        system, parameters = resolved.system, str(round(resolved.model.parameters))
        facts = {
            "engine": data.engine,
            "system": system.slug,
            "era": resolved.engine.era,
            "release": resolved.engine.version,
            "family": system.family,
            "parameters": parameters,
            "recipe": "|".join((parameters, system.slug, bulk_format(resolved.model))),
            "tier": system.latency.tier if system.latency else "default",
            "kernels": "own" if _timed_under(data.engine, system) else "",
            "named": resolved.model.name,
        }
        names |= dict.fromkeys(members, facts)
    data.targets = [replace(t, facts={**t.facts, **names[t.row]}) for t in data.targets]


def _timed_under(engine: str, system: System) -> bool:
    """Whether the matrix products of a system's latency profile were timed under an engine."""
    fits = system.latency.fits if system.latency else {}
    of_products = [fit for key, fit in fits.items() if key.startswith("gemm.")]
    timed = [fit.data_set for fit in of_products if fit.tier == "measured"]
    return bool(timed) and all(f"/{engine}/" in data_set for data_set in timed)


def _add_newest(data: EngineFitData) -> None:
    """Add to every target the model whose newest release it ran, "" for older releases.

    A model with a single release has no newest one: leaving that out would leave out the whole
    model.
    """
    releases: dict[str, set[str]] = defaultdict(set)
    for target in data.targets:
        if target.facts["set"] == "serving":
            releases[target.facts["named"]].add(target.facts["release"])
    newest = {
        model: max(known, key=PythonVersion)
        for model, names in releases.items()
        if len(names) > 1 and (known := [name for name in names if _is_release(name)])
    }

    def told(target: Target) -> str:
        model, release = target.facts["named"], target.facts["release"]
        of_newest = target.facts["set"] == "serving" and newest.get(model) == release
        return model if of_newest else ""

    data.targets = [replace(t, facts={**t.facts, "newest": told(t)}) for t in data.targets]


def _is_release(name: str) -> bool:
    try:
        return bool(PythonVersion(name))
    except InvalidVersion:
        return False


def _add_plausible(data: EngineFitData) -> None:
    """Add to every target whether its row is plausible at the load that it states.

    A row without a stated cache format is assumed to have an 8-bit one, the smallest that engines
    keep.
    """
    bounds: dict[int, points_file.Row] = {}
    for resolved, members in data.groups:
        smallest = replace(resolved.scenario, kv=resolved.scenario.kv or "fp8")
        bounds |= data._price(_resolved(smallest), members, data.prior)
    broken = {
        target.row
        for target in data.targets
        if target.measured_s * (1.0 + TOLERANCE)
        < _number(bounds[target.row], points_file.FIGURES[target.metric].bound)
    }
    data.targets = [
        replace(t, facts={**t.facts, "plausible": "no" if t.row in broken else "yes"})
        for t in data.targets
    ]


def _measured(row: Mapping[str, str]) -> list[tuple[str, float]]:
    if "phase" in row:
        return [(row["phase"], float(row["measured_s"]))]
    return [(metric, float(row[f"measured_{metric}"])) for metric in ("ttft_s", "tpot_s")]


def _facts(row: Mapping[str, str]) -> dict[str, str]:
    """Set, model and configuration of a measured row.

    A configuration is everything but the load; for published points it is source, device and model.
    """
    model, system = row.get("family") or row["model"], row["system"]
    if "phase" in row:
        return {
            "set": "published",
            "load": "",
            "users": "1",
            "source": row["source"],
            "model": model,
            "configuration": f"{row['source']}|{system}|{model}",
        }
    split = "/".join(row.get(k, "") for k in ("tp", "pp", "dp", "ep", "moe_tp", "isl", "osl"))
    return {
        "set": "serving",
        "users": str(float(row["concurrency"]) / float(row["dp"] or 1)),
        "source": "",
        "output": str(float(row["osl"]) * (1.0 + float(row.get("length_ratio") or 1.0)) / 2.0),
        "load": "low" if float(row["concurrency"]) <= _LOW else "high",
        "model": model,
        "configuration": f"{model}|{system}|{row['weights']}|{split}",
    }

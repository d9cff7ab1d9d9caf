"""A model as an engine runs it on a system: the three objects that every price is of.

`deploy` is the one place where they meet.  It applies, in this order:

1. the cache that the engine keeps where the user chose the weights' format and not the cache's;
2. what was measured of the engine on this device, and of this model and format there;
3. the form that the engine executes, where it was measured running eagerly.

All of it is known to the three objects already, so the same three give the same price to every
caller, and deploying twice changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from genz_core.eager import as_run
from genz_core.engine import LEAST, EngineProfile, MeasuredRecipe, RecipeKey
from genz_core.memo import ByIdentity
from genz_core.precision import bytes_of
from genz_core.short_repr import clipped
from genz_core.types import Graph, Model, Parallelism, Step, System


@dataclass(frozen=True, slots=True)
class Deployment:
    """What is priced.

    model: in the formats that the engine keeps.  engine: its constants and scales as measured
    here.  notes: what was assumed, in words.
    """

    model: Model
    system: System
    engine: EngineProfile
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        notes = f"; {len(self.notes)} notes" if self.notes else ""
        return (
            f"Deployment({clipped(self.model.name)} on {clipped(self.system.name)} "
            f"under {clipped(self.engine.name)}{notes})"
        )

    @property
    def executed(self) -> Model:
        """The model whose graphs are priced: `model`, or its unfused form under eager engines."""
        return as_run(self.model, self.engine)

    def graph(self, step: Step, parallelism: Parallelism) -> Graph:
        """The operators of a step as the engine executes them.

        Graphs of few configurations are kept: the same question is often asked again.
        """
        numbers = _numbers(step, parallelism)
        if numbers is None:
            return self.executed.graph(step, parallelism)
        return _GRAPHS.get(
            lambda: self.executed.graph(step, parallelism),
            self.model,
            self.engine.eager,
            values=numbers,
        )


def deploy(model: Model, system: System, engine: EngineProfile | None = None) -> Deployment:
    """The deployment of a model on a system under an engine (default: the generic one)."""
    if engine is None:
        engine = _GENERIC
    if engine.measurements is None and model.precision.kv_source != "convention":
        return Deployment(model, system, engine)
    return _DEPLOYMENTS.get(lambda: _deploy(model, system, engine), model, system, engine)


_GENERIC = EngineProfile()
_DEPLOYMENTS: ByIdentity[Deployment] = ByIdentity()


_GRAPHS: ByIdentity[Graph] = ByIdentity(256)
_FEW = 64  # numbers of a step that are cheaper to compare than its graph is to build


def _numbers(step: Step, parallelism: Parallelism) -> tuple[bytes | bool, ...] | None:
    """Every number that a graph depends on; None where there are many."""
    values = [getattr(parallelism, entry.name) for entry in _DEGREES]
    for group in step.groups:
        values += [group.sequences, group.new_tokens, group.cached_tokens]
    if sum(map(np.size, values)) > _FEW:
        return None
    return tuple(
        np.asarray(np.nan if value is None else value, float).tobytes() for value in values
    )


_DEGREES = fields(Parallelism)


def _deploy(model: Model, system: System, engine: EngineProfile) -> Deployment:
    model, notes = _with_cache(model, engine)
    engine = as_measured(engine, model, system)
    return Deployment(model, system, engine, notes)


def _with_cache(model: Model, engine: EngineProfile) -> tuple[Model, tuple[str, ...]]:
    """Apply the engine's default KV-cache format where the user chose the weights' format alone.

    Returns the model and the notes to show.
    """
    precision = model.precision
    weights, cache = precision.weights["default"], precision.kv
    chosen = precision.kv_source != "convention" or engine.kv_cache == "checkpoint"
    if chosen or bytes_of(weights) <= bytes_of(cache):
        return model, ()
    note = f"kv cache: {weights}, as {engine.name} keeps it unless told; checkpoints allow {cache}"
    return model.with_precision(replace(precision, kv=weights)), (note,)


def as_measured(engine: EngineProfile, model: Model, system: System) -> EngineProfile:
    """The engine with what was measured of it on a system, and with a model there.

    `measured_on` and `recipe` of the result say what was found; an engine without measurements
    stays as it is.
    """
    measured = engine.measurements
    if measured is None:
        return engine
    device = measured.devices.get(system.slug, {})
    recipe = measured.recipes.get(recipe_key(engine, model, system))
    return tuned(engine, device, recipe)


def tuned(
    engine: EngineProfile, device: Mapping[str, float], recipe: MeasuredRecipe | None = None
) -> EngineProfile:
    """The engine with the factors of a device, and of a recipe there, applied to its constants."""
    factors = (device, recipe.factors if recipe else {})
    changes: dict[str, Any] = dict(_scaled(engine, factors))
    changes |= {"measured_on": "device" if device else "", "measurements": None}
    if recipe is not None:
        changes |= {"measured_on": recipe.measured_on, "recipe": recipe.scales}
    return replace(engine, **changes)


def _scaled(engine: EngineProfile, levels: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """The constants that some factor moves, multiplied by the factors of all levels."""
    constants: dict[str, float] = {}
    for factors in levels:
        for name, factor in factors.items():
            if factor == 1.0:
                continue
            value = constants.get(name, max(getattr(engine, name), LEAST[name]))
            constants[name] = value * factor
    return constants


def recipe_key(engine: EngineProfile, model: Model, system: System) -> RecipeKey:
    """What measured runs of this engine, model and system are looked up by."""
    return RecipeKey(engine.name, round(model.parameters), system.slug, bulk_format(model))


def bulk_format(model: Model) -> str:
    """The number format that most of the model's weights are in."""
    graph = model.graph(Step.decode(1.0, 1.0), Parallelism())
    largest = max(graph.ops, key=lambda op: float(np.max(op.held_weight_bytes)) * op.count)
    return largest.weights

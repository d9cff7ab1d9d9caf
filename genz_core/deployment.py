"""Deployment of a model on a system under an engine: the input of every price.

`deploy` is the one place where the three meet.  It applies, in this order:

1. the tokens of a step that the engine's server chooses on a system of this memory, and on a CPU
   the engine's figures for CPUs;
2. the formats in which the engine loads a published checkpoint (`EngineProfile.loads`);
3. the engine's own cache format where the user chose a format for the weights and none for the
   cache;
4. the factors and scales that were measured for the engine on this device, and for this model and
   format on it;
5. the engine's padding, of sizes that a degree does not divide and of windows in the cache
   (`EngineProfile.pads`);
6. the unfused form of the model, where the engine was measured running eagerly, or its shared
   experts with the routed ones, where the engine runs them at once.

The result depends only on the three objects, and deploying the result again changes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol, cast

import numpy as np

from genz_core.beside import SharedBeside
from genz_core.common.memo import ByIdentity
from genz_core.common.short_repr import clipped
from genz_core.eager import as_run
from genz_core.engine import EngineProfile, MeasuredRecipe, RecipeKey
from genz_core.engine_constants import LEAST
from genz_core.graphs import Graph, Model
from genz_core.measured_runs import RunFacts
from genz_core.models.model_kinds import model_type, padded
from genz_core.models.speculative import SpeculativeModel
from genz_core.precision import bytes_of
from genz_core.systems import System
from genz_core.types import Group, Parallelism, Step

_GENERIC = EngineProfile()
_DEGREES, _SIZES = fields(Parallelism), fields(Group)
#: up to this many numbers, comparing a step with cached ones is cheaper than building its graph
_FEW = 64


class Placed(Protocol):
    """Placement of tensors in a second memory, as `genz_core.capacity.placement.Placement`."""

    def on(self, graph: Graph, step: Step) -> Graph:
        """The graph of a step with the placed tensors in the second memory."""
        ...


@dataclass(frozen=True, slots=True)
class Deployment:
    """A model on a system under an engine: the input of every price.

    model: in the formats that the engine keeps.  engine: with the constants and scales measured
    on this system.  notes: assumptions, in words.
    placement: what lies in the second memory of the system; None where nothing does.
    """

    model: Model
    system: System
    engine: EngineProfile
    notes: tuple[str, ...] = ()
    placement: Placed | None = None

    def __repr__(self) -> str:
        notes = f"; {len(self.notes)} notes" if self.notes else ""
        return (
            f"Deployment({clipped(self.model.name)} on {clipped(self.system.name)} "
            f"under {clipped(self.engine.name)}{notes})"
        )

    @property
    def executed(self) -> Model:
        """The model whose graphs are priced: `model`, its unfused form under eager engines, or its
        form with shared experts beside the routed ones.
        """
        run = as_run(self.model, self.engine)
        return SharedBeside(run) if self.engine.shared_beside and run is self.model else run

    def graph(self, step: Step, parallelism: Parallelism) -> Graph:
        """Graph of a step as the engine executes it; graphs of few configurations are cached."""
        graph = self._executed(step, parallelism)
        return graph if self.placement is None else self.placement.on(graph, step)

    def _executed(self, step: Step, parallelism: Parallelism) -> Graph:
        numbers = _numbers(step, parallelism)
        if numbers is None:
            return self.executed.graph(step, parallelism)
        return _GRAPHS.get(
            lambda: self.executed.graph(step, parallelism),
            self.model,
            self.engine.eager,
            self.engine.shared_beside,
            values=numbers,
        )


_DEPLOYMENTS: ByIdentity[Deployment] = ByIdentity()
_GRAPHS: ByIdentity[Graph] = ByIdentity(16)


def deploy(model: Model, system: System, engine: EngineProfile | None = None) -> Deployment:
    """The deployment of a model on a system with an engine (default: the generic profile)."""
    if engine is None:
        engine = _GENERIC
    plain = engine.measurements is None and model.precision.kv_source != "convention"
    plain = plain and not (engine.pads or engine.loads or _steps_on_start(engine))
    plain = plain and not engine.prompt_launch_s
    if plain and (system.kind != "cpu" or not engine.on_cpu):
        return Deployment(model, system, engine)
    return _DEPLOYMENTS.get(lambda: _deploy(model, system, engine), model, system, engine)


def _numbers(step: Step, parallelism: Parallelism) -> tuple[bytes, ...] | None:
    """Bytes of all numbers that a graph depends on, as a cache key; None for more than `_FEW`
    numbers.
    """
    values = [getattr(parallelism, entry.name) for entry in _DEGREES]
    for group in step.groups:
        values += [getattr(group, entry.name) for entry in _SIZES]
    if sum(map(np.size, values)) > _FEW:
        return None
    return tuple(
        repr(value).encode()
        if isinstance(value, str | tuple)
        else np.asarray(np.nan if value is None else value, float).tobytes()
        for value in values
    )


def _deploy(model: Model, system: System, engine: EngineProfile) -> Deployment:
    said: tuple[str, ...] = ()
    engine = _with_step(engine, system)
    if own := engine.graph_models.get(model_type(model)):
        engine = replace(engine, graph_tokens=own, graph_multiple=math.inf)
    if system.kind not in _LAUNCHES:
        engine = replace(engine, prompt_launch_s=0.0)
    if system.kind == "cpu":
        engine, said = _on_cpu(engine, system)
    model, narrowed = _as_loaded(model, engine)
    model, notes = _with_cache(model, engine)
    engine = as_measured(engine, model, system)
    fills = {pad.what for pad in engine.pads if not pad.vendors or system.vendor in pad.vendors}
    whole = padded(model, frozenset(fills & {"windows"}))
    kept = () if whole is model else (f"{_WHOLE} in {engine.name} by default",)
    model, engine = padded(whole, frozenset(fills)), replace(engine, pads=(), loads=())
    return Deployment(model, system, engine, (*said, *narrowed, *notes, *kept))


#: Kinds of systems whose operators the host launches one by one; others run compiled steps.
_LAUNCHES = ("gpu", "igpu")
_WHOLE = "layers with an attention window keep whole sequences in the KV cache, as"


#: Marks an engine whose figures for CPUs have been applied.
_IN_PLACE: Mapping[str, float | str] = {}


def _on_cpu(engine: EngineProfile, system: System) -> tuple[EngineProfile, tuple[str, ...]]:
    """The engine with its figures for CPUs, and a note on them.

    Its share of the peak holds for the arithmetic that replaces `products` on a CPU of which that
    peak is not known, such as one that was measured with torch.
    """
    if engine.on_cpu is not None:
        figures = dict(cast(Any, engine.on_cpu))
        if figures.get("products", engine.products) not in system.peak_flops_per_s:
            figures["products"] = ""
        said = (f"{engine.name} on CPUs: its costs there are estimates, none were measured",)
        return replace(engine, **figures, on_cpu=_IN_PLACE), said if engine.on_cpu else ()
    # figures that were measured, or given by the caller
    if engine.eager is not None or engine.measurements is None:
        return engine, ()
    return engine, (f"{engine.name} is not known to run on CPUs: predicted with its GPU constants",)


def as_server(engine: EngineProfile, system: System) -> EngineProfile:
    """The engine with the defaults that its server chooses on the devices of a system.

    For each figure, the first entry of `on_start` that applies there and states it counts.
    Settings of the user override it later.
    """
    if not engine.on_start or system.kind == "cpu":
        return engine
    return _SERVERS.get(lambda: _as_server(engine, system), engine, system)


_SERVERS: ByIdentity[EngineProfile] = ByIdentity()


def _with_step(engine: EngineProfile, system: System) -> EngineProfile:
    """The engine with the limits of a step that its server chooses on a system (`OF_STEPS`)."""
    if not _steps_on_start(engine):
        return engine
    return with_defaults(engine, as_server(engine, system), OF_STEPS)


#: Figures of a profile on the steps that its server captures.
GRAPHS = ("graph_tokens", "graph_multiple", "graph_prompt_tokens", "graph_option")
#: Defaults of a server that also apply to static batches; the others apply to servers only.
OF_STEPS = frozenset({"chunk_tokens", *GRAPHS})


def with_defaults(
    engine: EngineProfile, server: EngineProfile, names: Collection[str]
) -> EngineProfile:
    """The engine with these figures of a server, on any system."""
    figures: dict[str, Any] = {name: getattr(server, name) for name in names}
    others = [
        replace(start, figures={n: v for n, v in start.figures.items() if n not in names})
        for start in engine.on_start
    ]
    return replace(engine, **figures, on_start=tuple(others))


def _steps_on_start(engine: EngineProfile) -> bool:
    """Whether the limits of a step depend on the system."""
    return any(OF_STEPS & start.figures.keys() for start in engine.on_start)


def _as_server(engine: EngineProfile, system: System) -> EngineProfile:
    figures: dict[str, Any] = {}
    for defaults in reversed(engine.on_start):
        if defaults.holds(system.slug, system.memory_bytes):
            figures |= defaults.on(system.memory_bytes)
    return replace(engine, on_start=(), **figures)


def _as_loaded(model: Model, engine: EngineProfile) -> tuple[Model, tuple[str, ...]]:
    """A published checkpoint in the formats in which the engine loads it, and a note on each."""
    said: list[str] = []
    for form in engine.loads:
        precision = model.precision
        if not precision.source.startswith(f"the checkpoint's {form.of}"):
            continue
        found = [role for role, name in precision.weights.items() if name == form.of]
        weights = {**precision.weights, **dict.fromkeys(form.roles or found, form.to)}
        same = {} if form.roles else {form.of: form.to}
        kept = replace(
            precision,
            weights=weights,
            activations=same.get(precision.activations, precision.activations),
            kv=same.get(precision.kv, precision.kv),
        )
        model = model.with_precision(kept)
        what = ", ".join(form.roles) or "weights"
        said.append(f"{what}: {form.to}, as {engine.name} loads a checkpoint in {form.of}")
    return model, tuple(said)


def _with_cache(model: Model, engine: EngineProfile) -> tuple[Model, tuple[str, ...]]:
    """Apply the engine's default KV-cache format where the user chose the weights' format alone.

    Returns the model and the notes to show.
    """
    precision = model.precision
    weights, cache = precision.weights["default"], precision.kv
    chosen = precision.kv_source != "convention" or engine.kv_cache == "checkpoint"
    if chosen or bytes_of(weights) <= bytes_of(cache):
        return model, ()
    note = f"kv cache: {weights}, the default of {engine.name}; checkpoints allow {cache}"
    kept = _CACHED_ALIKE.get(lambda: model.with_precision(replace(precision, kv=weights)), model)
    return kept, (note,)


#: Models whose cache has the format of their weights; one object for all systems.
_CACHED_ALIKE: ByIdentity[Model] = ByIdentity()


def as_measured(engine: EngineProfile, model: Model, system: System) -> EngineProfile:
    """The engine with the factors and scales that were measured on a system, and with a model on
    it.

    `measured_on` and `recipe` of the result state which were applied.  Runs on a system with the
    same device (`System.device_of`) count as runs on this one.  An engine without `measurements`
    is returned unchanged.
    """
    measured = engine.measurements
    if measured is None:
        return engine
    silicon = measured.silicon.get(system.family, {})
    device = measured.devices.get(system.device_slug, {})
    if engine.era:  # runs of today's release say nothing about an engine of another era
        return tuned(engine, device, above=(measured.eras.get(engine.era, {}), silicon))
    silicon = {} if system.family in measured.past else silicon
    device = {} if system.device_slug in measured.past else device
    key = recipe_key(engine, model, system)
    recipe = measured.recipes.get(key) or measured.recipes.get(
        replace(key, system=system.device_slug)
    )
    return replace(
        tuned(engine, device, recipe, above=(silicon,)),
        neighbours=measured.runs.get(round(model.parameters)),
    )


def run_facts(engine: EngineProfile, model: Model, system: System) -> RunFacts:
    """The facts by which a deployment is compared with measured runs of its engine and model."""
    drafts = str(model.speculation.draft_tokens) if isinstance(model, SpeculativeModel) else ""
    return RunFacts(bulk_format(model), system.device_slug, system.family, engine.version, drafts)


def tuned(
    engine: EngineProfile,
    device: Mapping[str, float],
    recipe: MeasuredRecipe | None = None,
    *,
    above: Sequence[Mapping[str, float]] = (),
) -> EngineProfile:
    """The engine with its constants multiplied by the factors of a device and of a recipe on it.

    device: {constant: factor}.  recipe: its factors are applied on top, its scales are stored.
    above: factors of the levels above a device, which are its era and its silicon.
    """
    factors = (*above, device, recipe.factors if recipe else {})
    changes: dict[str, Any] = dict(_scaled(engine, factors))
    changes |= {"measured_on": "device" if device else "", "measurements": None}
    if recipe is not None:
        changes |= {"measured_on": recipe.measured_on, "recipe": recipe.scales}
    return replace(engine, **changes)


def _scaled(engine: EngineProfile, levels: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """{constant: value} of the constants that have a factor other than one, with all levels
    applied.
    """
    constants: dict[str, float] = {}
    for factors in levels:
        for name, factor in factors.items():
            if factor == 1.0:
                continue
            value = constants.get(name, max(getattr(engine, name), LEAST[name]))
            constants[name] = value * factor
    return constants


def recipe_key(engine: EngineProfile, model: Model, system: System) -> RecipeKey:
    """Key under which runs of an engine, a model and a system are stored."""
    return RecipeKey(engine.name, round(model.parameters), system.slug, bulk_format(model))


def bulk_format(model: Model) -> str:
    """Number format of most of a model's weights: its mixture's name, or the format of its largest
    operator.
    """
    if model.precision.mixture:
        return model.precision.mixture
    return _FORMATS.get(lambda: _bulk_format(model), model)


_FORMATS: ByIdentity[str] = ByIdentity()


def _bulk_format(model: Model) -> str:
    graph = model.graph(Step.decode(1.0, 1.0), Parallelism())
    largest = max(graph.ops, key=lambda op: float(np.max(op.held_weight_bytes)) * op.count)
    return largest.weights

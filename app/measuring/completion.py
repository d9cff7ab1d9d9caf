"""A scenario completed from what ran, and contradictions between the two."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import genz_core
import hardware_db
from app.measuring.model_facts import ModelShape, degree_by_products
from app.measuring.prediction import FORMATS as TORCH_FORMATS
from app.question.question import Question
from app.scenario.scenario import Resolved, estimate_resolved
from genz_core import Estimate, Workload
from genz_core.errors import RidgelineError
from genz_core.graphs import Model
from genz_core.precision import FORMATS
from genz_core.systems import System
from genz_core.workload import WITH_TIMES
from profilers.collect.machine_document import SLUG
from profilers.phases.what_ran import Fact, StepFacts, WhatRan

#: Relative difference from which two lengths differ: engines round, and reports state means.
_SAME_LENGTH = 0.05
_SIZES = ("batch", "isl", "osl")
_PRODUCTS = "the shapes of its matrix products"
#: Formats that the operands of a product in a number format may be stored in.
_STORED = {"fp8": ("fp8", "fp8_block"), "fp4": ("mxfp4", "nvfp4"), "bf16": ("bf16", "fp16"),
           "fp16": ("bf16", "fp16")}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Filling:
    """A field taken from what ran.

    phase: the phase that it applies to, "" for all.  inferred: concluded from the evidence, which
    does not state it.
    """

    field: str
    value: Any
    evidence: str
    phase: str = ""
    inferred: bool = False

    def __str__(self) -> str:
        of = f" of {self.phase}" if self.phase else ""
        return f"{self.field}{of} {self.value}: {self.evidence}"


@dataclass(frozen=True, slots=True)
class Difference:
    """A field where what ran contradicts the scenario.  phase: as in `Filling`."""

    field: str
    scenario: Any
    ran: Any
    evidence: str
    phase: str = ""

    def __str__(self) -> str:
        of = f" of {self.phase}" if self.phase else ""
        return (
            f"{self.field}{of}: the scenario says {self.scenario}, what ran {self.ran} "
            f"({self.evidence})"
        )


@dataclass(frozen=True, slots=True)
class Filled:
    """A scenario as it is priced.

    loads: the workload of each phase where what ran determines it.
    fillings: fields taken from what ran.  differences: contradictions with the scenario.
    """

    scenario: Question
    loads: Mapping[str, Workload] = field(default_factory=dict)
    fillings: tuple[Filling, ...] = ()
    differences: tuple[Difference, ...] = ()

    @property
    def banner(self) -> str:
        """Every difference in a sentence, "" without any."""
        if not self.differences:
            return ""
        named = "; ".join(map(str, self.differences))
        return f"The run differs from the priced scenario, so there are no findings: {named}."


# ------------------------------------------------------------------------------- filling


def filled_names(ran: WhatRan, typed: Collection[str]) -> list[Filling]:
    """System and engine from what ran, where they were not typed."""
    found: list[Filling] = []
    if "system" not in typed and ran.device:
        found.append(Filling("system", _known_as(ran.device.value), ran.device.evidence))
    engines = hardware_db.engine_names()
    if "engine" not in typed and ran.engine and ran.engine.value in engines:
        found.append(Filling("engine", ran.engine.value, ran.engine.evidence))
    return found


def _known_as(device: str) -> str:
    """The system that a device is priced as: this machine's calibration if it is this machine and
    has no datasheet.
    """
    for name in (device, SLUG):
        try:
            known = hardware_db.load(name)
        except RidgelineError:
            continue
        return SLUG if name == SLUG and device in known.name else device
    return device


def filled(scenario: Question, ran: WhatRan, model: Model, typed: Collection[str]) -> Filled:
    """Degrees, formats and sizes from what ran, where they were not typed.

    Args:
        model: that is priced.  typed: names of fields that keep the scenario's value.
    """
    found = [
        *_filled_degree(scenario, ran, model, typed),
        *_filled_format(ran, model, typed),
        *_filled_cache(scenario, ran, typed),
    ]
    scenario = replace(scenario, **{one.field: one.value for one in found})
    loads: dict[str, Workload] = {}
    for phase, facts in ran.steps.items():
        if phase not in ("prefill", "decode"):
            continue
        sizes, cached = _sizes(facts, ran, typed, scenario.dp)
        found += sizes
        values = {size.field: size.value for size in sizes}
        loads[phase] = Workload(
            values.get("batch", scenario.batch),
            values.get("isl", scenario.isl),
            values.get("osl", scenario.osl),
            cached,
        )
    return Filled(_with_sizes(scenario, loads), loads, tuple(found))


def phase_loads(resolved: Resolved, ran: WhatRan) -> Mapping[str, Workload]:
    """The workload of each phase, where several ran and the scenario agrees with one of them.

    A scenario has one batch, but each phase of an engine's run has its own.
    """
    loads = filled(resolved.scenario, ran, resolved.model, ()).loads
    load = resolved.scenario.workload
    dp = resolved.scenario.dp
    agrees = [phase for phase in loads if not _sizes_differ(load, ran.steps[phase], dp)]
    return loads if agrees and len(loads) > 1 else {}


def _with_sizes(scenario: Question, loads: Mapping[str, Workload]) -> Question:
    """The scenario with the sizes of prefill, otherwise of decode."""
    for load in loads.values():
        sizes: dict[str, Any] = {name: int(float(getattr(load, name))) for name in _SIZES}
        return replace(scenario, **sizes)
    return scenario


def _filled_degree(
    scenario: Question, ran: WhatRan, model: Model, typed: Collection[str]
) -> list[Filling]:
    if {"tp", "pp", "dp"} & set(typed):
        return []
    if ran.ranks is None or ran.ranks.value == 1:
        degree = _degree_of_one(scenario.tp, ran, model)
        return [Filling("tp", degree, _PRODUCTS)] if degree != scenario.tp else []
    degree = degree_by_products(model, ran.ranks.value, ran.products)
    if not degree:
        return [Filling("tp", ran.ranks.value, ran.ranks.evidence)]
    evidence = f"{ran.ranks.evidence} and {_PRODUCTS}"
    found = [Filling("tp", degree, evidence)]
    if degree < ran.ranks.value:
        found.append(Filling("dp", ran.ranks.value // degree, evidence))
    return found


def _degree_of_one(tp: int, ran: WhatRan, model: Model) -> int:
    """The degree, among the divisors of `tp`, that the products in one device's report imply.

    A report of one of several ranks has parts of the model's products, that of a single device has
    whole ones; if neither fits, it is `tp`.
    """
    return degree_by_products(model, tp, ran.products) or tp


def _filled_format(ran: WhatRan, model: Model, typed: Collection[str]) -> list[Filling]:
    """The format of the weights where none of the model's tensors has the one that ran."""
    if ran.dtype is None or "weights" in typed or has_format(model, _format_name(ran.dtype.value)):
        return []
    name = _format_name(ran.dtype.value)
    return [Filling("weights", name, ran.dtype.evidence)] if name in FORMATS else []


def _filled_cache(scenario: Question, ran: WhatRan, typed: Collection[str]) -> list[Filling]:
    """The format of the KV cache where kernel names indicate 8 bits but 16 are priced."""
    if ran.kv is None or ran.kv.value != "fp8" or "kv" in typed or scenario.kv:
        return []
    return [Filling("kv", ran.kv.value, ran.kv.evidence)]


def _format_name(dtype: str) -> str:
    return TORCH_FORMATS.get(dtype, dtype)


def has_format(model: Model, name: str) -> bool:
    """Whether a model has tensors in a format, or in a format that is stored in it."""
    held = {*model.precision.weights.values(), *model.precision.by_layer.values()}
    return bool(held & set(_STORED.get(name, (name,))))


def same_format(one: str, other: str) -> bool:
    """Whether two names of formats may mean the same: one is the other, or is stored in it."""
    return other in _STORED.get(one, (one,)) or one in _STORED.get(other, (other,))


def _sizes(
    facts: StepFacts, ran: WhatRan, typed: Collection[str], dp: int
) -> tuple[list[Filling], float]:
    """Batch and lengths of a phase that were not typed, and the tokens cached before a prefill."""
    values: dict[str, Fact[int] | None] = {"batch": facts.batch}
    cached = 0.0
    if facts.phase == "prefill":
        values["isl"] = facts.length
        if facts.length and facts.context and "isl" not in typed:
            cached = float(facts.context.value)
            values["isl"] = Fact(facts.length.value + facts.context.value, facts.length.evidence)
        elif facts.length is None and facts.batch is None and facts.tokens:
            values["batch"] = Fact(1, "taken for one prompt")
            values["isl"] = facts.tokens
    elif facts.context and facts.context.value > 0:
        values["isl"] = facts.context
        one_step = Fact(2, "the prompt's token and one decode step at this context")
        values["osl"] = ran.output or one_step
    if facts.phase == "prefill" and ran.output:
        values["osl"] = ran.output
    values["batch"] = _of_all_ranks(values["batch"], dp)
    known = [(name, fact) for name, fact in values.items() if fact and name not in typed]
    return [Filling(n, f.value, f.evidence, facts.phase) for n, f in known], cached


def _of_all_ranks(fact: Fact[int] | None, dp: int) -> Fact[int] | None:
    """A number of sequences or tokens over all data-parallel ranks: a report shows those of one."""
    if fact is None or dp == 1:
        return fact
    return Fact(fact.value * dp, f"{fact.value:,} on each of {dp} attention ranks, {fact.evidence}")


# ------------------------------------------------------------------------------- pricing


def estimate_filled(resolved: Resolved, loads: Mapping[str, Workload]) -> Estimate:
    """The estimate of a scenario, with each phase priced for its own workload if it has one.

    Raises:
        RidgelineError: see `estimate_resolved`.
    """
    whole = estimate_resolved(resolved)
    steps: dict[str, Any] = {}
    for phase, load in loads.items():
        own = genz_core.estimate(
            resolved.model, resolved.system, load, resolved.scenario.parallelism, resolved.engine,
            on_error="status",
        )  # fmt: skip
        own.raise_for_status(ignore=WITH_TIMES)
        steps[phase] = getattr(own, phase)
    return replace(whole, **steps)


# ------------------------------------------------------------------------------- differences


def differences(
    resolved: Resolved,
    ran: WhatRan,
    loads: Mapping[str, Workload] | None = None,
    engine_typed: bool = True,
) -> tuple[Difference, ...]:
    """Contradictions between what ran and what is priced.

    Args:
        loads: workloads of phases, priced instead of the scenario's.
        engine_typed: the engine was chosen by the user; the generic one contradicts nothing.
    """
    scenario = resolved.scenario
    found = system_differs(resolved.system, ran)
    if ran.ranks and ran.ranks.value != scenario.parallelism.devices:
        devices = int(scenario.parallelism.devices)
        found.append(Difference("devices", devices, ran.ranks.value, ran.ranks.evidence))
    apart = model_differs(resolved.model, ran)
    if not apart and (ran.ranks is None or ran.ranks.value == 1):
        degree = _degree_of_one(scenario.tp, ran, resolved.model)
        if degree != scenario.tp:
            found.append(Difference("tp", scenario.tp, degree, _PRODUCTS))
    if engine_typed and ran.engine and _other_engine(resolved.engine.name, ran.engine.value):
        found.append(
            Difference("engine", resolved.engine.name, ran.engine.value, ran.engine.evidence)
        )
    found += apart
    priced = resolved.model.precision.kv
    if ran.kv and (ran.kv.value == "fp8") != priced.startswith("fp8"):
        found.append(Difference("kv", priced, ran.kv.value, ran.kv.evidence))
    for phase, facts in ran.steps.items():
        load = (loads or {}).get(phase, scenario.workload)
        found += _sizes_differ(load, facts, scenario.dp)
    return tuple(found)


def system_differs(system: System, ran: WhatRan) -> list[Difference]:
    if ran.device is None:
        return []
    try:
        known = hardware_db.load(ran.device.value)
    except RidgelineError:
        return []
    names = (known.name.casefold(), ran.device.value.casefold())
    if known.slug == system.slug or any(name in system.name.casefold() for name in names):
        return []
    return [Difference("system", system.name, ran.device.value, ran.device.evidence)]


def _other_engine(priced: str, ran: str) -> bool:
    """Whether two engines are of different families; "hf" and "hf-this-machine" are of the same
    one.
    """
    return priced != "generic" and priced.partition("-")[0] != ran.partition("-")[0]


def model_differs(model: Model, ran: WhatRan) -> list[Difference]:
    """Contradictions between what ran and a model: its hidden size, its layers, its weights."""
    shape, found = ModelShape.of(model), list[Difference]()
    if ran.hidden and ran.hidden.value not in shape.widths:
        found.append(Difference("hidden size", shape.hidden, ran.hidden.value, ran.hidden.evidence))
    if ran.layers and not shape.may_run(ran.layers.value, ran.layers_exact):
        found.append(Difference("layers", shape.layers, ran.layers.value, ran.layers.evidence))
    if ran.dtype and not has_format(model, _format_name(ran.dtype.value)):
        held = model.precision.weights["default"]
        found.append(Difference("weights", held, _format_name(ran.dtype.value), ran.dtype.evidence))
    return found


def _sizes_differ(load: Workload, facts: StepFacts, dp: int) -> list[Difference]:
    """Contradictions between the sizes of a step and its workload."""
    batch, isl, osl = (float(getattr(load, name)) for name in _SIZES)
    found: list[Difference] = []
    sequences, tokens = (_of_all_ranks(fact, dp) for fact in (facts.batch, facts.tokens))
    if sequences and sequences.value != batch:
        found.append(_size("batch", batch, sequences, facts.phase))
    name, priced, ran = "ISL", (isl, isl), _prompt(facts)
    if facts.phase == "decode":
        name, priced, ran = "context", (isl, isl + osl), facts.context
    elif ran is None:
        name, priced, ran = "batch x ISL", (batch * isl, batch * isl), tokens
    if ran and ran.value and not _within(ran.value, *priced):
        shown = f"{priced[0]:g}" if priced[0] == priced[1] else f"{priced[0]:g} to {priced[1]:g}"
        found.append(_size(name, shown, ran, facts.phase))
    return found


def _prompt(facts: StepFacts) -> Fact[int] | None:
    """Tokens of each prompt, including cached ones."""
    if facts.length is None:
        return None
    context = facts.context.value if facts.context else 0
    return Fact(facts.length.value + context, facts.length.evidence)


def _within(value: float, low: float, high: float) -> bool:
    return low * (1.0 - _SAME_LENGTH) <= value <= high * (1.0 + _SAME_LENGTH)


def _size(name: str, scenario: float | str, fact: Fact[int], phase: str) -> Difference:
    shown = scenario if isinstance(scenario, str) else f"{scenario:g}"
    return Difference(name, shown, fact.value, fact.evidence, phase)

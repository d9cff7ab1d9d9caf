"""What a benchmark measured, as it can be priced: from the file, and from who loads it.

A file's names are looked up; what is given wins, and where the two differ that is said.  What
neither tells is asked for: without some of it nothing can be priced, for the rest stands an
assumption that is named.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from app.benchmarks import names
from app.benchmarks.load import Load, load_of
from app.measuring.filling import Difference, Filling
from app.scenario.scenario import Resolved, Scenario, resolve
from genz_core.errors import InvalidValue
from profilers.serving_results import ServingMeasurement

LookUp = Callable[[Scenario], Resolved]
#: What one may give: fields of a scenario, and of the load.
_OF_LOAD = ("concurrency", "rate", "isl", "osl", "length_ratio")
GIVEN = (
    "model", "system", "engine", "weights", "moe_weights", "kv", "tp", "pp", "dp", "ep", "moe_tp",
    *_OF_LOAD,
)  # fmt: skip
_DEGREES = ("tp", "pp", "dp", "ep")
_NEEDED = ("model", "system", "isl", "osl", "load")
_LONGEST = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Missing:
    """What neither the file nor its reader tells.

    name: of `GIVEN`, or "load".  why: it is missing, and what it is needed for.
    assumed: what stands for it, "" where nothing can be priced without.
    """

    name: str
    why: str
    assumed: str = ""

    def __str__(self) -> str:
        option = "--concurrency or --rate" if self.name == "load" else f"--{self.name}"
        taken = f"; taken: {self.assumed}" if self.assumed else ""
        return f"{self.why}{taken} ({option})"


@dataclass(frozen=True, slots=True)
class Deployment:
    """A measured run and what it is priced as.

    resolved: None where something that is needed is missing.  fillings: what the file told.
    missing: what is asked for.  differences: where the file says otherwise than what was given.
    """

    measurement: ServingMeasurement
    load: Load
    scenario: Scenario
    resolved: Resolved | None
    fillings: tuple[Filling, ...] = ()
    missing: tuple[Missing, ...] = ()
    differences: tuple[Difference, ...] = ()

    @property
    def needed(self) -> tuple[Missing, ...]:
        """What nothing can be priced without."""
        return tuple(one for one in self.missing if not one.assumed)

    @property
    def question(self) -> str:
        """What is needed, in a sentence; "" where nothing is."""
        file = self.measurement.file or self.measurement.format
        return f"{file}: {'; '.join(map(str, self.needed))}" if self.needed else ""

    def priced(self) -> Resolved:
        """Model, system and engine.

        Raises:
            InvalidValue: something that is needed is missing; the sentence says what.
        """
        if self.resolved is None:
            raise InvalidValue(self.question)
        return self.resolved


def deployment(
    measurement: ServingMeasurement,
    given: Mapping[str, Any] | None = None,
    look_up: LookUp = resolve,
) -> Deployment:
    """What a run is priced as.

    Args:
        given: what the reader of the file says, by the names of `GIVEN`; empty values say nothing.
        look_up: model, system and engine of a scenario; by name unless told otherwise.

    Raises:
        RidgelineError: a name that was given and nobody knows, or a number out of range.
    """
    stated = _checked(given or {})
    found = _found(measurement, stated)
    load = load_of(measurement, stated)
    if load.known and "concurrency" not in stated and "rate" not in stated:
        found.filling("load", load.words, load.why)
    _ask_for_sizes(found, measurement, load)
    scenario = _scenario(found.values | stated, load)
    partial = Deployment(
        measurement, load, scenario, None, tuple(found.fillings), tuple(found.missing)
    )
    if partial.needed:
        return partial
    resolved = look_up(scenario)
    resolved, scenario = _in_the_files_format(partial, resolved, stated, look_up)
    return replace(
        partial,
        scenario=scenario,
        resolved=resolved,
        differences=tuple(_differences(measurement, resolved, stated)),
        fillings=(*partial.fillings, *_format_filled(partial.scenario, scenario, measurement)),
        missing=(*partial.missing, *_format_missing(measurement, resolved, stated)),
    )


def deployments(
    measurements: Sequence[ServingMeasurement],
    given: Mapping[str, Any] | None = None,
    look_up: LookUp = resolve,
) -> list[Deployment]:
    """The deployment of each of several runs; see `deployment`."""
    return [deployment(measurement, given, look_up) for measurement in measurements]


# ------------------------------------------------------------------------------- names and degrees


class _Found:
    """What the file told and what it did not, gathered."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.fillings: list[Filling] = []
        self.missing: list[Missing] = []

    def filling(self, name: str, value: Any, evidence: str) -> None:
        self.fillings.append(Filling(name, value, evidence))

    def fill(self, name: str, value: Any, evidence: str) -> None:
        self.values[name] = value
        self.filling(name, value, evidence)

    def ask(self, name: str, why: str, assumed: str = "") -> None:
        self.missing.append(Missing(name, why, assumed))


def _found(measurement: ServingMeasurement, stated: Mapping[str, Any]) -> _Found:
    """Model, system, engine and degrees that were not given, from the file."""
    found, subject = _Found(), measurement.subject
    if "model" not in stated:
        named = names.model(subject.model)
        if named:
            found.fill("model", named.name, named.evidence)
            if named.weights and "weights" not in stated:
                found.fill("weights", named.weights, named.evidence)
        else:
            found.ask("model", names.why_no_model(subject.model))
    if "system" not in stated:
        system = names.system(subject.device)
        if system:
            found.fill("system", system, f"the file names {subject.device}")
        else:
            found.ask("system", names.why_no_system(subject.device))
    if "engine" not in stated:
        engine = names.engine(subject.engine)
        if engine:
            found.fill("engine", engine, f"the file names {subject.engine}")
        else:
            found.ask("engine", names.why_no_engine(subject.engine), "generic")
    _fill_degrees(found, measurement, stated)
    return found


def _fill_degrees(
    found: _Found, measurement: ServingMeasurement, stated: Mapping[str, Any]
) -> None:
    subject = measurement.subject
    if any(name in stated for name in (*_DEGREES, "moe_tp")):
        return
    known = {name: int(n) for name, n in subject.degrees.items() if name in _DEGREES and n >= 1}
    for name, ranks in known.items():
        found.fill(name, ranks, "the file states it")
    if known:
        return
    if subject.devices == 1:
        found.fill("tp", 1, "the file states one device")
    elif subject.devices:
        words = f"the file states {subject.devices} devices, and not how the model was split"
        found.fill("tp", subject.devices, f"{words}: taken for tensor parallelism")
    else:
        found.ask("tp", "the file says neither devices nor degrees", "one device")


def _ask_for_sizes(found: _Found, measurement: ServingMeasurement, load: Load) -> None:
    phase = measurement.phase
    if load.isl < 1 and phase != "decode":
        found.ask("isl", "the file does not say how long the prompts were")
    if load.osl < 1 and phase != "prefill":
        found.ask("osl", "the file does not say how long the answers were")
    if not load.known:
        found.ask("load", "the file says neither how many requests were open nor how many came")


def _scenario(values: Mapping[str, Any], load: Load) -> Scenario:
    own = {entry.name for entry in fields(Scenario)} - set(_OF_LOAD)
    named = {name: value for name, value in values.items() if name in own}
    return Scenario(
        **named,
        batch=max(round(min(load.concurrency, _LONGEST)), 1),
        isl=max(round(load.isl), 1),
        osl=max(round(load.osl), 1),
    )


def _checked(given: Mapping[str, Any]) -> dict[str, Any]:
    """What was given, without what says nothing.

    Raises:
        InvalidValue: a name that is none of `GIVEN`, both loads, or a number that is no size.
    """
    stated = {name: value for name, value in given.items() if value not in (None, "", 0)}
    for name, value in stated.items():
        if name not in GIVEN:
            raise InvalidValue(f"{name!r} cannot be given; what can: {', '.join(GIVEN)}")
        if name in _OF_LOAD and not 0 < float(value) <= _LONGEST:
            raise InvalidValue(f"{name} = {value}: give a number above 0")
    if "concurrency" in stated and "rate" in stated:
        raise InvalidValue("give a concurrency or a rate, one of them")
    if float(stated.get("length_ratio", 1.0)) > 1.0:
        raise InvalidValue(f"length_ratio = {stated['length_ratio']:g} is not between 0 and 1")
    return stated


# ------------------------------------------------------------------------------- the weight format


def _in_the_files_format(
    partial: Deployment, resolved: Resolved, stated: Mapping[str, Any], look_up: LookUp
) -> tuple[Resolved, Scenario]:
    """The deployment in the weight format of the file, where the checkpoint has another one."""
    scenario = partial.scenario
    wanted = names.weight_format(partial.measurement.subject.precision)
    if scenario.weights or "weights" in stated or not wanted:
        return resolved, scenario
    if names.holds(resolved.model, wanted):
        return resolved, scenario
    changed = replace(scenario, weights=wanted)
    return look_up(changed), changed


def _format_filled(
    before: Scenario, after: Scenario, measurement: ServingMeasurement
) -> list[Filling]:
    if before.weights == after.weights:
        return []
    words = f"the file says {measurement.subject.precision}"
    return [Filling("weights", after.weights, words)]


def _format_missing(
    measurement: ServingMeasurement, resolved: Resolved, stated: Mapping[str, Any]
) -> list[Missing]:
    if resolved.scenario.weights or "weights" in stated:
        return []
    precision = measurement.subject.precision
    if names.weight_format(precision):
        return []
    why = f"the file calls its weights {precision!r}" if precision else "the file names no format"
    held = " and ".join(sorted({*resolved.model.precision.weights.values()}))
    return [Missing("weights", why, f"the checkpoint's, {held}")]


# ------------------------------------------------------------------------------- differences


def _differences(
    measurement: ServingMeasurement, resolved: Resolved, stated: Mapping[str, Any]
) -> list[Difference]:
    """Where the file says otherwise than what was given."""
    subject, found = measurement.subject, list[Difference]()

    def differ(name: str, priced: Any, ran: Any) -> None:
        found.append(Difference(name, priced, ran, "the file states it"))

    named = names.model(subject.model) if "model" in stated else None
    if named and not names.same_model(named.name, resolved.model):
        differ("model", resolved.model.name, subject.model)
    system = names.system(subject.device) if "system" in stated else ""
    if system and system != resolved.system.slug:
        differ("system", resolved.system.name, subject.device)
    engine = names.engine(subject.engine) if "engine" in stated else ""
    if engine and engine.partition("-")[0] != resolved.engine.name.partition("-")[0]:
        differ("engine", resolved.engine.name, subject.engine)
    wanted = names.weight_format(subject.precision) if "weights" in stated else ""
    if wanted and not names.holds(resolved.model, wanted):
        differ("weights", resolved.model.precision.weights["default"], subject.precision)
    if any(name in stated for name in _DEGREES):
        _degrees_differ(measurement, resolved, differ)
    return found


def _degrees_differ(
    measurement: ServingMeasurement, resolved: Resolved, differ: Callable[[str, Any, Any], None]
) -> None:
    subject, scenario = measurement.subject, resolved.scenario
    for name, ranks in subject.degrees.items():
        priced = getattr(scenario, name, ranks)
        if name in _DEGREES and priced != ranks:
            differ(name, priced, ranks)
    devices = int(scenario.parallelism.devices)
    if subject.devices and not subject.degrees and subject.devices != devices:
        differ("devices", devices, subject.devices)

"""The deployment that a benchmark measured, from the file and from the user.

A file's names are looked up; a given parameter takes precedence, and contradictions are reported.
Facts that neither states are listed as missing: some are required for a price, the others get a
named assumption.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import hardware_db
from app.benchmarks import names
from app.benchmarks.load import RunLoad, load_of, parameters
from app.measuring.completion import Difference, Filling, has_format
from app.question.parameters import PARAMETERS
from app.question.query import Query, ask
from app.question.question import Question
from app.question.validity import refuse_meaningless
from app.scenario.pools import devices_of
from app.scenario.scenario import Resolved, resolve
from app.wording import quantities
from genz_core.errors import InvalidValue, RidgelineError
from profilers.serving_results import ServingMeasurement

_OF_LOAD = ("concurrency", "rate", "isl", "osl", "length_ratio")
_DEGREES = ("tp", "pp", "dp", "ep")
#: Relative differences up to which a given length, or another number of a load, is the file's.
_SAME_LENGTH, _SAME_LOAD = 0.1, 0.01


@dataclass(frozen=True, slots=True)
class Missing:
    """A fact that neither the file nor the user states.

    name: of a parameter, or "load".  why: the reason why it is missing, and what it is needed for.
    assumed: value that is assumed, "" where nothing can be priced without it.
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
    """A measured run and the deployment that it is priced as.

    scenario: the question, its load that of the run.  objects: objects given instead of names.
    resolved: None where something required is missing.  fillings: fields taken from the file.
    missing: what is asked for.  differences: contradictions between the file and what was given.
    """

    measurement: ServingMeasurement
    load: RunLoad
    scenario: Question
    resolved: Resolved | None
    fillings: tuple[Filling, ...] = ()
    missing: tuple[Missing, ...] = ()
    differences: tuple[Difference, ...] = ()
    objects: Mapping[str, Any] = field(default_factory=dict)

    @property
    def needed(self) -> tuple[Missing, ...]:
        """The missing facts without which nothing can be priced."""
        return tuple(one for one in self.missing if not one.assumed)

    @property
    def question(self) -> str:
        """A sentence on what is required but missing; "" if nothing is."""
        file = self.measurement.file or self.measurement.format
        return f"{file}: {'; '.join(map(str, self.needed))}" if self.needed else ""

    def priced(self) -> Resolved:
        """Model, system and engine.

        Raises:
            InvalidValue: something required is missing; the message says what.
        """
        if self.resolved is None:
            raise InvalidValue(self.question)
        return self.resolved


def deployment(
    measurement: ServingMeasurement, given: Query | Mapping[str, Any] | None = None
) -> Deployment:
    """The deployment that a run is priced as.

    given: what the user states: parameters of the verb "compare", or its question.

    Raises:
        RidgelineError: an unknown name, or an impossible value.
    """
    query = given if isinstance(given, Query) else ask("compare", given or {})
    found = _found(measurement, query)
    load = load_of(measurement, _stated_load(measurement, query))
    if load.known and not {"concurrency", "rate", "batch"} & query.given:
        found.fillings.append(Filling("load", load.words, load.why, inferred=load.inferred))
    _ask_for_sizes(found, measurement, load)
    question = replace(query.question, **found.values, **parameters(measurement, load))
    partial = Deployment(
        measurement, load, question, None, tuple(found.fillings), tuple(found.missing),
        objects=query.objects,
    )  # fmt: skip
    if partial.needed:
        return partial
    refuse_meaningless(question)
    resolved, filled, unnamed = _in_the_files_format(measurement, question, query)
    return replace(
        partial,
        scenario=resolved.scenario,
        resolved=resolved,
        differences=(
            *_differences(measurement, resolved, query.given),
            *_load_differences(measurement, _stated_load(measurement, query)),
        ),
        fillings=(*partial.fillings, *filled),
        missing=(*partial.missing, *unnamed),
    )


def deployments(
    measurements: Sequence[ServingMeasurement], given: Query | Mapping[str, Any] | None = None
) -> list[Deployment]:
    """The deployment of each of several runs; see `deployment`."""
    query = given if isinstance(given, Query) else ask("compare", given or {})
    return [deployment(measurement, query) for measurement in measurements]


# ------------------------------------------------------------------------------- names and degrees


class _Found:
    """Collects the facts that the file states, and those that are missing."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.fillings: list[Filling] = []
        self.missing: list[Missing] = []

    def fill(self, filling: Filling) -> None:
        self.values[filling.field] = filling.value
        self.fillings.append(filling)

    def ask(self, name: str, why: str, assumed: str = "") -> None:
        self.missing.append(Missing(name, why, assumed))


def _found(measurement: ServingMeasurement, query: Query) -> _Found:
    """Model, system, engine and degrees from the file, where they were not given."""
    found, given = _Found(), query.given
    given |= _from_server(found, measurement, given)
    for kind, stated in _stated_names(measurement).items():
        if kind in given:
            continue
        named = names.look_up(kind, stated)
        if named is None:
            assumed = "generic" if kind == "engine" else ""
            found.ask(kind, names.why_missing(kind, stated), assumed)
            continue
        inferred = bool(named.weights)
        found.fill(Filling(kind, named.name, named.evidence, inferred=inferred))
        if named.weights and "weights" not in given:
            found.fill(Filling("weights", named.weights, named.evidence, inferred=inferred))
    _fill_degrees(found, measurement, given)
    if "engine_version" not in given:
        _fill_version(found, measurement, query)
    if "kv" not in given and (kv := names.weight_format(measurement.subject.kv_precision)):
        evidence = f"the file states {measurement.subject.kv_precision} for the KV cache"
        found.fill(Filling("kv", kv, evidence))
    return found


def _from_server(
    found: _Found, measurement: ServingMeasurement, given: frozenset[str]
) -> frozenset[str]:
    """Fill in what the server reported about itself, and return the names of these parameters."""
    for name, stated in measurement.stated.items():
        value = stated.value
        if name in ("weights", "kv"):
            value = names.weight_format(str(value))
        if name == "engine_version":
            value = str(value).partition("+")[0]
        if name in given or value in ("", None):
            continue
        try:
            found.fill(Filling(name, PARAMETERS[name].checked(value), stated.evidence))
        except RidgelineError:  # a damaged figure is simply skipped
            continue
    return frozenset(found.values)


def _fill_version(found: _Found, measurement: ServingMeasurement, query: Query) -> None:
    """The version of the engine, where neither the user nor the engine's name states one."""
    engine = str(found.values.get("engine") or (query.question.engine if "engine" in query.given
                                                else ""))  # fmt: skip
    if not engine or "engine_version" in query.given or hardware_db.load_engine(engine).version:
        return
    subject = measurement.subject
    if version := names.engine_version(engine, subject.engine_version, subject.date):
        found.fill(version)


def _stated_names(measurement: ServingMeasurement) -> dict[str, str | None]:
    """Model, system and engine as the file names them."""
    subject = measurement.subject
    return {"model": subject.model, "system": subject.device, "engine": subject.engine}


def _fill_degrees(found: _Found, measurement: ServingMeasurement, given: frozenset[str]) -> None:
    subject = measurement.subject
    if any(name in given for name in (*_DEGREES, "moe_tp")):
        return
    if "prefill_workers" in given or "prefill_system" in given:
        found.ask(
            "tp",
            "the file states only the total of both pools: give the degree of the decode workers",
            "one",
        )
        return
    known = {name: int(n) for name, n in subject.degrees.items() if name in _DEGREES and n >= 1}
    for name, ranks in known.items():
        found.fill(Filling(name, ranks, "the file states it"))
    if known:
        return
    if subject.devices == 1:
        found.fill(Filling("tp", 1, "the file states one device"))
    elif subject.devices:
        words = (
            f"the file states {subject.devices} devices, but not the parallelism: assumed to be "
            "tensor parallelism"
        )
        found.fill(Filling("tp", subject.devices, words, inferred=True))
    else:
        found.ask("tp", "the file states neither devices nor parallelism", "one device")


def _ask_for_sizes(found: _Found, measurement: ServingMeasurement, load: RunLoad) -> None:
    phase = measurement.phase
    if load.isl < 1 and phase != "decode":
        found.ask("isl", "the file does not state the prompt lengths")
    if load.osl < 1 and phase != "prefill":
        found.ask("osl", "the file does not state the output lengths")
    if not load.known:
        found.ask("load", "the file states neither a concurrency nor a rate")


def _stated_load(measurement: ServingMeasurement, query: Query) -> dict[str, Any]:
    """The given load; the batch of a single phase is its concurrency."""
    stated = {name: getattr(query.question, name) for name in _OF_LOAD if name in query.given}
    kind = query.question.kind
    if "batch" in query.given:
        if not measurement.phase:
            raise InvalidValue("batch does not apply to a run under load: give a concurrency")
        stated["concurrency"] = query.question.batch
    elif measurement.phase and kind != "batch":
        raise InvalidValue(f"{kind} does not apply to a {measurement.phase} alone: give a batch")
    return stated


# ------------------------------------------------------------------------------- the weight format


def _in_the_files_format(
    measurement: ServingMeasurement, question: Question, query: Query
) -> tuple[Resolved, list[Filling], list[Missing]]:
    """The deployment in the file's weight format, where the checkpoint has another one.

    Also returns what the file stated about the format, and what it did not.
    """
    resolved, precision = resolve(question, query.objects), measurement.subject.precision
    wanted, said = names.weight_format(precision), f"the file says {precision}"
    bits = measurement.subject.bits_per_weight
    by_size = bool(bits and not names.holds(wanted, bits))
    if bits and by_size:
        wanted = names.nearest_format(bits)
        said = f"{bits:.3g} bits per weight in the file, which names {precision or 'no format'}"
    if question.weights or "weights" in query.given:
        return resolved, [], []
    if not wanted:
        why = "the file names no format"
        if precision:
            why = f"the file calls its weights {precision!r}"
        held = " and ".join(sorted({*resolved.model.precision.weights.values()}))
        return resolved, [], [Missing("weights", why, f"the checkpoint's, {held}")]
    if has_format(resolved.model, wanted):
        return resolved, [], []
    resolved = resolve(replace(question, weights=wanted), query.objects)
    return resolved, [Filling("weights", wanted, said, inferred=by_size)], []


# ------------------------------------------------------------------------------- differences


def _differences(
    measurement: ServingMeasurement, resolved: Resolved, given: frozenset[str]
) -> list[Difference]:
    """Contradictions between the file and what was given."""
    subject, found = measurement.subject, list[Difference]()

    def differ(name: str, priced: Any, ran: Any) -> None:
        found.append(Difference(name, priced, ran, "the file states it"))

    model, system, engine = resolved.model.name, resolved.system, resolved.engine.name
    priced = {
        "model": (model, model),
        "system": (system.slug, system.name),
        "engine": (engine.partition("-")[0], engine),
    }
    for kind, stated in _stated_names(measurement).items():
        identity, shown = priced[kind]
        named = names.look_up(kind, stated) if kind in given else None
        if named and named.identity != identity:
            differ(kind, shown, stated)
    wanted = names.weight_format(subject.precision) if "weights" in given else ""
    if wanted and not has_format(resolved.model, wanted):
        differ("weights", resolved.model.precision.weights["default"], subject.precision)
    if any(name in given for name in _DEGREES):
        _degrees_differ(measurement, resolved, differ)
    return found


def _load_differences(
    measurement: ServingMeasurement, given: Mapping[str, Any]
) -> Iterator[Difference]:
    """Contradictions between the load in the file and the one given.

    Lengths may differ by `_SAME_LENGTH`, because tokenizers count differently.
    """
    for name, known in _loads_of_file(measurement).items():
        value, tolerance = given.get(name), _SAME_LENGTH if name in ("isl", "osl") else _SAME_LOAD
        if value and known and not any(math.isclose(value, n, rel_tol=tolerance) for n in known):
            yield Difference(name, f"{value:,g}", f"{known[0]:,g}", "the file states it")
    users, rate = measurement.load.concurrency, measurement.load.rate
    if given.get("concurrency") and not users and rate and math.isfinite(rate):
        words = f"concurrency {given['concurrency']:,g}"
        yield Difference("load", words, quantities.request_rate(rate), "the file states it")
    if given.get("rate") and users and not (rate and math.isfinite(rate)):
        words = quantities.request_rate(given["rate"])
        yield Difference("load", words, f"concurrency {users:,g}", "the file states it")


def _loads_of_file(measurement: ServingMeasurement) -> dict[str, list[float]]:
    """The numbers that the file states for each part of its load, as a question asks for them; the
    first is shown.
    """
    load, lengths, filed = measurement.load, measurement.lengths, load_of(measurement, {})
    users = [load.concurrency, filed.users] if load.concurrency else []
    isl, osl = (lengths.isl_asked, filed.isl), (lengths.osl_asked, filed.osl)
    known: dict[str, Iterable[float | None]] = {
        "concurrency": users, "rate": [load.rate], "isl": isl, "osl": osl,
    }  # fmt: skip
    return {name: [n for n in numbers if n and math.isfinite(n)] for name, numbers in known.items()}


def _degrees_differ(
    measurement: ServingMeasurement, resolved: Resolved, differ: Callable[[str, Any, Any], None]
) -> None:
    subject, scenario = measurement.subject, resolved.scenario
    for name, ranks in subject.degrees.items():
        priced = getattr(scenario, name, ranks)
        if name in _DEGREES and priced != ranks:
            differ(name, priced, ranks)
    devices = sum(devices_of(scenario))
    if subject.devices and not subject.degrees and subject.devices != devices:
        differ("devices", devices, subject.devices)

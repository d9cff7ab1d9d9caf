"""A fleet question: machines, and models as questions with a priority.

title       of tables and charts
budget      largest rent in dollars per hour
question    what the questions of all models share, as options of `ridgeline plan`
machines    each with system, devices, count, and owned or a price
models      each a question of `ridgeline plan` with a name, a tenant and a priority
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.planning import demand
from app.planning.search import targets_of
from app.planning.space import choices, devices
from app.planning.targets import Target
from app.question import fleets, literals
from app.question.extras import read_extras
from app.question.query import Query, Sources, ask
from app.scenario.known_systems import find_system
from genz_core.errors import InvalidValue, RidgelineError
from genz_core.limits import brief
from genz_core.systems import System

KEYS = (*fleets.FLEET, "question", "machines", "models")


@dataclass(frozen=True, slots=True)
class Machine:
    """Equal machines.

    source: their system as it was given.  usd_per_device_hour: rent, 0 if owned.
    """

    name: str
    system: System
    source: Any
    devices: int
    count: int
    usd_per_device_hour: float

    @property
    def owned(self) -> bool:
        """Whether the machines are owned, so that using them adds no rent."""
        return not self.usd_per_device_hour

    @property
    def usd_per_hour(self) -> float:
        """Rent of one machine."""
        return self.usd_per_device_hour * self.devices


@dataclass(frozen=True, slots=True)
class FleetModel:
    """A model of a fleet: a `plan` question at its mean rate or number of open requests.

    systems: slugs on which it may run, () for any.  most_devices: limit on its devices, None for no
    limit.
    """

    name: str
    tenant: str
    priority: int
    query: Query
    systems: tuple[str, ...] = ()
    most_devices: int | None = None

    @property
    def load(self) -> float:
        """Open requests, or requests a second."""
        return demand.amount(self.query.question)

    @property
    def unit(self) -> str:
        """Unit of the load."""
        return "open requests" if demand.is_closed(self.query.question) else "requests/s"

    @property
    def targets(self) -> tuple[Target, ...]:
        """Targets that every replica must meet."""
        return targets_of(self.query)


@dataclass(frozen=True, slots=True)
class FleetQuestion:
    """A fleet question.  budget: dollars per hour, None for no limit."""

    title: str
    machines: tuple[Machine, ...]
    models: tuple[FleetModel, ...]
    budget: float | None = None


def fleet_question(given: Mapping[str, Any], sources: Sources = dict) -> FleetQuestion:
    """Read a fleet question from the mapping in its file.

    sources: resolves texts that name models and systems; by default they open no file.

    Raises:
        RidgelineError: an invalid key, name or value; the message names its entry.
    """
    _refuse_unknown("a fleet", given, KEYS)
    whole, _ = read_extras(fleets.FLEET, given)
    shared = given.get("question") or {}
    if not isinstance(shared, Mapping):
        raise InvalidValue(
            "question of a fleet: give a mapping of the options that its models share"
        )
    machines = tuple(
        _of_entry("machine", at, entry, lambda one: _machine(one, sources))
        for at, entry in enumerate(_entries("machines", given, fleets.MOST_KINDS))
    )
    models = tuple(
        _of_entry("model", at, entry, lambda one: _model({**shared, **one}, machines, sources))
        for at, entry in enumerate(_entries("models", given, fleets.MOST_MODELS))
    )
    for what, entries in (("machines", machines), ("models", models)):
        names = [entry.name for entry in entries]
        if twice := next((name for name in names if names.count(name) > 1), ""):
            raise InvalidValue(
                f"{what} of a fleet: {twice!r} appears twice; give each its own name"
            )
    return FleetQuestion(whole["title"], machines, models, whole["budget"])


def _entries(key: str, given: Mapping[str, Any], most: int) -> Sequence[Mapping[str, Any]]:
    found = given.get(key)
    if not isinstance(found, Sequence) or isinstance(found, str) or not found:
        raise InvalidValue(f"a fleet needs {key}: give a list of entries, each with its keys")
    if len(found) > most:
        raise InvalidValue(f"{key} of a fleet: {len(found)} entries; give at most {most}")
    for one in found:
        if not isinstance(one, Mapping):
            raise InvalidValue(f"{key} of a fleet: {brief(one)} is not an entry with keys")
    return found


def _of_entry(what: str, at: int, entry: Mapping[str, Any], made: Any) -> Any:
    """The parsed entry; an error names the entry."""
    named = str(entry.get("name") or entry.get(what) or entry.get("system") or at + 1)
    try:
        return made({str(key): value for key, value in entry.items()})
    except RidgelineError as error:
        error.where = f"{what} {named[:60]!r} of the fleet"
        raise


def _refuse_unknown(what: str, given: Mapping[str, Any], known: Sequence[str]) -> None:
    for key in map(str, given):
        if key not in known:
            hint = literals.did_you_mean(literals.near(key, known), known)
            raise InvalidValue(f"{key[:60]!r} is not a key of {what}: {hint}")


def _machine(given: Mapping[str, Any], sources: Sources) -> Machine:
    _refuse_unknown("a machine", given, tuple(fleets.MACHINE))
    if not given.get("system"):
        raise InvalidValue("it has no system: name one")
    source = sources({"system": given["system"]})["system"]
    system = find_system(source)
    known = {name: one for name, one in fleets.MACHINE.items() if name != "system"}
    values, _ = read_extras(known, given)
    rent = values["price"] if values["price"] is not None else system.price_usd_per_hour
    if values["owned"]:
        if values["price"]:
            raise InvalidValue("owned machines have no rent: give either owned or a price")
        rent = 0.0
    if rent is None:
        raise InvalidValue(f"no price is known of {system.slug}: give a price, or owned: true")
    name = values["name"] or system.slug
    return Machine(name, system, source, values["devices"], values["count"], float(rent))


def _model(given: Mapping[str, Any], machines: Sequence[Machine], sources: Sources) -> FleetModel:
    values, question = read_extras(fleets.OF_MODEL, given)
    for key in question:
        if why := fleets.DECIDED.get(key):
            raise InvalidValue(f"{key} does not apply to a model of a fleet: {why}")
    query = demand.at_means(ask("plan", question, sources))
    for target in targets_of(query):
        if not (target.figure.latency or target.figure.name == "interactivity"):
            raise InvalidValue(
                f"target {target}: targets of a fleet's models must be request latencies; rent is "
                "minimised and can be limited by budget"
            )
    if demand.is_closed(query.question) and not any(
        target.figure.latency in ("ttft", "e2e") for target in targets_of(query)
    ):
        raise InvalidValue(
            "users could wait without limit: give a target on ttft or e2e, such as target: "
            '"ttft < 2s", or give a rate'
        )
    if tuple(query.question.pools) == ("disaggregated",):
        raise InvalidValue(
            "pools = disaggregated: each replica of a fleet does both prefill and decode"
        )
    named = tuple(find_system(one).slug for one in choices(query, "system"))
    there = {machine.system.slug for machine in machines}
    if named and not there & set(named):
        raise InvalidValue(
            f"system {', '.join(named)}: no machine has it; the machines have "
            f"{', '.join(sorted(there))}"
        )
    return FleetModel(
        values["name"] or str(query.question.model), values["tenant"], values["priority"], query,
        named, _most_devices(query),
    )  # fmt: skip


def _most_devices(query: Query) -> int | None:
    """Number of devices that a model may use, None without a limit."""
    return devices(query.question)[1] if "devices" in query.given else None

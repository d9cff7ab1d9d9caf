"""Which earlier runs can be the baseline of a run: of its load and deployment, and consistent."""

import math
from collections.abc import Iterator, Mapping, Sequence

import hardware_db
import model_registry
from app.benchmarks import names
from app.benchmarks.load import load_of
from app.measuring.completion import same_format
from genz_core.deployment import bulk_format
from genz_core.errors import RidgelineError
from profilers.comparison import account
from profilers.serving_results import ServingMeasurement

_SAME_LOAD = 0.05
_DEGREES = ("tp", "pp", "dp", "ep")


def usable(
    run: ServingMeasurement, baseline: Sequence[ServingMeasurement]
) -> tuple[list[ServingMeasurement], list[str]]:
    """The earlier runs that a run can be judged by, and a sentence on why each other one of its
    load is not used.
    """
    found, unused = [], list[str]()
    for earlier in baseline:
        if not same_load(run, earlier):
            continue
        named = f"baseline {earlier.file}, {load_of(earlier, {}).words}"
        if failed := account.failed(account.of_result(earlier)):
            said = "; ".join(check.sentence for check in failed)
            unused.append(f"{named}: a run that fails its checks is not used: {said}")
        elif apart := list(differences(run, earlier)):
            unused.append(f"{named}, is of another deployment than {run.file}: {'; '.join(apart)}")
        else:
            found.append(earlier)
    return found, unused


def same_load(one: ServingMeasurement, other: ServingMeasurement) -> bool:
    """Whether two runs were under the same load: phase, concurrency or rate, and mean lengths."""
    loads = [load_of(measurement, {}) for measurement in (one, other)]
    pairs = [
        [getattr(load, name) for load in loads]
        for name in ("concurrency", "rate", "mean_isl", "mean_osl", "context")
    ]
    near = (math.isclose(*pair, rel_tol=_SAME_LOAD) for pair in pairs)
    return one.phase == other.phase and all(near)


def differences(run: ServingMeasurement, earlier: ServingMeasurement) -> Iterator[str]:
    """The facts that both files state differently: model, device, weight format and split.

    A file that names no format ran in that of its checkpoint.  Engines and their versions may
    differ: a baseline judges what changed in them.
    """

    def words(fact: str, ran: object, before: object) -> str:
        return f"{fact} {before} in the baseline, {ran} here"

    models = run.subject.model, earlier.subject.model
    if models[0] and models[1] and _model(models[0]) != _model(models[1]):
        yield words("model", *models)
    devices = run.subject.device, earlier.subject.device
    if devices[0] and devices[1] and not _boards(devices[0]) & _boards(devices[1]):
        yield words("device", *devices)
    formats = _format(run), _format(earlier)
    if all(formats) and not same_format(*formats):
        yield words("weights", *formats)
    yield from (words(name, *counts) for name, counts in _split(run, earlier).items())


def _model(stated: str) -> str:
    """What a model's name means; a name that is not known here, without its folders."""
    named = names.look_up("model", stated)
    return named.identity if named else stated.rstrip("/").rpartition("/")[2].casefold()


def _boards(stated: str) -> set[str]:
    """The boards that a device's name fits, or the name where it is not known here."""
    named = names.look_up("system", stated)
    try:
        return {*hardware_db.variants(stated), *([named.identity] if named else [])}
    except RidgelineError:
        return {named.identity if named else stated.casefold()}


def _format(measurement: ServingMeasurement) -> str:
    """The weight format of a run, "" where neither its file nor its checkpoint states one."""
    log, subject = measurement.stated.get("weights"), measurement.subject
    if stated := names.weight_format(str(log.value) if log else subject.precision):
        return stated
    named = names.look_up("model", subject.model)
    if named is None:
        return ""
    return named.weights or bulk_format(model_registry.load(named.name))


def _split(run: ServingMeasurement, earlier: ServingMeasurement) -> dict[str, tuple[int, int]]:
    """The parallel degrees that differ, where both files state any, otherwise the devices."""
    degrees = _degrees(run), _degrees(earlier)
    if all(degrees):
        ran, before = ({name: of.get(name, 1) for name in _DEGREES} for of in degrees)
    else:
        ran, before = ({"devices": one.subject.devices or 0} for one in (run, earlier))
    pairs = {name: (ran[name], before[name]) for name in ran}
    return {name: pair for name, pair in pairs.items() if all(pair) and pair[0] != pair[1]}


def _degrees(measurement: ServingMeasurement) -> Mapping[str, int]:
    """The parallel degrees that a file or its server's log states."""
    log = {name: one.value for name, one in measurement.stated.items()}
    found = {**measurement.subject.degrees, **log}
    return {name: int(found[name]) for name in _DEGREES if found.get(name)}

"""What a benchmark ran, fact by fact: certain, likely with its evidence, or unknown."""

from collections.abc import Callable

import hardware_db
from app.benchmarks.closed_form import bounds_on
from app.benchmarks.deployment import Deployment
from app.measuring.completion import Filling
from app.measuring.identity import Known, board, versions_of
from genz_core.errors import RidgelineError
from genz_core.systems import System

_FIELDS = ("model", "system", "weights", "kv", "engine", "engine_version")
_DEGREES = ("tp", "pp", "dp", "ep")
_LIMITS = ("max_num_seqs", "max_num_batched_tokens", "memory_fraction")
_GIVEN = "as it was given"


def of_run(one: Deployment) -> tuple[Known, ...]:
    """The facts of a measured run, as it is priced."""
    told = {filling.field: filling for filling in one.fillings}
    asked = {missing.name: missing for missing in one.missing}
    found = []
    for field in (*_FIELDS, *_DEGREES, *_LIMITS):
        priced = getattr(one.scenario, field)
        if field == "system":
            found.append(_system(one))
        elif field in told:
            found.append(_from_file(told[field]))
        elif field in asked:
            missing = asked[field]
            value = missing.assumed
            certainty = "likely" if value else "unknown"
            found.append(Known(field, value, certainty, missing.why, _candidates(one, field)))  # type: ignore[arg-type]
        elif field == "engine_version" and not priced:
            found.append(_version(one))
        elif field == "kv" and not priced:
            words = "the file names none; the checkpoint's, or 16 bit"
            kv = one.resolved.model.precision.kv if one.resolved else ""
            found.append(Known(field, kv, "likely" if kv else "unknown", words, ("fp8",)))
        elif field == "weights" and not priced and one.resolved:
            held = sorted({*one.resolved.model.precision.weights.values()})
            found.append(Known(field, " and ".join(held), "certain", "the checkpoint's own"))
        elif field in _LIMITS and not priced:
            found.append(_limit(field))
        elif field in _DEGREES and not priced:
            continue
        elif priced not in (None, ""):
            found.append(Known(field, str(priced), "certain", _GIVEN))
    return (*found, *_load(one))


def _from_file(filling: Filling) -> Known:
    value, evidence = str(filling.value), filling.evidence
    return Known(filling.field, value, "likely" if filling.inferred else "certain", evidence)


def _system(one: Deployment) -> Known:
    """The board: as given or named, distinguished from others of its name by the speed reached."""
    stated = one.measurement.subject.device
    given = one.resolved is not None and not any(f.field == "system" for f in one.fillings)
    name = one.scenario.system if given or not stated else stated
    if one.resolved is None and not stated:
        why = next((m.why for m in one.missing if m.name == "system"), "it is not named")
        return Known("system", "", "unknown", why)
    try:
        fitting = hardware_db.variants(name)
    except RidgelineError:
        if one.resolved is None:
            why = next((m.why for m in one.missing if m.name == "system"), "it is not known")
            return Known("system", "", "unknown", why)
        return Known("system", one.resolved.system.slug, "certain", _GIVEN)
    return board("system", name, fitting, [_beyond(one)] if one.resolved else [])


def _beyond(one: Deployment) -> Callable[[System], str]:
    """Whether TPOT was shorter than a board's bandwidth allows."""
    measured = one.measurement.decode_tpot_s.mean

    def apart(system: System) -> str:
        if not measured:
            return ""
        try:
            bound = bounds_on(one, system)["tpot_s"]
        except RidgelineError:
            return "the model does not fit it"
        if measured < bound:
            return f"TPOT {measured * 1e3:.3g} ms is below its bound of {bound * 1e3:.3g} ms"
        return ""

    return apart


def _version(one: Deployment) -> Known:
    subject, engine = one.measurement.subject, one.scenario.engine
    month = (subject.date or "")[:7]
    if month:
        words = f"the file is of {month} and names no version; today's is priced"
        return Known("engine_version", month, "likely", words, versions_of(engine))
    words = "neither version nor date is in the file; today's is priced"
    return Known("engine_version", "", "unknown", words, versions_of(engine))


def _limit(field: str) -> Known:
    words = "neither file, log nor reader states it; the server's default is priced"
    return Known(field, "", "unknown", words)


def _candidates(one: Deployment, field: str) -> tuple[str, ...]:
    if field == "tp":
        return ("2", "4", "8")
    if field == "engine":
        return tuple(hardware_db.engine_names())
    if field == "weights":
        held = one.resolved.model.precision.weights.values() if one.resolved else ()
        return tuple(name for name in ("bf16", "fp8", "int4") if name not in held)
    return ()


def _load(one: Deployment) -> list[Known]:
    """Batch, tokens and phase of the run."""
    load, phase = one.load, one.measurement.phase
    found = [Known("phase", phase or "prefill and decode", "certain", "the kind of benchmark")]
    if load.known:
        value = f"rate {load.rate:g}" if load.rate else f"concurrency {load.users:g}"
        found.append(Known("batch", value, "likely" if load.inferred else "certain", load.why))
    else:
        found.append(
            Known(
                "batch", "", "unknown", "neither the number of open requests nor a rate is stated"
            )
        )
    if load.isl or load.osl:
        value = f"{load.mean_isl:,.0f} in, {load.mean_osl:,.0f} out"
        spread = one.measurement.lengths
        counted = bool(spread.isl.typical or spread.osl.typical)
        words = "the lengths of its requests" if counted else "the lengths that were asked for"
        found.append(Known("tokens", value, "certain" if counted else "likely", words))
    else:
        found.append(Known("tokens", "", "unknown", "the file states no lengths"))
    return found

"""What ran, fact by fact: certain, likely with its evidence, or unknown with candidates.

Evidence takes precedence over labels.  A name that fits several boards is resolved by their units,
memory and bandwidth where the report states these; otherwise the user is asked.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import hardware_db
import model_registry
from app.measuring.device_by_size import contradiction, with_device
from app.measuring.likely_models import likely_models
from app.measuring.model_facts import degree_by_products
from app.measuring.prediction import FORMATS as TORCH_FORMATS
from app.question.question import Question
from genz_core.errors import RidgelineError
from genz_core.graphs import Model
from genz_core.systems import System
from hardware_db.engine_files import known_versions
from profilers import Report
from profilers.operators.number_formats import is_expert_product, weights_of_name
from profilers.phases.what_ran import Fact, StepFacts, WhatRan, named_device
from profilers.schema import DeviceInfo

Certainty = Literal["certain", "likely", "unknown"]
#: Candidates for an unknown fact, where no evidence narrows them.
_FORMATS = ("bf16", "fp8", "mxfp4", "nvfp4", "int4")
_DEGREES = ("1", "2", "4", "8")
#: Number of versions that are proposed, newest first.
_MOST_VERSIONS = 6
#: Relative difference up to which figures of a board and of a report count as equal.
_SAME = 0.12
#: A format that less than this share of the products' time shows is not the likely one.
_MOST = 0.5


@dataclass(frozen=True, slots=True)
class Known:
    """A fact about what ran.

    field: name of a parameter, or "tokens", "phase", "limits".  value: "" where it is unknown.
    evidence: where it was found, or why it is unknown.  candidates: other possible values,
    likeliest first.
    """

    field: str
    value: str
    certainty: Certainty
    evidence: str
    candidates: tuple[str, ...] = ()

    def __str__(self) -> str:
        others = f"; or {', '.join(self.candidates)}" if self.candidates else ""
        if self.certainty == "unknown":
            return f"{self.field} unknown: {self.evidence}{others}"
        return f"{self.field} {self.value}, {self.certainty}: {self.evidence}{others}"

    def document(self) -> dict[str, Any]:
        """The fact as `--json` prints it."""
        return {**asdict(self), "candidates": list(self.candidates)}


def of_reports(
    ran: WhatRan, reports: Sequence[Report], priced: Model | None = None
) -> tuple[Known, ...]:
    """The facts in the reports of one run.  priced: the model that is priced, if one is."""
    named = model(ran, [report.label for report in reports])
    return (
        _device(reports),
        named,
        _weights(ran, reports),
        _told("kv", ran.kv, "no kernel name states the format", ("bf16", "fp8"), "likely"),
        *_steps(ran),
        *_degrees(ran, priced or _loaded(named.value)),
        _engine(ran),
        _version(ran.engine.value if ran.engine else "", "no report names its release"),
        Known("limits", "", "unknown", "kernels of steps do not show the limits of a server"),
    )


def as_given(
    facts: Sequence[Known], question: Question, given: Collection[str]
) -> tuple[Known, ...]:
    """Facts where unknown ones are replaced by what the user gave.  given: names of parameters."""
    return tuple(
        Known(one.field, str(getattr(question, one.field)), "certain", "as it was given")
        if one.certainty == "unknown" and one.field in given
        else one
        for one in facts
    )


def rows(facts: Sequence[Known]) -> list[dict[str, str]]:
    """Facts for a reader, one row each."""
    return [
        {
            "fact": one.field.replace("_", " "),
            "value": one.value,
            "known": one.certainty,
            "evidence": one.evidence,
            "or": ", ".join(one.candidates),
        }
        for one in facts
    ]


def _told(
    field: str,
    fact: Fact[Any] | None,
    why: str,
    candidates: tuple[str, ...] = (),
    certainty: Certainty = "certain",
) -> Known:
    """A fact with its evidence.  why: reason why an unknown fact is unknown."""
    if fact is None:
        return Known(field, "", "unknown", why, candidates)
    return Known(field, str(fact.value), certainty, fact.evidence)


# ------------------------------------------------------------------------------- device


def _device(reports: Sequence[Report]) -> Known:
    """The system: of the device's name, or of its size where the reports contradict or lack one."""
    named = named_device(reports)
    said = contradiction(named, reports)
    if named is None or said:
        sized = with_device(WhatRan(device=named), reports).device
        if sized is not None:
            return Known("system", hardware_db.load(sized.value).slug, "likely", sized.evidence)
        return Known("system", "", "unknown", said or "no report names its device")
    try:
        fitting = hardware_db.variants(named.value)
    except RidgelineError:
        words = f"{named.evidence}: {named.value}, which has no datasheet here"
        return Known("system", "", "unknown", words)
    stated = [device for report in reports for device in report.devices]
    return board("system", named.value, fitting, [_as_stated(stated)])


def board(
    field: str,
    name: str,
    fitting: Sequence[str],
    tests: Sequence[Callable[[System], str]],
) -> Known:
    """The board of a name that fits several: those that no test excludes.

    tests: each returns why a system is excluded, "" where it is not.
    """
    out = {slug: said for slug in fitting for t in tests if (said := t(hardware_db.load(slug)))}
    if len(fitting) == 1:
        words = f"{name} is the name of only one board"
        if out:
            return Known(field, fitting[0], "likely", f"{words}, but {out[fitting[0]]}")
        return Known(field, fitting[0], "certain", words)
    left = [slug for slug in fitting if slug not in out] or list(fitting)
    told = "; ".join(f"{slug}: {said}" for slug, said in out.items())
    words = f"{name} fits {len(fitting)} boards" + (f"; ruled out are {told}" if told else "")
    if len(left) == 1:
        return Known(field, left[0], "likely", words)
    return Known(field, left[0], "likely", f"{words}; the first one is assumed", tuple(left[1:]))


def _as_stated(devices: Sequence[DeviceInfo]) -> Callable[[System], str]:
    """A test of a datasheet against what a report states about its device."""

    def apart(system: System) -> str:
        for device in devices:
            for words, ran, meant, unit in (
                ("units", device.units, system.compute_units, 1.0),
                ("GB of memory", device.memory_bytes, system.memory_bytes, 1e9),
                ("GB/s", device.memory_bytes_per_s, system.memory_bytes_per_s, 1e9),
            ):
                if ran and meant and abs(ran / meant - 1.0) > _SAME:
                    return f"{meant / unit:,.0f} {words}, the report states {ran / unit:,.0f}"
        return ""

    return apart


# ------------------------------------------------------------------------------- model, formats


def model(ran: WhatRan, labels: Sequence[str]) -> Known:
    """The model: as the run states it, otherwise the likely ones.  labels: names of the files."""
    if ran.model is not None:
        return Known("model", ran.model.value, "certain", ran.model.evidence)
    near = likely_models(ran, labels)
    if not near:
        why = (
            "the shapes match no shipped model"
            if ran.hidden
            else "neither shapes nor a name identify it"
        )
        return Known("model", "", "unknown", why)
    words = "its hidden size, layers and products fit" if ran.hidden else "its file's name fits"
    if len(near) > 1:
        words += f"; so do those of {len(near) - 1} more"
    return Known("model", near[0], "likely", words, tuple(near[1:]))


def _weights(ran: WhatRan, reports: Sequence[Report]) -> Known:
    typed = TORCH_FORMATS.get(ran.dtype.value, ran.dtype.value) if ran.dtype else ""
    spent = _time_by_weights(reports, typed)
    if ran.dtype is not None and not set(spent) - {typed}:
        return Known("weights", typed, "certain", ran.dtype.evidence)
    named = sorted(set(spent) - {""}, key=lambda kind: -spent[kind])
    if not named:
        return Known(
            "weights", "", "unknown", "neither types nor names of kernels show it", _FORMATS
        )
    share = spent[named[0]] / sum(spent.values())
    words = (
        f"{share * 100:.0f} % of the time of matrix products and experts is in kernels that show it"
    )
    if share < _MOST:
        return Known("weights", "", "unknown", f"only {words}: {named[0]}", tuple(named))
    return Known("weights", named[0], "likely", words, tuple(named[1:]))


def _time_by_weights(reports: Sequence[Report], typed: str) -> dict[str, float]:
    """{number format: seconds of the products whose weights have it}, "" for unknown ones.

    typed: format of the products outside of experts by their types, "" to read it from the names of
    their kernels, as that of experts is.
    """
    spent: dict[str, float] = {}
    for report in reports:
        kernels = report.kernels
        products = kernels[kernels["operator_class"].isin(["gemm", "gemv", "moe"])]
        rows = zip(
            products["name"], products["operator_class"], products["duration_s"], strict=True
        )
        for name, kind, seconds in rows:
            if seconds > 0 and (kind != "moe" or is_expert_product(str(name))):
                by_name = not typed or kind == "moe"
                format_ = (weights_of_name(str(name)) or "") if by_name else typed
                spent[format_] = spent.get(format_, 0.0) + float(seconds)
    return spent


# ------------------------------------------------------------------------------- steps, degrees


def _steps(ran: WhatRan) -> list[Known]:
    phases = {phase: facts for phase, facts in ran.steps.items() if phase}
    if not phases:
        why = "no range, shape or name shows the phase"
        found = [Known("phase", "", "unknown", why, ("prefill", "decode"))]
    else:
        evidence = "; ".join(dict.fromkeys(facts.evidence for facts in phases.values()))
        by_file = any(facts.by_file for facts in phases.values())
        others = tuple(one for one in ("prefill", "decode") if one not in phases and by_file)
        certainty: Certainty = "likely" if by_file else "certain"
        found = [Known("phase", " and ".join(phases), certainty, evidence, others)]
    for phase, facts in ran.steps.items():
        of = f" of {phase}" if phase else ""
        found.append(_told(f"batch{of}", facts.batch, "neither ranges nor shapes show it"))
        found.append(_told(f"tokens{of}", _tokens(facts), "neither ranges nor shapes show them"))
    return found


def _tokens(facts: StepFacts) -> Fact[Any] | None:
    """New tokens of a step, and the context of each sequence where known."""
    tokens = facts.tokens
    if tokens is None and facts.length is not None:
        sequences = facts.batch.value if facts.batch else 1
        tokens = Fact(sequences * facts.length.value, facts.length.evidence)
    if tokens is None:
        return None
    context = (
        f" after {facts.context.value:,} each" if facts.context and facts.context.value else ""
    )
    return Fact(f"{tokens.value:,}{context}", tokens.evidence)


def _loaded(name: str) -> Model | None:
    try:
        return model_registry.load(name) if name else None
    except RidgelineError:
        return None


def _degrees(ran: WhatRan, model: Model | None) -> list[Known]:
    """The split: by the products of the model that is priced, otherwise of the one that fits."""
    if ran.ranks is None:
        why = "a report of one device does not show how many there were"
        return [Known("tp", "", "unknown", why, _DEGREES)]
    if ran.ranks.value == 1:
        return [Known("tp", "1", "certain", ran.ranks.evidence)]
    ranks, words = ran.ranks.value, ran.ranks.evidence
    degree = degree_by_products(model, ranks, ran.products) if model else 0
    words += "; products of the priced model show how they split it"
    if degree:
        words = f"{ran.ranks.evidence} and the shapes of its matrix products"
    tp = degree or ranks
    found = [Known("tp", str(tp), "likely", words, _divisors(ranks, tp))]
    return found if tp == ranks else [*found, Known("dp", str(ranks // tp), "likely", words)]


def _divisors(number: int, without: int) -> tuple[str, ...]:
    return tuple(str(n) for n in range(number, 0, -1) if number % n == 0 and n != without)


# ------------------------------------------------------------------------------- engine


def _engine(ran: WhatRan) -> Known:
    names = tuple(hardware_db.engine_names())
    if ran.engine is None:
        return Known(
            "engine", "", "unknown", "no range or operator is specific to one engine", names
        )
    return Known("engine", ran.engine.value, "certain", ran.engine.evidence)


def _version(engine: str, why: str) -> Known:
    return Known("engine_version", "", "unknown", why, versions_of(engine))


def versions_of(engine: str) -> tuple[str, ...]:
    """Measured versions of an engine, newest first; none for an unknown engine."""
    try:
        record = hardware_db.engine_facts(engine) if engine else None
    except RidgelineError:
        record = None
    return tuple(known_versions(record)[::-1][:_MOST_VERSIONS]) if record else ()

"""Facts in a benchmark's file name, for files whose record leaves them out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from profilers.serving_results.measurement import ServingMeasurement

_NUMBERS = {
    "isl": r"(?:isl|ip|in|input|inputlen|il)[-_=]?(\d{1,7})",
    "osl": r"(?:osl|op|out|output|outputlen|ol)[-_=]?(\d{1,7})",
    "requests": r"(?:np|req|reqs|prompts|numprompts|num_prompts)[-_=]?(\d{1,7})",
    "concurrency": r"(?:conc|concurrency|c)[-_=]?(\d{1,6})",
    "tp": r"tp[-_=]?(\d{1,3})",
    "ep": r"ep[-_=]?(\d{1,3})",
    "pp": r"pp[-_=]?(\d{1,3})",
    "dp": r"dp[-_=]?(\d{1,3})",
    "tep": r"tep(\d{1,3})",
    "dep": r"dep(\d{1,3})",
}
_START, _END = r"(?:^|(?<=[^a-z0-9]))", r"(?![a-z0-9])"
_PATTERNS = {name: re.compile(_START + text + _END) for name, text in _NUMBERS.items()}
#: Accelerators that a name may hold; the count stands on either side: h100x8, 8xH100.
_CHIP = r"(gb200|gb300|gh200|[ablh]\d{2,3}s?|mi\d{3}[a-z]?|rtx\d{4}|gaudi\d)"
_DEVICES = re.compile(rf"{_START}(?:{_CHIP}x(\d{{1,3}})|(\d{{1,3}})x{_CHIP}[a-z0-9]*){_END}")
_ENGINES = {"vllm": "vllm", "sglang": "sglang", "trtllm": "trtllm", "trt": "trtllm"}


@dataclass(frozen=True, slots=True)
class NameFacts:
    """Facts of a file name; None for what it does not state.  degrees: "tp" -> ranks."""

    isl: int | None = None
    osl: int | None = None
    requests: int | None = None
    concurrency: int | None = None
    device: str | None = None
    devices: int | None = None
    engine: str | None = None
    degrees: Mapping[str, int] = field(default_factory=dict)


def facts_of(name: str) -> NameFacts:
    """The facts of a file name; a figure that it states twice with different values is left out."""
    text = name.casefold()
    found = {}
    for key, pattern in _PATTERNS.items():
        values = {int(value) for value in pattern.findall(text)}
        if len(values) == 1 and (value := values.pop()) > 0:
            found[key] = value
    degrees = {key: size for key, size in found.items() if key in ("tp", "pp", "dp", "ep")}
    if "tep" in found:
        degrees |= {"tp": found["tep"], "ep": found["tep"]}
    if "dep" in found:
        degrees |= {"dp": found["dep"], "ep": found["dep"]}
    device, devices = _device(text)
    words = set(re.split(r"[^a-z0-9]+", text))
    engines = {engine for word, engine in _ENGINES.items() if word in words}
    return NameFacts(
        found.get("isl"), found.get("osl"), found.get("requests"), found.get("concurrency"),
        device, devices, engines.pop() if len(engines) == 1 else None, degrees,
    )  # fmt: skip


def with_name(measurement: ServingMeasurement, name: str) -> ServingMeasurement:
    """A measurement completed with facts of its file's name, with a note that says so."""
    named, subject, load = facts_of(name), measurement.subject, measurement.load
    taken: list[str] = []
    if subject.device is None and named.device:
        subject = replace(subject, device=named.device, devices=subject.devices or named.devices)
        taken.append(f"{subject.devices} x {named.device}")
    if subject.engine is None and named.engine:
        subject = replace(subject, engine=named.engine)
        taken.append(named.engine)
    if not subject.degrees and named.degrees:
        subject = replace(subject, degrees=named.degrees)
        taken += [f"{key} {size}" for key, size in named.degrees.items()]
    if named.concurrency and not (load.concurrency or load.rate or load.concurrency_mean):
        load = replace(load, concurrency=float(named.concurrency))
        taken.append(f"concurrency {named.concurrency}")
    lengths: dict[str, Any] = {}
    for side in ("isl", "osl"):
        known = getattr(measurement.lengths, side), getattr(measurement.lengths, f"{side}_asked")
        if (tokens := getattr(named, side)) and not any(known):
            lengths[f"{side}_asked"] = float(tokens)
            taken.append(f"{side.upper()} {tokens}")
    if not taken:
        return measurement
    return replace(
        measurement,
        subject=subject,
        load=load,
        lengths=replace(measurement.lengths, **lengths),
        notes=(*measurement.notes, f"from the file's name: {', '.join(taken)}"),
    )


def _device(text: str) -> tuple[str | None, int | None]:
    matches = {(m[1] or m[4], int(m[2] or m[3])) for m in _DEVICES.finditer(text)}
    if len(matches) != 1:
        return None, None
    chip, count = matches.pop()
    # the x of mi300x8 is both a letter of the name and the multiplication sign
    written_once = re.search(rf"{chip}x\d", text) and chip in ("mi300", "mi325", "mi350", "mi355")
    return f"{chip.upper()}X" if written_once else chip.upper(), count

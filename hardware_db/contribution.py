"""Checks a system's YAML file: its figures, and what it lacks before it can ship."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hardware_db
from hardware_db import system_files, yaml_document
from hardware_db.own_files import read_text
from hardware_db.system_schema import SystemRecord

#: Figures that predictions use, by the keys of a file, and what is missing without them.
_WANTED = {
    "tdp_w": "no power: energy per token cannot be computed",
    "links": "no links: only one device can be used",
    "host": "no host link: nothing can be offloaded",
}
#: Plausible range of FLOPs per byte (peak over bandwidth).
_RIDGE = (15.0, 1000.0)


@dataclass(frozen=True, slots=True)
class FileReport:
    """figures: each with value, kind, source and note.  remarks: sentences for the author."""

    figures: list[dict[str, Any]]
    remarks: list[str]


def check(path: Path) -> FileReport:
    """The report of one file.

    Raises:
        InvalidValue: it does not fit the schema, or cannot be read.
    """
    record = system_files.complete(yaml_document.parse(read_text(path, str(path))), path.name)
    figures = [
        {
            "figure": name,
            "value": fact.value,
            "kind": fact.kind,
            "source": record.sources[fact.source].title,
            "note": fact.note or "",
        }
        for name, fact in record.figures()
    ]
    return FileReport(figures, _remarks(record, path, figures))


def _remarks(record: SystemRecord, path: Path, figures: list[dict[str, Any]]) -> list[str]:
    kinds = Counter(str(figure["kind"]) for figure in figures)
    counted = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    remarks = [f"{len(figures)} figures: {counted}"]
    if path.stem != record.id:
        remarks.append(f"name the file {record.id}.yaml, after its id")
    stated = {str(figure["figure"]).partition(".")[0] for figure in figures}
    remarks += [sentence for key, sentence in _WANTED.items() if key not in stated]
    system = record.system()
    peak = max(system.peak_flops_per_s.get(kind, 0.0) for kind in ("fp16", "bf16", "fp32"))
    ridge = peak / system.memory_bytes_per_s
    if not _RIDGE[0] < ridge < _RIDGE[1]:
        remarks.append(
            f"16-bit peak over bandwidth is {ridge:.3g} FLOPs a byte, outside the usual range "
            f"({_RIDGE[0]:g} to {_RIDGE[1]:g}): are the units right, are peaks dense?"
        )
    unread = [
        name for name, source in record.sources.items() if source.url and not source.retrieved
    ]
    if unread:
        remarks.append(f"sources without the date of retrieval: {', '.join(unread[:8])}")
    shipped = {slug: hardware_db.facts(slug).aliases for slug in hardware_db.names()}
    taken = {name.casefold(): slug for slug, more in shipped.items() for name in (slug, *more)}
    clashes = [
        n for n in (record.id, *record.aliases) if taken.get(n.casefold(), record.id) != record.id
    ]
    if clashes:
        remarks.append(f"names that other systems have: {', '.join(clashes[:8])}")
    return remarks

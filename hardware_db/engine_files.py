"""Serving engines by name: those that ship, the user's own, and the priors of their fit."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache, lru_cache
from pathlib import Path

from genz_core.engine import EngineProfile
from genz_core.errors import LONGEST_NAME, InvalidValue, UnknownEngine
from hardware_db import engine_versions, recipes, yaml_document
from hardware_db.data_folder import data_folder
from hardware_db.engine_schema import EngineRecord, engine_record
from hardware_db.engine_versions import Era
from hardware_db.own_files import OwnFiles, read_all, read_text
from hardware_db.tables import table

GENERIC = "generic"
_SHIPPED = Path(__file__).parent / "engines"


def engine_names() -> list[str]:
    """Names of the engines that have a profile, shipped ones and the user's own."""
    return sorted(_records())


def engine_facts(name: str) -> EngineRecord:
    """An engine's record: every figure with its source.

    A name may carry a version or a remark, as tables print them: "vLLM 0.6.3",
    "llama.cpp (llama-bench)", "HF Transformers 4.35 [fp16]".

    Raises:
        UnknownEngine: no profile has that name or alias; the near ones are listed.
        InvalidValue: the user's file of that name is damaged.
    """
    records, left_out = _records(), own_engines().left_out
    if len(name) > LONGEST_NAME:
        raise UnknownEngine("engine", name, records)
    for stem, sentence in left_out.items():
        if _fold(stem) == _fold(name):
            raise InvalidValue(sentence)
    spellings = {
        _fold(spelling): record
        for record in records.values()
        for spelling in (record.id, record.name, *record.aliases)
    }
    plain = re.sub(r"[(\[].*|[\s@-]b?\d[\w-]*$|\bv?\d+(\.\w+)+\b.*", "", name)
    for candidate in (name, plain, plain.partition("/")[0]):
        if _fold(candidate) in spellings:
            return spellings[_fold(candidate)]
    raise UnknownEngine("engine", name, [*records, *(r.name for r in records.values())])


def load_engine(name: str = GENERIC, version: str = "", *, own: bool = True) -> EngineProfile:
    """The profile of an engine with its measurements; the generic one for an unknown name.

    Args:
        name: as for `engine_facts`.  The profile's `name` is the one that was used, so that a
            caller can tell the user.
        version: release, build or month (`hardware_db.engine_versions`); that in the name unless
            told.
        own: whether recipes that the user calibrated stand in for shipped ones.
    """
    try:
        record = engine_facts(name or GENERIC)
    except UnknownEngine:
        record = engine_facts(GENERIC)
    measured = recipes.engine_measurements(record.id, own=own)
    version = version.strip() or engine_versions.in_name(name)
    era = engine_versions.era_of(record.eras, version)
    known = (
        era.id in measured.eras if era else not engine_versions.is_beyond(record.versions, version)
    )
    return replace(
        record.profile(),
        measurements=measured,
        version=version.removeprefix("v"),
        era=era.id if era else "",
        unmeasured=not known,
    )


def measured_engine(slug: str) -> str:
    """The engine to ask of a system unless one is named: vllm where it was measured there, else
    the engine with the most measured points of it, else the generic one.

    slug: of the system.
    """
    rows = [row for row in table("engines", "devices") if row["system"] == slug]
    points = {row["engine"]: int(row["points"]) for row in rows}
    return "vllm" if "vllm" in points else max(points, key=points.__getitem__, default=GENERIC)


def era_facts(name: str, era: str) -> Era:
    """An era of an engine by its id.  Raises `KeyError`."""
    return {found.id: found for found in engine_facts(name).eras}[era]


def prior_engine(name: str) -> EngineProfile:
    """The profile of an engine before any fit, from documentation and judgement.

    Raises:
        UnknownEngine: no engine of that name has a prior.
    """
    priors = {path.stem: path for path in (_SHIPPED / "priors").glob("*.yaml")}
    if name not in priors:
        raise UnknownEngine("engine", name, priors)
    return _read(priors[name]).profile()


def own_folder() -> Path:
    """Folder of the user's own engines; it need not exist."""
    return data_folder() / "engines"


def _fold(name: str) -> str:
    """A name without case and separators."""
    return "".join(letter for letter in name.casefold() if letter.isalnum())


def own_engines() -> OwnFiles[EngineRecord]:
    """The user's own engines but for damaged ones."""
    return read_all("engines/*.yaml", _own, "mend it or move it away")


def _records() -> Mapping[str, EngineRecord]:
    """{name: record} of the engines that ship, the user's own in place of theirs."""
    return {**_shipped(), **own_engines().announced().records}


@lru_cache(maxsize=64)
def _own(path: Path, _modified: int) -> EngineRecord:
    """The record in a user's file, cached by the time of its last change."""
    return engine_record(yaml_document.parse(read_text(path), "it"), "it")


@cache
def _shipped() -> Mapping[str, EngineRecord]:
    """{name: record} of the engines that ship."""
    return {path.stem: _read(path) for path in sorted(_SHIPPED.glob("*.yaml"))}


def _read(path: Path) -> EngineRecord:
    """The record in a file.  Raises `InvalidValue`."""
    return engine_record(yaml_document.parse(path.read_text("utf-8"), path.name), path.name)

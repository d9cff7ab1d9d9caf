"""Serving engines by name: those that ship, the user's own, and the priors of their fit."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from genz_core.engine import EngineProfile
from genz_core.errors import LONGEST_NAME, InvalidValue, UnknownEngine, UnsupportedEngine
from genz_core.limits import brief
from genz_core.systems import System
from hardware_db import engine_versions, recipes, yaml_document
from hardware_db.data_folder import data_folder
from hardware_db.engine_schema import EngineRecord, engine_record
from hardware_db.engine_versions import Era, Version
from hardware_db.own_files import OwnFiles, read_all, read_text
from hardware_db.tables import table

GENERIC = "generic"
_DEFAULT, _OF_APPLE = "vllm", "mlx"
_SHIPPED = Path(__file__).parent / "engines"
_PRIORS = Path(__file__).parent / "engine_priors.yaml"
_FITTED = "fit"  # the source of constants that the fit writes


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
    own = own_engines()
    if name in _files() and not (own.records or own.left_out):
        return _shipped(name)
    records, left_out = _records(), own.left_out
    if len(name) > LONGEST_NAME:
        raise UnknownEngine("engine", name, instead=_choices(records))
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
    names = [*records, *(r.name for r in records.values())]
    raise UnknownEngine("engine", name, names, instead=_choices(records))


def _choices(records: Iterable[str]) -> str:
    return f"Engines: {', '.join(sorted(records))}."


def load_engine(name: str = GENERIC, version: str = "", *, own: bool = True) -> EngineProfile:
    """The profile of an engine with its measurements.

    Args:
        name: as for `engine_facts`; "" for the generic engine.
        version: release, build or month (`hardware_db.engine_versions`); by default the one in the
            name.  A version without measurements is priced and marked `unmeasured`.
        own: whether the user's own recipes replace shipped ones.

    Raises:
        UnknownEngine: no profile has that name or alias, or the version cannot be read; the near
            names or the known versions are listed.
        InvalidValue: the user's file of that name is damaged.
    """
    if not isinstance(name, str):
        raise InvalidValue(f"engine = {brief(name)}: give a name")
    record, named = _named(name or GENERIC)
    version = version.strip() or named
    if version and not engine_versions.is_readable(version):
        _check_measured(record, version)
    measured = recipes.engine_measurements(record.id, own=own)
    era = engine_versions.era_of(record.eras, version)
    known = (
        era.id in measured.eras if era else not engine_versions.is_beyond(record.versions, version)
    )
    return replace(
        record.profile(version),
        measurements=measured,
        version=version.removeprefix("v"),
        era=era.id if era else "",
        unmeasured=not known,
    )


def ran_otherwise(name: str, version: str) -> bool:
    """Whether this version of an engine has other constants or defaults than the current one.

    Raises:
        UnknownEngine: see `engine_facts`.
    """
    record, _ = _named(name)
    if engine_versions.era_of(record.eras, version) is not None:
        return True
    return record.profile(version) != record.profile()


def known_versions(record: EngineRecord) -> list[str]:
    """Measured versions of an engine, and the last version of each era; oldest first.

    Builds without a number ("nightly-...") come last.
    """
    found = {row["version"] for row in table("engines", "runs") if row["engine"] == record.id}
    found |= {era.until for era in record.eras}
    return sorted(filter(None, found), key=_age)


def _age(version: str) -> tuple[bool, tuple[int, ...], str]:
    numbers = Version.of(version).numbers
    return not numbers, numbers, version


def _named(name: str) -> tuple[EngineRecord, str]:
    """The record of an engine's name and the version that the name carries, "" for none.

    What follows a known engine's name is its version: "vllm banana" is an unreadable version of
    vllm, not an unknown engine.

    Raises:
        UnknownEngine: see `engine_facts`.
    """
    try:
        return engine_facts(name), engine_versions.in_name(name)
    except UnknownEngine as unknown:
        first, _, rest = name.strip().replace("@", " ").partition(" ")
        try:
            return engine_facts(first), rest.strip()
        except UnknownEngine:
            raise unknown from None


def _check_measured(record: EngineRecord, version: str) -> None:
    """Refuse a version that cannot be read, unless a measured build has that name.

    Raises:
        UnknownEngine: its message lists the known versions.
    """
    known = known_versions(record)
    if version in known:
        return
    listed = f"known are {', '.join(known)}; " if known else ""
    raise UnknownEngine(
        f"version of {record.id}",
        version,
        known,
        f"Give a release (0.9.0), a build (b6918) or a month (2024-05), or leave it out; "
        f"{listed}others have wider intervals",
    )


def engines_for(system: System) -> tuple[str, ...]:
    """Engines that run on a system according to their documentation, the default first.

    Returns the default engine if no engine's documentation lists the system.
    """
    found = [
        record.id
        for record in sorted(_records().values(), key=lambda record: record.id != _DEFAULT)
        if record.runs_on and system in record.runs_on
    ]
    return tuple(found) or (default_engine(system),)


def require_runs_on(
    name: str, system: System, version: str = "", formats: Iterable[str] = ()
) -> None:
    """Refuse an engine on a system that its documentation does not list.

    A system without a vendor (a user's own, a hypothetical one) is not refused.

    Args:
        name, version: as in `load_engine`.
        formats: of the weights.

    Raises:
        UnsupportedEngine: it names the systems that the engine runs on, and engines that run here,
            or the first release that runs there.
        UnknownEngine: as in `engine_facts`.
    """
    record, named = _named(name or GENERIC)
    if not system.vendor:
        return
    _require_release(record, system, version.strip() or named, tuple(formats))
    if not record.only_on or any(system in some for some in record.only_on):
        return
    where = " and ".join(map(str, record.only_on))
    source = record.sources[record.only_on[0].source].title
    raise UnsupportedEngine(
        f"{record.name} does not run on {system.name}, only on {where} ({source}); choose "
        f"{' or '.join(engines_for(system))}"
    )


def _require_release(
    record: EngineRecord, system: System, version: str, formats: tuple[str, ...]
) -> None:
    """Refuse a release that does not support a system, or formats of weights, yet or any more.

    Raises:
        UnsupportedEngine: the message names the first release, or the last.
    """
    for bounds in record.bounds:
        if why := bounds.refusal(system, formats, version):
            source = record.sources[bounds.source].title
            asked = f"{record.name} {version}".strip()
            raise UnsupportedEngine(f"{asked} does not run on {system.name}: {why} ({source})")


def default_engine(system: System) -> str:
    """The default engine of a system: vllm if it runs there, mlx on Apple's, otherwise generic."""
    if system.vendor == "Apple":
        return _OF_APPLE
    record = own_engines().announced().records.get(_DEFAULT) or _shipped(_DEFAULT)
    return _DEFAULT if record.runs_on and system in record.runs_on else GENERIC


def era_facts(name: str, era: str) -> Era:
    """An era of an engine by its id.  Raises `KeyError`."""
    return {found.id: found for found in engine_facts(name).eras}[era]


@cache
def prior_engine(name: str) -> EngineProfile:
    """The profile of an engine before any fit: its file with `engine_priors.yaml` in place of every
    fitted constant.

    Raises:
        UnknownEngine: no engine of that name has a prior.
    """
    priors = _document(_PRIORS)
    if name not in priors["engines"]:
        raise UnknownEngine("engine", name, priors["engines"])
    document = _document(_files()[name])
    kept = {
        key: fact
        for key, fact in document.items()
        if not (isinstance(fact, Mapping) and fact.get("source") == _FITTED)
    }
    sources = document["sources"] | priors["sources"]
    whole = {**kept, **priors["engines"][name], "sources": sources}
    return engine_record(whole, _PRIORS.name).profile()


def own_folder() -> Path:
    """Folder of the user's own engines; it need not exist."""
    return data_folder() / "engines"


def _fold(name: str) -> str:
    """A name without case and separators."""
    return "".join(letter for letter in name.casefold() if letter.isalnum())


def own_engines() -> OwnFiles[EngineRecord]:
    """The user's own engines, without damaged ones."""
    return read_all("engines/*.yaml", _own, "fix it or move it away")


def _records() -> Mapping[str, EngineRecord]:
    """{name: record} of the shipped engines, with the user's own replacing them."""
    shipped = {name: _shipped(name) for name in _files()}
    return {**shipped, **own_engines().announced().records}


@lru_cache(maxsize=64)
def _own(path: Path, _modified: int) -> EngineRecord:
    """The record in a user's file, cached by the file's modification time."""
    return engine_record(yaml_document.parse(read_text(path), "it"), "it")


@cache
def _files() -> Mapping[str, Path]:
    """{name: file} of the engines that ship."""
    return {path.stem: path for path in sorted(_SHIPPED.glob("*.yaml"))}


@cache
def _shipped(name: str) -> EngineRecord:
    """The record of an engine that ships."""
    return _read(_files()[name])


def _read(path: Path) -> EngineRecord:
    """The record in a file.  Raises `InvalidValue`."""
    return engine_record(_document(path), path.name)


def _document(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = yaml_document.parse(path.read_text("utf-8"), path.name, ships=True)
    return document

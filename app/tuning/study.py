"""The folder of a search: the question, and every run in its own file.

    study.json            the question, its settings, goal and targets
    runs/0001/run.json    the setting, why it was run, its outcome
    runs/0001/...  logs of server and client, the client's result
    runs/0002-interrupted a run that was stopped before it had a result

A search continues where it stopped: a run counts once its run.json exists.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from app.answers.table import to_json
from app.question.parameters import PARAMETERS
from app.question.query import Query
from app.tuning.outcome import Outcome, outcome_of
from app.tuning.space import Setting
from genz_core.errors import InvalidValue, file_problem

_STUDY, _RUNS, _RUN = "study.json", "runs", "run.json"


@dataclass(frozen=True, slots=True)
class Record:
    """One run.

    number: from 1.  proposal: its expected figures, as a document; {} if nothing proposed it.
    started: ISO 8601.  seconds: duration.
    """

    number: int
    setting: Setting
    outcome: Outcome
    proposal: Mapping[str, Any] = field(default_factory=dict)
    started: str = ""
    seconds: float = 0.0

    def document(self) -> dict[str, Any]:
        """The run as stored in its file."""
        return {
            "number": self.number,
            "setting": dict(self.setting),
            "proposal": dict(self.proposal),
            "started": self.started,
            "seconds": self.seconds,
            **self.outcome.document(),
        }


def asked_document(query: Query, goal: str, server: str) -> dict[str, Any]:
    """The question, goal and server of a search, as stored in study.json."""
    stated = {name: getattr(query.question, name) for name in PARAMETERS if name in query.given}
    document = {
        "goal": goal,
        "server": server,
        "question": {n: v for n, v in stated.items() if n not in query.several},
        "settings": {name: list(values) for name, values in query.several.items()},
    }
    found: dict[str, Any] = json.loads(to_json(document))
    return found


@dataclass(frozen=True)
class Study:
    """The runs of a search.  folder: None if nothing is stored."""

    folder: Path | None = None
    records: list[Record] = field(default_factory=list)

    def next_folder(self) -> Path | None:
        """An empty folder for the next run; files of an interrupted run there are moved aside."""
        if self.folder is None:
            return None
        path = self.folder / _RUNS / f"{len(self.records) + 1:04d}"
        if path.exists():
            aside = (path.with_name(f"{path.name}-interrupted{n or ''}") for n in range(10_000))
            path.rename(next(one for one in aside if not one.exists()))
        path.mkdir(parents=True)
        return path

    def add(self, record: Record) -> None:
        """Store a run; its file is written completely or not at all."""
        if self.folder is not None:
            path = self.folder / _RUNS / f"{record.number:04d}"
            path.mkdir(parents=True, exist_ok=True)
            draft = path / f".{_RUN}"
            draft.write_text(to_json(record.document()), encoding="utf-8")
            os.replace(draft, path / _RUN)
        self.records.append(record)


def opened(folder: Path | None, query: Query, goal: str, server: str) -> Study:
    """The study of a folder, new or to be continued.

    server: name of what runs the settings; "" if the caller only wants the next setting.

    Raises:
        InvalidValue: the folder holds another search, or files that cannot be read or written.
    """
    if folder is None:
        return Study()
    wanted = asked_document(query, goal, server)
    file = folder / _STUDY
    try:
        if file.exists():
            kept = _read(file)
        elif folder.exists() and any(folder.iterdir()):
            raise InvalidValue(f"{folder} holds other files: name an empty or a new folder")
        else:
            (folder / _RUNS).mkdir(parents=True, exist_ok=True)
            file.write_text(to_json(wanted), encoding="utf-8")
            kept = wanted
        _refuse_another(folder, kept, wanted)
        return Study(folder, _records(folder))
    except OSError as error:
        raise InvalidValue(f"{error.filename or folder}: {file_problem(error)}") from None


def _read(file: Path) -> Any:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InvalidValue(f"{file} is damaged ({error}): remove it, or name another") from None


def _refuse_another(folder: Path, kept: Any, wanted: Mapping[str, Any]) -> None:
    if not isinstance(kept, dict):
        raise InvalidValue(f"{folder / _STUDY} is damaged: remove it, or name another folder")
    for part in wanted:
        if kept.get(part) == wanted[part] or (part == "server" and not wanted[part]):
            continue
        one, other = kept.get(part) or {}, wanted[part]
        differs = f"{part} ({one or 'none'} there, {other} now)"
        if isinstance(one, dict) and isinstance(other, dict):
            names = [n for n in {**one, **other} if one.get(n) != other.get(n)]
            differs = ", ".join(f"{n} ({one.get(n)} there, {other.get(n)} now)" for n in names)
        raise InvalidValue(
            f"{folder} holds a different search: {differs}; repeat that question, or name a new "
            f"folder"
        )


def _records(folder: Path) -> list[Record]:
    """The runs of a folder in order."""
    found = []
    for path in sorted((folder / _RUNS).glob(f"[0-9][0-9][0-9][0-9]/{_RUN}")):
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
            record = record_of(document)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise InvalidValue(
                f"{path} is damaged ({error}): move its folder away, and its setting may be run "
                "again"
            ) from None
        found.append(record)
    for at, record in enumerate(found, start=1):
        if record.number != at:
            raise InvalidValue(
                f"{folder / _RUNS} has run {record.number} but no run {at}: restore it, or name a "
                f"new folder"
            )
    return found


def record_of(document: Mapping[str, Any]) -> Record:
    """The run stored by `Record.document`."""
    return Record(
        int(document["number"]), dict(document["setting"]), outcome_of(document),
        dict(document.get("proposal", {})), str(document.get("started", "")),
        float(document.get("seconds", 0.0)),
    )  # fmt: skip

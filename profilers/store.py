"""The runs that were kept: an index in SQLite, a folder a run with its tables as Parquet.

A run is written into a draft folder and renamed when it is whole, so that a folder with a name is
always complete; then it enters the index.  A crash between the two loses nothing: opening the
store takes in folders that the index does not know.  Several processes may write at once.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import sqlite3
import time
import uuid
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from genz_core.errors import MeasurementError, RidgelineError, UnknownName
from genz_core.types import Workload
from profilers.schema import Device, Measurement, PhaseTiming

_SCHEMA = """
CREATE TABLE IF NOT EXISTS runs (
    id TEXT PRIMARY KEY, created REAL NOT NULL, label TEXT NOT NULL, source TEXT NOT NULL,
    model TEXT, system TEXT, engine TEXT, phases TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS tags (
    run TEXT NOT NULL REFERENCES runs(id) ON DELETE CASCADE, tag TEXT NOT NULL,
    PRIMARY KEY (run, tag)
);
"""
_DRAFT = ".draft-"
_DRAFT_AGE_S = 24 * 3600.0
_RUN, _OPERATORS = "run.json", "operators.parquet"
_MAX_FILES, _MAX_BYTES, _MAX_RATIO = 200, 1 << 30, 400
_BUSY_S = 30.0
#: What a damaged file may raise; a known error passes as it is.
_DAMAGE = (ValueError, TypeError, KeyError, IndexError, AttributeError, RuntimeError,
           pa.ArrowException)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Run:
    """A kept run.  created: seconds since 1970.  phases: median seconds of each."""

    id: str
    created: float
    label: str
    source: str
    model: str | None
    system: str | None
    engine: str | None
    phases: Mapping[str, float]
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Store:
    """Runs in a folder.  Opening it makes the folder and takes in what a crash left complete."""

    folder: Path

    def __post_init__(self) -> None:
        with _sentences(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            with self._index() as index:
                index.executescript(_SCHEMA)
            self._recover()

    # --------------------------------------------------------------------------- writing

    @contextmanager
    def draft(self, measurement: Measurement, label: str = "") -> Iterator[Path]:
        """A folder to put further files of a run into; the run is kept when the block ends.

        Raises:
            MeasurementError: the disk is full or the folder cannot be written; nothing is kept.
        """
        folder = self.folder / f"{_DRAFT}{uuid.uuid4().hex}"
        try:
            with _sentences(self.folder):
                folder.mkdir()
                _write(folder, measurement, label or measurement.model or measurement.source)
            yield folder
            with _sentences(self.folder):
                self._keep(folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """A folder for what a run writes before it is kept; gone when the block ends.

        Raises:
            MeasurementError: the store cannot be written.
        """
        folder = self.folder / f"{_DRAFT}{uuid.uuid4().hex}"
        with _sentences(self.folder):
            folder.mkdir()
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def save(self, measurement: Measurement, label: str = "") -> str:
        """Keep a measurement; returns the id of the run."""
        with self.draft(measurement, label) as folder:
            return self.identity(folder)

    def identity(self, folder: Path) -> str:
        """The id that the run in a draft's folder has."""
        return str(_document(folder)["id"])

    def _keep(self, folder: Path) -> None:
        """A whole draft becomes a run: synced, renamed, indexed."""
        identity = str(_document(folder)["id"])
        for path in folder.rglob("*"):
            if path.is_file():
                with path.open("rb") as opened:
                    os.fsync(opened.fileno())
        os.rename(folder, self.folder / identity)
        self._enter([identity])

    def _enter(self, identities: Iterable[str]) -> None:
        with self._index() as index:
            for identity in identities:
                d = _document(self.folder / identity)
                medians = {
                    name: float(np.median(entry["samples_s"]))
                    for name, entry in d["phases"].items()
                    if entry["samples_s"]
                }
                system = (d["system"] or {}).get("name")
                row = (
                    identity, d["created"], d["label"], d["source"], d["model"], system,
                    d["engine"], json.dumps(medians),
                )  # fmt: skip
                index.execute("INSERT OR IGNORE INTO runs VALUES (?,?,?,?,?,?,?,?)", row)

    def _recover(self) -> None:
        """Index whole folders it does not know, forget rows without one, drop old drafts."""
        there = {p.name for p in self.folder.iterdir() if p.is_dir() and (p / _RUN).exists()}
        whole = {name for name in there if not name.startswith(_DRAFT)}
        known = set(self._ids())
        readable = [name for name in whole - known if _is_whole(self.folder / name)]
        if readable:
            self._enter(readable)
        gone = [(i,) for i in known - whole if not (self.folder / i / _RUN).exists()]
        if gone:
            with self._index() as index:
                index.executemany("DELETE FROM runs WHERE id = ?", gone)
        for path in self.folder.glob(f"{_DRAFT}*"):
            if time.time() - path.stat().st_mtime > _DRAFT_AGE_S:
                shutil.rmtree(path, ignore_errors=True)

    def tag(self, identity: str, *tags: str) -> None:
        """Add tags to a run."""
        run = self.find(identity)
        with _sentences(self.folder), self._index() as index:
            rows = [(run.id, tag.strip()) for tag in tags if tag.strip()]
            index.executemany("INSERT OR IGNORE INTO tags VALUES (?,?)", rows)

    def untag(self, identity: str, *tags: str) -> None:
        run = self.find(identity)
        with _sentences(self.folder), self._index() as index:
            rows = [(run.id, tag) for tag in tags]
            index.executemany("DELETE FROM tags WHERE run = ? AND tag = ?", rows)

    def delete(self, identity: str) -> None:
        """Remove a run and its files: first out of sight, then out of the index."""
        run = self.find(identity)
        doomed = self.folder / f"{_DRAFT}{uuid.uuid4().hex}"
        with _sentences(self.folder):
            os.rename(self.folder / run.id, doomed)
            with self._index() as index:
                index.execute("DELETE FROM runs WHERE id = ?", (run.id,))
        shutil.rmtree(doomed, ignore_errors=True)

    # --------------------------------------------------------------------------- reading

    def runs(self, tag: str = "") -> list[Run]:
        """All runs, or those with a tag, latest first."""
        with _sentences(self.folder), self._index() as index:
            rows = index.execute("SELECT * FROM runs ORDER BY created DESC, id").fetchall()
            tags: dict[str, list[str]] = {}
            for run, name in index.execute("SELECT run, tag FROM tags ORDER BY tag"):
                tags.setdefault(run, []).append(name)
        found = [_row(row, tuple(tags.get(row[0], ()))) for row in rows]
        return [run for run in found if not tag or tag in run.tags]

    def find(self, identity: str) -> Run:
        """A run by its id or the start of it.

        Raises:
            UnknownName: none starts so, or several do.
        """
        runs = self.runs()
        matches = [run for run in runs if identity and run.id.startswith(identity)]
        if len(matches) != 1:
            hint = "several runs start so" if matches else "`ridgeline runs list` shows all"
            raise UnknownName("run", identity, [run.id for run in matches or runs], hint)
        return matches[0]

    def path(self, identity: str) -> Path:
        """The folder of a run with its files."""
        return self.folder / self.find(identity).id

    def load(self, identity: str) -> Measurement:
        """The measurement of a run.

        Raises:
            UnknownName: no such run.  MeasurementError: its files are damaged.
        """
        folder = self.path(identity)
        with _sentences(folder):
            return _measurement(folder)

    def compare(self, *identities: str) -> pd.DataFrame:
        """A row an operator class and phase with seconds of each run, and the phases' medians."""
        columns = {}
        for identity in identities:
            run, measured = self.find(identity), self.load(identity)
            medians = pd.Series(dict(run.phases), dtype=float)
            medians.index = pd.MultiIndex.from_tuples(
                [(name, "all") for name in medians.index], names=["phase", "class"]
            )
            operators = measured.operators.assign(**{"class": measured.operators["kind"]})
            by_class = operators.groupby(["phase", "class"])["time_s"].sum()
            columns[run.id[:8]] = pd.concat([medians, by_class])
        return pd.DataFrame(columns).rename_axis(["phase", "class"]).reset_index()

    # --------------------------------------------------------------------------- one file

    def export(self, identity: str, target: Path) -> Path:
        """A run as one zip file, which `take` reads on another machine."""
        folder = self.path(identity)
        draft = target.with_name(f"{target.name}.{uuid.uuid4().hex[:8]}.tmp")
        try:
            with _sentences(target.parent):
                with zipfile.ZipFile(draft, "w", zipfile.ZIP_DEFLATED) as archive:
                    for path in sorted(folder.rglob("*")):
                        if path.is_file():
                            archive.write(path, path.relative_to(folder).as_posix())
                os.replace(draft, target)
        finally:
            draft.unlink(missing_ok=True)
        return target

    def take(self, source: Path | bytes) -> str:
        """Keep a run that `export` wrote; returns its id.  One that is there already stays.

        Raises:
            MeasurementError: the file is no such run, or is damaged.
        """
        folder = self.folder / f"{_DRAFT}{uuid.uuid4().hex}"
        try:
            with _sentences(self.folder):
                folder.mkdir()
                _unpack(io.BytesIO(source) if isinstance(source, bytes) else source, folder)
                identity = str(_document(folder)["id"])
                if identity not in self._ids():
                    _measurement(folder)
                    self._keep(folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return identity

    # --------------------------------------------------------------------------- the index

    @contextmanager
    def _index(self) -> Iterator[sqlite3.Connection]:
        """A transaction on the index; it waits for other writers."""
        with closing(sqlite3.connect(self.folder / "index.sqlite", timeout=_BUSY_S)) as index:
            index.execute("PRAGMA foreign_keys = ON")
            index.execute("PRAGMA synchronous = FULL")
            with index:
                yield index

    def _ids(self) -> list[str]:
        with self._index() as index:
            return [row[0] for row in index.execute("SELECT id FROM runs")]


def _row(row: tuple[Any, ...], tags: tuple[str, ...]) -> Run:
    identity, created, label, source, model, system, engine, phases = row
    return Run(identity, created, label, source, model, system, engine, json.loads(phases), tags)


# ------------------------------------------------------------------------------- the files


def _write(folder: Path, measurement: Measurement, label: str) -> None:
    m = measurement
    load = m.workload
    document: dict[str, Any] = {
        "version": 1,
        "id": uuid.uuid4().hex,
        "created": time.time(),
        "label": label,
        "source": m.source,
        "model": m.model,
        "engine": m.engine,
        "system": asdict(m.system) if m.system else None,
        "workload": None if load is None else [float(np.max(v)) for v in _sizes(load)],
        "phases": {
            name: {"basis": timing.basis, "samples_s": list(timing.samples_s)}
            for name, timing in m.phases.items()
        },
        "facts": dict(m.facts),
        "notes": list(m.notes),
    }
    m.operators.to_parquet(folder / _OPERATORS, index=False)
    text = json.dumps(document, indent=1, allow_nan=True, default=str)
    (folder / _RUN).write_text(text, encoding="utf-8")


def _sizes(load: Workload) -> tuple[Any, Any, Any]:
    return load.batch, load.isl, load.osl


def _document(folder: Path) -> dict[str, Any]:
    """run.json, checked.

    Raises:
        ValueError: it is no run.
    """
    document = json.loads((folder / _RUN).read_text(encoding="utf-8"))
    identity = document.get("id", "") if isinstance(document, dict) else ""
    if not (isinstance(identity, str) and len(identity) == 32 and identity.isalnum()):
        raise ValueError("it has no id")
    if document.get("version") != 1:
        raise ValueError(f"its version is {document.get('version')!r}, this program reads 1")
    float(document["created"])
    for entry in document["phases"].values():
        [float(sample) for sample in entry["samples_s"]]
    return document


def _is_whole(folder: Path) -> bool:
    try:
        return _document(folder)["id"] == folder.name
    except (OSError, ValueError, TypeError, LookupError, AttributeError):
        return False


def _measurement(folder: Path) -> Measurement:
    d = _document(folder)
    phases = {
        name: PhaseTiming(name, tuple(map(float, entry["samples_s"])), entry["basis"])
        for name, entry in d["phases"].items()
    }
    return Measurement(
        source=str(d["source"]),
        operators=pd.read_parquet(folder / _OPERATORS),
        phases=phases,
        system=Device(**d["system"]) if d["system"] else None,
        model=d["model"],
        engine=d["engine"],
        workload=Workload(*d["workload"]) if d["workload"] else None,
        facts=d["facts"],
        notes=tuple(d["notes"]),
    )


def _unpack(source: Path | io.BytesIO, folder: Path) -> None:
    """Unpack an exported run: plain names, bounded in number and size.

    Raises:
        ValueError: names that lead out of the folder, too much, or no run.
    """
    with zipfile.ZipFile(source) as archive:
        entries = [entry for entry in archive.infolist() if not entry.is_dir()]
        size, packed = sum(e.file_size for e in entries), sum(e.compress_size for e in entries)
        if len(entries) > _MAX_FILES or size > min(_MAX_BYTES, _MAX_RATIO * max(packed, 1)):
            raise ValueError("it is larger than any run")
        if not {_RUN, _OPERATORS} <= {entry.filename for entry in entries}:
            raise ValueError("it holds no run")
        for entry in entries:
            target = (folder / entry.filename).resolve()
            if not target.is_relative_to(folder.resolve()):
                raise ValueError("a name in it leads out of the folder")
            target.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(entry) as packed_file, target.open("wb") as out:
                shutil.copyfileobj(packed_file, out)


@contextmanager
def _sentences(place: Path) -> Iterator[None]:
    """What the disk, SQLite or a damaged file say, as one sentence."""
    try:
        yield
    except RidgelineError:
        raise
    except OSError as error:
        reason = error.strerror or "a file is damaged"
        raise MeasurementError(f"the run store in {place} cannot be used: {reason}") from None
    except sqlite3.Error as error:
        raise MeasurementError(f"the index of runs in {place} cannot be used: {error}") from None
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, EOFError) as error:
        raise MeasurementError(f"the file is no exported run, or is cut off: {error}") from None
    except _DAMAGE as error:
        raise MeasurementError(f"this is no run that can be read: {error}") from None

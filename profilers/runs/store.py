"""Kept runs: an index in SQLite, and a folder per run with its tables as Parquet.

A run is written into a draft folder, which is renamed once complete, and then entered into the
index; so a folder under a run's name is always complete.  A crash in between loses nothing: opening
the store indexes folders that the index lacks, and rebuilds a damaged index.  Several processes may
write at once.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from genz_core.errors import MeasurementError, UnknownName
from profilers.comparison.compare import step_count
from profilers.runs import owner, run_folder
from profilers.runs.run_index import COLUMNS, RunIndex
from profilers.schema import Measurement

_DRAFT = ".draft-"
_DRAFT_AGE_S = 24 * 3600.0
#: File in a draft that identifies the process writing it.
_OWNER = ".owner"


@dataclass(frozen=True, slots=True)
class KeptRun:
    """An entry of the index.  created: seconds since 1970.  phases: median seconds of each."""

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
    """The store of runs in a folder.  Opening it creates the folder, and indexes complete runs that
    a crash kept out of the index.
    """

    folder: Path

    def __post_init__(self) -> None:
        with run_folder.in_words(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            saved_tags = self._index.open()
            self._recover()
            self._tag(saved_tags)

    # --------------------------------------------------------------------------- writing

    @contextmanager
    def draft(self, measurement: Measurement, label: str = "") -> Iterator[Path]:
        """A folder for further files of a run; the run is kept when the block ends.

        Raises:
            MeasurementError: the disk is full or the folder cannot be written; nothing is kept.
        """
        with self.scratch() as folder:
            with run_folder.in_words(self.folder):
                name = label or measurement.model or measurement.source
                run_folder.write_run(folder, measurement, name)
            yield folder
            with run_folder.in_words(self.folder):
                self._keep(folder)

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """A temporary folder for the files of a run before it is kept; removed when the block ends.

        Raises:
            MeasurementError: the store cannot be written.
        """
        folder = self.folder / f"{_DRAFT}{uuid.uuid4().hex}"
        with run_folder.in_words(self.folder):
            folder.mkdir()
            (folder / _OWNER).write_text(owner.mark(), encoding="utf-8")
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def save(self, measurement: Measurement, label: str = "") -> str:
        """Keep a measurement; returns the id of the run."""
        with self.draft(measurement, label) as folder:
            return self.identity(folder)

    def identity(self, folder: Path) -> str:
        """The id of the run in a draft's folder."""
        return str(run_folder.document(folder)["id"])

    def _keep(self, folder: Path) -> None:
        """Turn a complete draft into a run: sync its files, rename the folder, index it."""
        (folder / _OWNER).unlink(missing_ok=True)
        identity = str(run_folder.document(folder)["id"])
        for path in folder.rglob("*"):
            if path.is_file():
                with path.open("rb") as opened:
                    os.fsync(opened.fileno())
        os.rename(folder, self.folder / identity)
        self._enter([identity])

    def _enter(self, identities: Iterable[str]) -> None:
        with self._index.transaction() as index:
            for identity in identities:
                d = run_folder.document(self.folder / identity)
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
        """Index complete folders, drop rows without a folder, remove old drafts."""
        there = {
            p.name for p in self.folder.iterdir() if p.is_dir() and (p / run_folder.RUN).exists()
        }
        whole = {name for name in there if not name.startswith(_DRAFT)}
        indexed = set(self._ids())
        readable = [name for name in whole - indexed if run_folder.is_whole(self.folder / name)]
        if readable:
            self._enter(readable)
        gone = [(i,) for i in indexed - whole if not (self.folder / i / run_folder.RUN).exists()]
        if gone:
            with self._index.transaction() as index:
                index.executemany("DELETE FROM runs WHERE id = ?", gone)
        for path in self.folder.glob(f"{_DRAFT}*"):
            if _abandoned(path):
                shutil.rmtree(path, ignore_errors=True)

    def tag(self, identity: str, *tags: str) -> None:
        """Add tags to a run."""
        run = self.find(identity)
        with run_folder.in_words(self.folder):
            self._tag((run.id, tag.strip()) for tag in tags if tag.strip())

    def delete(self, identity: str) -> None:
        """Remove a run from its place, then from the index, then its files."""
        run = self.find(identity)
        doomed = self.folder / f"{_DRAFT}{uuid.uuid4().hex}"
        with run_folder.in_words(self.folder):
            os.rename(self.folder / run.id, doomed)
            with self._index.transaction() as index:
                index.execute("DELETE FROM runs WHERE id = ?", (run.id,))
        shutil.rmtree(doomed, ignore_errors=True)

    # --------------------------------------------------------------------------- reading

    def runs(self, tag: str = "") -> list[KeptRun]:
        """All runs, or those with a tag, latest first."""
        with run_folder.in_words(self.folder), self._index.transaction() as index:
            rows = index.execute(f"SELECT {COLUMNS} FROM runs ORDER BY created DESC, id").fetchall()
            tags: dict[str, list[str]] = {}
            for run, name in index.execute("SELECT run, tag FROM tags ORDER BY tag"):
                tags.setdefault(run, []).append(name)
        runs = [_row(row, tuple(tags.get(row[0], ()))) for row in rows]
        return [run for run in runs if not tag or tag in run.tags]

    def find(self, identity: str) -> KeptRun:
        """A run by its id or the start of it.

        Raises:
            UnknownName: no id starts like this, or several do.
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
        try:
            with run_folder.in_words(folder):
                return run_folder.measurement_of(folder)
        except MeasurementError as error:
            raise MeasurementError(
                f"run {folder.name[:8]} is damaged; delete it, or import it again ({error})"
            ) from None

    def left_out(self) -> list[str]:
        """Sentences on why folders of the store are not among its runs."""
        with run_folder.in_words(self.folder):
            kept = set(self._ids())
            others = [path for path in sorted(self.folder.iterdir()) if path.name not in kept]
        folders = [path for path in others if path.is_dir() and not path.name.startswith(".")]
        return [
            f"the run in {self.folder.name}/{path.name} is left out: {why}; delete its folder, or "
            "import it again"
            for path in folders
            if (why := run_folder.damage(path))
        ]

    def compare(self, *identities: str) -> pd.DataFrame:
        """Seconds of one step by phase and operator class, one column per run.

        The class "all" holds the medians of phases and of the steps of sweeps; the class "host"
        holds the time of a step outside its operators.
        """
        columns = {}
        for identity in identities:
            run, measured = self.find(identity), self.load(identity)
            steps = {str(step.point): step.median_s for step in measured.steps}
            medians = pd.Series({**run.phases, **steps}, dtype=float)
            medians.index = pd.MultiIndex.from_tuples(
                [(name, "all") for name in medians.index], names=["phase", "class"]
            )
            columns[run.id[:8]] = pd.concat([medians, _by_class(measured)])
        return pd.DataFrame(columns).rename_axis(["phase", "class"]).reset_index()

    # --------------------------------------------------------------------------- one file

    def export(self, identity: str, target: Path) -> Path:
        """Write a run with its tags as a zip file that `take` reads; returns the file."""
        run = self.find(identity)
        folder = self.folder / run.id
        draft = target.with_name(f"{target.name}.{uuid.uuid4().hex[:8]}.tmp")
        try:
            with run_folder.in_words(target.parent):
                run_folder.pack(folder, draft, run.tags)
                os.replace(draft, target)
        finally:
            draft.unlink(missing_ok=True)
        return target

    def take(self, source: Path | bytes) -> str:
        """Keep a run that `export` wrote, with its tags; returns its id.  A run that is already
        kept is left unchanged.

        Raises:
            MeasurementError: the file is not an exported run, or is damaged.
        """
        with self.scratch() as folder, run_folder.in_words(self.folder):
            run_folder.unpack(io.BytesIO(source) if isinstance(source, bytes) else source, folder)
            identity = str(run_folder.document(folder)["id"])
            tags = run_folder.tags_of(folder)
            (folder / run_folder.TAGS).unlink(missing_ok=True)
            if identity not in self._ids():
                run_folder.measurement_of(folder)
                self._keep(folder)
                self._tag((identity, tag) for tag in tags)
        return identity

    # --------------------------------------------------------------------------- the index

    @property
    def _index(self) -> RunIndex:
        return RunIndex(self.folder)

    def _tag(self, tags: Iterable[tuple[str, str]]) -> None:
        """Add tags, (run, tag) each, to the runs that are kept."""
        kept = set(self._ids())
        with self._index.transaction() as index:
            rows = [(run, tag) for run, tag in tags if run in kept]
            index.executemany("INSERT OR IGNORE INTO tags VALUES (?,?)", rows)

    def _ids(self) -> list[str]:
        with self._index.transaction() as index:
            return [row[0] for row in index.execute("SELECT id FROM runs")]


def _by_class(measured: Measurement) -> pd.Series:
    """Seconds of one step by (phase, class), with the rest of the step under "host"."""
    operators = measured.operators.assign(**{"class": measured.operators["kind"]})
    sums = operators.groupby(["phase", "class"])["time_s"].sum()
    per_step: dict[tuple[str, str], float] = {}
    for (phase, name), seconds in sums.items():
        per_step[str(phase), str(name)] = float(seconds) / step_count(measured, str(phase))
    for phase, timing in measured.phases.items():
        inside = sum(value for (of, _), value in per_step.items() if of == phase)
        if inside and timing.samples_s and timing.basis in ("wall", "cpu"):
            per_step[phase, "host"] = max(timing.median_s - inside, 0.0)
    index = pd.MultiIndex.from_tuples(list(per_step), names=["phase", "class"])
    return pd.Series(list(per_step.values()), index, dtype=float)


def _abandoned(draft: Path) -> bool:
    """Whether nobody is writing a draft any more: its process ended, or it is a day old."""
    try:
        if owner.ended((draft / _OWNER).read_text(encoding="utf-8")):
            return True
    except (OSError, UnicodeDecodeError):
        pass
    try:
        return time.time() - draft.stat().st_mtime > _DRAFT_AGE_S
    except OSError:  # gone meanwhile
        return False


def _row(row: tuple[Any, ...], tags: tuple[str, ...]) -> KeptRun:
    identity, created, label, source, model, system, engine, phases = row
    return KeptRun(
        identity, created, label, source, model, system, engine, json.loads(phases), tags
    )

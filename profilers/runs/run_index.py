"""The index of kept runs: a SQLite file that is rebuilt where it is damaged.

Everything but the tags is also in the folders of the runs.  Tags are saved from a damaged index as
far as they can be read, and the damaged file is kept beside the new one.
"""

from __future__ import annotations

import itertools
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from genz_core.common.file_lock import locked

FILE = "index.sqlite"
COLUMNS = "id, created, label, source, model, system, engine, phases"
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
_BUSY_S = 30.0
#: SQLite error codes for a table of another layout, for damaged pages, and for a file that is not a
#: database.
_DAMAGE = (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


@dataclass(frozen=True, slots=True)
class RunIndex:
    """The index in a folder of runs."""

    folder: Path

    @property
    def path(self) -> Path:
        return self.folder / FILE

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """A transaction; waits for other writers.  Raises `sqlite3.Error`."""
        with closing(sqlite3.connect(self.path, timeout=_BUSY_S)) as connection:
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("PRAGMA synchronous = FULL")
            with connection:
                yield connection

    def open(self) -> list[tuple[str, str]]:
        """Make the tables where they are missing or damaged; returns the tags that were saved from
        a damaged index as (run, tag).

        Raises:
            sqlite3.Error, OSError: the folder cannot be written, or another process locks it.
        """
        file = self._identity()
        try:
            self._check()
        except sqlite3.DatabaseError as error:
            if error.sqlite_errorcode & 0xFF not in _DAMAGE:
                raise
        except UnicodeDecodeError:
            pass
        else:
            return []
        with locked(self.path.with_name(f"{FILE}.lock")):
            aside = self._move_aside() if self._identity() == file else None
            self._check()
        return _tags_in(aside) if aside else []

    def _check(self) -> None:
        """Create missing tables, and run every query once to detect damage."""
        with self.transaction() as connection:
            connection.executescript(_SCHEMA)
            connection.execute(f"SELECT {COLUMNS} FROM runs").fetchall()
            connection.execute("SELECT run, tag FROM tags").fetchall()

    def _identity(self) -> int:
        """Device and inode number of the file, by which two processes tell whether it is
        the same.
        """
        try:
            return self.path.stat().st_ino
        except FileNotFoundError:
            return 0

    def _move_aside(self) -> Path:
        """Move the file to the first free name index.sqlite.damaged-<n>."""
        names = (self.folder / f"{FILE}.damaged-{number}" for number in itertools.count(1))
        aside = next(name for name in names if not name.exists())
        os.replace(self.path, aside)
        (self.folder / f"{FILE}-journal").unlink(missing_ok=True)
        return aside


def _tags_in(path: Path) -> list[tuple[str, str]]:
    """The tags that can be read in a damaged index."""
    tags: list[tuple[str, str]] = []
    with suppress(sqlite3.Error, UnicodeDecodeError), closing(sqlite3.connect(path)) as connection:
        for run, tag in connection.execute("SELECT run, tag FROM tags"):
            tags.append((str(run), str(tag)))
    return tags

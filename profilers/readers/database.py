"""Untrusted SQLite files, opened so that nothing in them executes.

Only plain tables are read, never views, triggers, virtual tables or generated columns.  Every query
has a deadline, and rows are returned as integer arrays or bounded text.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from genz_core.errors import ReportError

MAGIC = b"SQLite format 3\0"

#: Rows that one table may give.
MAX_ROWS = 8_000_000
#: Seconds of processor time that reading may take: a fixed part, and one proportional to the file's
#: size.
_DEADLINE_S, _DEADLINE_BYTES_PER_S = 3.0, 5e6
_MAX_TEXT_BYTES = 1 << 20
_CHUNK_ROWS = 4096
_ALLOWED = frozenset({sqlite3.SQLITE_READ, sqlite3.SQLITE_SELECT, sqlite3.SQLITE_FUNCTION})

#: Value of a column that the table lacks.
ABSENT = np.iinfo(np.int64).min


class Database:
    """The plain tables of a SQLite file.  Open it with `opened`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._columns = {name: self._plain_columns(name) for name in self._plain_tables()}

    def __contains__(self, table: str) -> bool:
        return table in self._columns

    def tables(self, prefix: str) -> list[str]:
        """Names of the tables that begin with a prefix, in alphabetical order."""
        return sorted(name for name in self._columns if name.startswith(prefix))

    def columns(self, table: str) -> frozenset[str]:
        """Stored columns of a table; none where there is no such table."""
        return self._columns.get(table, frozenset())

    def integers(
        self, table: str, wanted: Sequence[str] | Mapping[str, str], where: str = ""
    ) -> dict[str, NDArray[np.int64]]:
        """Columns of a table as integers; NULL and columns it lacks are `ABSENT`.

        Args:
            wanted: column names, or name -> SQL expression of an integer.
            where: a condition written by the caller, never by the file.
        """
        names = list(wanted)
        if table not in self:
            return {name: np.empty(0, dtype=np.int64) for name in names}
        count = self._count(table, where)
        expressions = wanted.values() if isinstance(wanted, Mapping) else names
        selected = ", ".join(self.integer(table, name) for name in expressions)
        rows = self._execute(f'SELECT {selected} FROM "{table}" {where} LIMIT {count}')
        values = np.empty((len(names), count), dtype=np.int64)
        at = 0
        while batch := rows.fetchmany(_CHUNK_ROWS):
            flat = np.fromiter(chain.from_iterable(batch), np.int64, len(batch) * len(names))
            values[:, at : at + len(batch)] = flat.reshape(-1, len(names)).T
            at += len(batch)
        return {name: values[i, :at] for i, name in enumerate(names)}

    def _count(self, table: str, where: str) -> int:
        count = int(self._execute(f'SELECT COUNT(*) FROM "{table}" {where}').fetchone()[0])
        if count > MAX_ROWS:
            raise ReportError(
                f"the report holds {count} rows of {table}, over {MAX_ROWS}; "
                "export a shorter time range"
            )
        return count

    def texts(
        self, table: str, key: str, column: str, where: str = ""
    ) -> Iterator[tuple[int, str]]:
        """(integer key, text) pairs of a table, the text cut to `_MAX_TEXT_BYTES`."""
        if not {key, column} <= self.columns(table) | {"rowid"}:
            return
        rows = self._execute(
            f'SELECT {self.integer(table, key)}, substr(CAST("{column}" AS TEXT), 1, 8192) '
            f'FROM "{table}" {where} LIMIT {MAX_ROWS}'
        )
        for number, text in rows:
            if text is not None:
                yield number, text

    def integer(self, table: str, name: str) -> str:
        """SQL for a column as an integer; an expression in brackets is left unchanged."""
        if name.startswith("("):
            return name
        if name != "rowid" and name not in self.columns(table):
            return str(ABSENT + 1) + " - 1"
        return f'ifnull(CAST("{name}" AS INTEGER), {ABSENT + 1} - 1)'

    def _plain_tables(self) -> list[str]:
        rows = self._execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage > 0 "
            "AND sql NOT LIKE 'CREATE VIRTUAL%' AND name NOT LIKE '%\"%' LIMIT 1000"
        )
        return [str(name) for (name,) in rows]

    def _plain_columns(self, table: str) -> frozenset[str]:
        """Stored columns; generated ones are left out, since they would run code of the file."""
        rows = self._execute(f'PRAGMA table_xinfo("{table}")')
        return frozenset(str(row[1]) for row in rows if not row[6] and '"' not in str(row[1]))

    def _execute(self, query: str) -> sqlite3.Cursor:
        return self._connection.execute(query)


@contextmanager
def opened(path: Path) -> Iterator[Database]:
    """Open a database read-only and on a deadline.

    Raises:
        ReportError: the file is not a database, is damaged, or takes too long to read.
    """
    connection = sqlite3.connect(f"file:{quote(str(path.resolve()))}?mode=ro&immutable=1", uri=True)
    try:
        _restrain(connection, _DEADLINE_S + path.stat().st_size / _DEADLINE_BYTES_PER_S)
        yield Database(connection)
    except (sqlite3.Error, sqlite3.Warning, OverflowError, UnicodeDecodeError) as error:
        code = getattr(error, "sqlite_errorname", type(error).__name__)
        if code == "SQLITE_INTERRUPT":
            raise ReportError("the database takes too long to read; it is damaged") from None
        raise ReportError(f"the database is damaged or cut off ({code})") from None
    finally:
        connection.close()


def _restrain(connection: sqlite3.Connection, seconds: float) -> None:
    """Forbid everything but reading, and interrupt queries after a limit of processor time."""
    connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
    for limit, value in _LIMITS.items():
        connection.setlimit(limit, value)
    for pragma in ("query_only = ON", "trusted_schema = OFF", "cell_size_check = ON"):
        connection.execute(f"PRAGMA {pragma}")
    deadline = time.thread_time() + seconds
    connection.set_progress_handler(lambda: time.thread_time() > deadline, 10_000)
    connection.set_authorizer(_authorise)


_LIMITS: Mapping[int, int] = {
    sqlite3.SQLITE_LIMIT_LENGTH: 64 << 20,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_COLUMN: 500,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 100,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 4,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}


def _authorise(action: int, first: str | None, *_: str | None) -> int:
    """Allow reading, and the pragma that lists columns."""
    if action in _ALLOWED or (action == sqlite3.SQLITE_PRAGMA and first == "table_xinfo"):
        return sqlite3.SQLITE_OK
    return sqlite3.SQLITE_DENY

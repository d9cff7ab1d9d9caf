"""Traces of real traffic as requests of a simulation: CSV or JSON lines, optionally compressed.

One row per request: `arrival_s`, `input_tokens`, `output_tokens`, and for shared prefixes either
`hash_ids` (ids of blocks of `block_tokens`) or `session` and `turn`, with later turns `think_s`
after the previous answer.  Azure's and Mooncake's own columns are read directly.
"""

import csv
import gzip
import io
import json
import math
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, TextIO

import numpy as np

from genz_core.common.progress import Cancel, Cancelled, never
from genz_core.common.short_repr import clipped, listed
from genz_core.errors import InvalidValue, file_problem
from genz_core.serving.simulation import Requests
from genz_core.types import Array

Row = Mapping[str, Any]
#: Limits: requests of a trace, tokens of a prompt or an answer, and bytes of a line.
MOST_REQUESTS, MOST_TOKENS, MOST_BYTES = 2_000_000, 10_000_000, 1_000_000
#: Our columns by the column names of public traces: Azure's, Mooncake's (milliseconds), vLLM's and
#: others.
_ALIASES = {
    "arrival_s": ("arrival_s", "TIMESTAMP", "timestamp", "arrival_time", "arrived_at"),
    "input_tokens": (
        "input_tokens", "ContextTokens", "input_length", "prompt_tokens", "input_toks",
        "num_prefill_tokens",
    ),
    "output_tokens": (
        "output_tokens", "GeneratedTokens", "output_length", "completion_tokens", "output_toks",
        "num_decode_tokens",
    ),
}  # fmt: skip
_LENGTHS = ("input_tokens", "output_tokens")
_MOONCAKE_BLOCK = 512
SESSION_BLOCK = 16
#: Largest time in seconds; large enough for milliseconds since 1970 as a time in thousandths.
_LARGEST = 1e15
_ASK_EVERY = 10_000


@dataclass(frozen=True, slots=True)
class Trace:
    """Requests of a file in order of arrival, the first at zero.

    notes: what was changed on reading, in sentences.
    """

    requests: Requests
    name: str
    notes: tuple[str, ...] = ()


def read(path: Path, count: int = 0, cancelled: Cancel = never) -> Trace:
    """The requests of a trace, or of its first `count` rows.

    Raises:
        InvalidValue: no such file, not a trace, too long, or an invalid row, with its line number.
        Cancelled: `cancelled` returned True.
    """
    try:
        with path.open("rb") as file:
            return parse(file, path.name, count, cancelled)
    except OSError as error:
        raise InvalidValue(f"{path}: {file_problem(error)}") from None


def parse(file: BinaryIO, name: str, count: int = 0, cancelled: Cancel = never) -> Trace:
    """`read` for an open file; name: for messages."""
    columns = _Columns(name, tuple(_ALIASES))
    for at, (line, row) in enumerate(_rows(file, name)):
        if count and at >= count:
            columns.note(f"the first {count:,} requests of {name}")
            break
        if at >= MOST_REQUESTS:
            raise InvalidValue(
                f"{name} has more than {MOST_REQUESTS:,} requests: name how many of the first to "
                f"take, {MOST_REQUESTS:,} at most"
            )
        if at % _ASK_EVERY == 0 and cancelled():
            raise Cancelled(f"line {line} of {name}")
        columns.add(line, row)
    return columns.trace()


def read_lengths(path: Path) -> Array:
    """Prompt and output tokens of a file with those two columns, [rows, 2].

    Raises:
        InvalidValue: as `read`.
    """
    columns = _Columns(path.name, _LENGTHS)
    try:
        with path.open("rb") as file:
            for _, (line, row) in zip(range(MOST_REQUESTS), _rows(file, path.name), strict=False):
                columns.add(line, row)
    except OSError as error:
        raise InvalidValue(f"{path}: {file_problem(error)}") from None
    return columns.lengths()


# ------------------------------------------------------------------------------- lines


def _rows(file: BinaryIO, name: str) -> Iterator[tuple[int, Row]]:
    """The rows of a CSV or of JSON lines with their line numbers."""
    given: Any = file
    reader = given if isinstance(given, io.BufferedReader) else io.BufferedReader(given)
    packed = reader.peek(2)[:2] == b"\x1f\x8b"
    stream: Any = gzip.GzipFile(fileobj=reader) if packed else reader
    text = io.TextIOWrapper(stream, encoding="utf-8-sig", newline="")
    try:
        first = text.readline(MOST_BYTES)
        rows = _json_rows if first.lstrip().startswith("{") else _csv_rows
        yield from rows(first, text, name)
    except UnicodeDecodeError:
        raise InvalidValue(f"{name} is not a text file: a trace is CSV or JSON lines") from None
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise InvalidValue(f"{name} is damaged: it cannot be decompressed completely") from None
    finally:
        text.detach()


def _lines(first: str, stream: TextIO, name: str) -> Iterator[tuple[int, str]]:
    """Lines with their numbers; a line longer than `MOST_BYTES` is an error."""
    at, line = 1, first
    while line:
        if len(line) >= MOST_BYTES:
            raise InvalidValue(f"{name}, line {at}: longer than {MOST_BYTES:,} bytes")
        if line.strip():
            yield at, line
        at, line = at + 1, stream.readline(MOST_BYTES)


def _json_rows(first: str, stream: TextIO, name: str) -> Iterator[tuple[int, Row]]:
    for at, line in _lines(first, stream, name):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            raise InvalidValue(f"{name}, line {at}: not valid JSON") from None
        if not isinstance(row, dict):
            raise InvalidValue(f"{name}, line {at}: not a JSON object")
        yield at, row


def _csv_rows(first: str, stream: TextIO, name: str) -> Iterator[tuple[int, Row]]:
    lines = _lines(first, stream, name)
    header = [cell.strip() for cell in _cells(next(lines, (1, ""))[1], name, 1)]
    for at, line in lines:
        cells = _cells(line, name, at)
        if len(cells) != len(header):
            raise InvalidValue(f"{name}, line {at}: {len(cells)} cells under {len(header)} columns")
        yield at, dict(zip(header, cells, strict=True))


def _cells(line: str, name: str, at: int) -> list[str]:
    if '"' not in line:
        return line.strip().split(",")
    try:
        return next(csv.reader([line.strip()]))
    except csv.Error as error:
        raise InvalidValue(f"{name}, line {at}: {error}") from None


# ------------------------------------------------------------------------------- columns


class _Columns:
    """Collects rows into columns; `names`: our columns that a row must have."""

    def __init__(self, name: str, names: tuple[str, ...]) -> None:
        self._name = name
        self._names = names
        self._keys: dict[str, str] = {}
        self._time: Callable[[Any], float] = _number
        self._arrival: list[float] = []
        self._input: list[float] = []
        self._output: list[float] = []
        self._hashes: list[tuple[int, ...]] = []
        self._block = _MOONCAKE_BLOCK
        self._sessions: list[tuple[str, float, float]] = []
        self._notes: list[str] = []

    def note(self, words: str) -> None:
        self._notes.append(words)

    def add(self, line: int, row: Row) -> None:
        """Add a row.

        Raises:
            InvalidValue: a missing column, or a cell that is not a valid number.
        """
        if not self._keys:
            self._understand(row)
        try:
            if "arrival_s" in self._keys:
                arrival = self._time(row[self._keys["arrival_s"]])
                if arrival < 0:
                    raise ValueError(f"arrival_s is {arrival:g}, but it must be at least 0")
                self._arrival.append(arrival)
                self._sharing(row)
            self._input.append(_tokens(row[self._keys["input_tokens"]]))
            self._output.append(_tokens(row[self._keys["output_tokens"]]))
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            missing = isinstance(error, KeyError)
            why = f"no {error.args[0]}" if missing else clipped(str(error), 200)
            raise InvalidValue(f"{self._name}, line {line}: {why}") from None

    def lengths(self) -> Array:
        """Prompt and output tokens, [rows, 2]."""
        if not self._input:
            raise InvalidValue(f"{self._name} has no rows")
        return np.array([self._input, self._output]).T

    def trace(self) -> Trace:
        """The requests by arrival, the first at zero.

        Raises:
            InvalidValue: there are none.
        """
        if not self._arrival:
            raise InvalidValue(f"{self._name} has no requests")
        arrival = np.array(self._arrival)
        if self._sessions:
            return Trace(self._by_session(arrival), self._name, tuple(self._notes))
        order = np.argsort(arrival, kind="stable")
        if np.any(np.diff(arrival) < 0):
            self.note(f"the rows of {self._name} were sorted by their arrival")
        requests = Requests(
            arrival_s=arrival[order] - arrival.min(),
            input_tokens=np.array(self._input)[order],
            output_tokens=np.array(self._output)[order],
            prefix=[self._hashes[at] for at in order] if self._hashes else (),
            block_tokens=self._block if self._hashes else SESSION_BLOCK,
        )
        return Trace(requests, self._name, tuple(self._notes))

    def _understand(self, row: Row) -> None:
        """Find the columns by name, and the unit of time."""
        for name in self._names:
            key = next((alias for alias in _ALIASES[name] if alias in row), None)
            if key is None:
                has = listed([clipped(str(column)) for column in row], 200) or "none"
                raise InvalidValue(
                    f"{self._name} has no column {name}; it needs {', '.join(self._names)}, and "
                    f"has {has}"
                )
            self._keys[name] = key
        time = row.get(self._keys.get("arrival_s", ""))
        if "input_length" in row and "hash_ids" in row:
            self._time = lambda value: _number(value) / 1e3
        elif isinstance(time, str) and not _is_number(time):
            self._time = _seconds_of_date
        if "block_tokens" in row:
            self._block = int(_tokens(row["block_tokens"]))

    def _sharing(self, row: Row) -> None:
        if "session" in row:
            think, turn = _number(row.get("think_s") or 0.0), _number(row.get("turn") or 1)
            if think < 0:
                raise ValueError(f"think_s is {think:g}, but it must be at least 0")
            self._sessions.append((str(row["session"]), turn, think))
        elif "hash_ids" in row:
            ids = row["hash_ids"]
            ids = json.loads(ids) if isinstance(ids, str) else ids
            if not isinstance(ids, list):
                raise ValueError(f"hash_ids is {clipped(repr(ids))}, but it must be a list")
            self._hashes.append(tuple(int(block) for block in ids))

    def _by_session(self, arrival: Array) -> Requests:
        """Sessions ordered by first arrival; every turn follows the one before it."""
        rows_of: dict[str, list[int]] = {}
        for at, (session, _, _) in enumerate(self._sessions):
            rows_of.setdefault(session, []).append(at)
        for rows in rows_of.values():
            rows.sort(key=lambda at: (self._sessions[at][1], arrival[at]))
        first = min(float(arrival[rows[0]]) for rows in rows_of.values())
        order: list[int] = []
        after, starts, prefixes = [], [], []
        for number, rows in enumerate(sorted(rows_of.values(), key=lambda r: float(arrival[r[0]]))):
            tokens = max(int(self._input[at] + self._output[at]) for at in rows)
            for turn, at in enumerate(rows):
                after.append(len(order) - 1 if turn else -1)
                starts.append(self._sessions[at][2] if turn else float(arrival[at]) - first)
                prefixes.append(session_blocks(number, tokens // SESSION_BLOCK))
                order.append(at)
        return Requests(
            arrival_s=np.array(starts),
            input_tokens=np.array(self._input)[order],
            output_tokens=np.array(self._output)[order],
            after=np.array(after),
            prefix=prefixes,
            block_tokens=SESSION_BLOCK,
        )


def session_blocks(session: int, blocks: int) -> range:
    """Ids of the first blocks of a conversation, equal in each of its turns."""
    first = (session + 1) << 32
    return range(first, first + blocks)


# ------------------------------------------------------------------------------- cells


def _number(value: Any) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{value!r} is not a finite number")
    if abs(number) > _LARGEST:
        raise ValueError(
            f"{clipped(repr(value))} is not a valid time: give a number up to {_LARGEST:g}"
        )
    return number


def _tokens(value: Any) -> float:
    number = float(value)
    if not (math.isfinite(number) and number == int(number) and 1 <= number <= MOST_TOKENS):
        raise ValueError(
            f"{clipped(repr(value))} is not a whole number of tokens from 1 to {MOST_TOKENS:,}"
        )
    return number


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _seconds_of_date(text: Any) -> float:
    """Seconds of a date such as 2023-11-16 18:17:03.9799600; UTC if no time zone is given."""
    try:
        date = datetime.fromisoformat(str(text).strip())
    except ValueError:
        raise ValueError(
            f"{clipped(repr(text))} is not a date: write it as in 2023-11-16 18:17:03.98, or give "
            "seconds"
        ) from None
    return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()

"""Traces of real traffic as requests of a simulation: CSV or JSON lines, packed or not.

A row a request: `arrival_s`, `input_tokens`, `output_tokens`, and where prompts share something
either `hash_ids` (identities of blocks of `block_tokens`) or `session` and `turn`, later turns
`think_s` after the answer before.  Azure's and Mooncake's own columns are read as they are.
"""

from __future__ import annotations

import gzip
import io
import json
import math
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from genz_core.errors import InvalidValue
from genz_core.serving.simulation import Requests

Row = Mapping[str, Any]
#: Requests that a trace may have, and bytes of one of its lines.
MOST_REQUESTS, MOST_BYTES = 2_000_000, 1_000_000
#: Our columns by those of public traces: Azure's, Mooncake's (milliseconds), vLLM's and others'.
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
_MOONCAKE_BLOCK = 512
_SESSION_BLOCK = 16


def read(path: Path, most: int = MOST_REQUESTS) -> Requests:
    """The requests of a trace, the first `most` of them, in order of arrival.

    Raises:
        InvalidValue: no such file, no trace, or a row that is none; the line is named.
    """
    try:
        with _opened(path) as stream:
            return parse(stream, path.name, most)
    except (OSError, EOFError) as error:
        raise InvalidValue(f"{path}: the trace cannot be read: {error}") from None
    except UnicodeDecodeError:
        raise InvalidValue(f"{path.name} is no text: a trace is CSV or JSON lines") from None


def parse(stream: TextIO, name: str, most: int = MOST_REQUESTS) -> Requests:
    """As `read`, of an open text; name: for messages."""
    first = stream.readline(MOST_BYTES)
    rows = _json_rows if first.lstrip().startswith("{") else _csv_rows
    columns = _Columns(name)
    for line, row in islice(rows(first, stream, name), most):
        columns.add(line, row)
    return columns.requests()


def _opened(path: Path) -> TextIO:
    packed = path.open("rb").read(2) == b"\x1f\x8b"
    stream: Any = gzip.open(path, "rb") if packed else path.open("rb")
    return io.TextIOWrapper(stream, encoding="utf-8-sig", newline="")


def _lines(first: str, stream: TextIO, name: str) -> Iterator[tuple[int, str]]:
    """Lines with their numbers, none longer than a line of a trace is."""
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
    header = [cell.strip() for cell in next(lines, (1, ""))[1].strip().split(",")]
    for at, line in lines:
        cells = line.strip().split(",")
        if len(cells) != len(header):
            raise InvalidValue(f"{name}, line {at}: {len(cells)} cells under {len(header)} columns")
        yield at, dict(zip(header, cells, strict=True))


class _Columns:
    """Rows gathered into the columns of `Requests`."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._keys: dict[str, str] = {}
        self._time: Callable[[Any], float] = float
        self._arrival: list[float] = []
        self._input: list[float] = []
        self._output: list[float] = []
        self._hashes: list[tuple[int, ...]] = []
        self._block = _MOONCAKE_BLOCK
        self._sessions: list[tuple[str, int, float]] = []

    def add(self, line: int, row: Row) -> None:
        """Take a row in."""
        if not self._keys:
            self._understand(row)
        try:
            self._arrival.append(self._time(row[self._keys["arrival_s"]]))
            self._input.append(_whole(row[self._keys["input_tokens"]]))
            self._output.append(_whole(row[self._keys["output_tokens"]]))
            self._sharing(row)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise InvalidValue(f"{self._name}, line {line}: {_why(error)}") from None

    def requests(self) -> Requests:
        """The requests by arrival, the first at zero.

        Raises:
            InvalidValue: there are none, or a size or a time that cannot be.
        """
        if not self._arrival:
            raise InvalidValue(f"{self._name} has no requests")
        arrival = np.array(self._arrival)
        if not np.isfinite(arrival).all():
            row = int(np.flatnonzero(~np.isfinite(arrival))[0])
            raise InvalidValue(f"{self._name}, request {row}: arrival is {arrival[row]:g}")
        if self._sessions:
            return self._by_session(arrival)
        order = np.argsort(arrival, kind="stable")
        return Requests(
            arrival_s=arrival[order] - arrival.min(),
            input_tokens=np.array(self._input)[order],
            output_tokens=np.array(self._output)[order],
            prefix=[self._hashes[at] for at in order] if self._hashes else (),
            block_tokens=self._block if self._hashes else 16,
        )

    def _understand(self, row: Row) -> None:
        """Find the columns by their names, and the unit of time.

        Raises:
            InvalidValue: columns that a trace needs are missing.
        """
        for name, aliases in _ALIASES.items():
            key = next((alias for alias in aliases if alias in row), None)
            if key is None:
                raise InvalidValue(
                    f"{self._name} has no column {name}; a trace needs "
                    f"{', '.join(_ALIASES)}, and this has {', '.join(map(str, row)) or 'none'}"
                )
            self._keys[name] = key
        time = row[self._keys["arrival_s"]]
        if "input_length" in row and "hash_ids" in row:
            self._time = lambda value: float(value) / 1e3
        elif isinstance(time, str) and not _is_number(time):
            self._time = _seconds_of_date
        if "block_tokens" in row:
            self._block = int(_whole(row["block_tokens"]))

    def _sharing(self, row: Row) -> None:
        if "session" in row:
            think = float(row.get("think_s") or 0.0)
            if not think >= 0:
                raise ValueError(f"think_s is {think:g}, but it must be at least 0")
            self._sessions.append((str(row["session"]), int(_whole(row.get("turn", 1))), think))
        elif "hash_ids" in row:
            ids = row["hash_ids"]
            ids = json.loads(ids) if isinstance(ids, str) else ids
            self._hashes.append(tuple(int(block) for block in ids))

    def _by_session(self, arrival: np.ndarray[Any, Any]) -> Requests:
        """Sessions laid out so that every turn follows the one before it."""
        first = arrival.min()
        order = sorted(range(len(arrival)), key=lambda at: (*self._sessions[at][1:2], arrival[at]))
        row_of: dict[tuple[str, int], int] = {}
        numbers: dict[str, int] = {}
        after, starts, prefixes = [], [], []
        for row, at in enumerate(order):
            session, turn, think = self._sessions[at]
            before = row_of.get((session, turn - 1), -1)
            after.append(before)
            starts.append(think if before >= 0 else arrival[at] - first)
            row_of[session, turn] = row
            tokens = int(self._input[at] + self._output[at])
            number = numbers.setdefault(session, len(numbers))
            prefixes.append(_blocks(number, tokens))
        return Requests(
            arrival_s=np.array(starts),
            input_tokens=np.array(self._input)[order],
            output_tokens=np.array(self._output)[order],
            after=np.array(after),
            prefix=prefixes,
            block_tokens=_SESSION_BLOCK,
        )


def _blocks(session: int, tokens: int) -> tuple[int, ...]:
    """Identities of the blocks of a conversation, the same in each of its turns."""
    first = session << 32
    return tuple(range(first, first + tokens // _SESSION_BLOCK))


def _whole(value: Any) -> float:
    number = float(value)
    if not math.isfinite(number) or number != int(number):
        raise ValueError(f"{value!r} is no whole number of tokens")
    return number


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _seconds_of_date(text: str) -> float:
    """Seconds of a date such as 2023-11-16 18:17:03.9799600."""
    whole, _, fraction = text.strip().partition(".")
    seconds = datetime.fromisoformat(whole.replace("T", " ")).timestamp()
    return seconds + float(f"0.{fraction.rstrip('Z') or 0}")


def _why(error: Exception) -> str:
    return f"no {error.args[0]}" if isinstance(error, KeyError) else str(error)


"""The content of a result file as documents, in bounded memory: JSON, JSON lines, YAML, text.

A document of up to some megabytes is decoded at once; in a larger one, arrays of numbers are packed
and everything else counts against a budget.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

from genz_core.errors import ReportError
from profilers.readers.compressed import content_chunks
from profilers.readers.csv_tables import decoded
from profilers.serving_results.compact_json import lean_json, lean_yaml

#: Largest document that is decoded at once, in bytes.
_AT_ONCE_BYTES = 4 << 20
#: Largest text or YAML file, in bytes.
MAX_TEXT_BYTES = 32 << 20
_HEAD_BYTES = 1 << 16


class Content:
    """A result file: its first bytes, and its documents.

    name: original name of the file where `path` is a temporary one.
    """

    def __init__(self, path: Path, name: str | None = None) -> None:
        self.path, self.name = path, name or path.name

    @cached_property
    def head(self) -> str:
        """The first 64 KiB as text.

        Raises:
            ReportError: it holds binary data, or is a damaged archive.
        """
        found = bytearray()
        for chunk in content_chunks(self.path, chunk_bytes=_HEAD_BYTES):
            found += chunk
            if len(found) >= _HEAD_BYTES:
                break
        data = bytes(found[:_HEAD_BYTES])
        if data.count(0) and not data.startswith((b"\xff\xfe", b"\xfe\xff")):
            raise ReportError("the file holds binary data")
        return decoded(data)

    @cached_property
    def is_json(self) -> bool:
        return self.head.lstrip("\ufeff \t\r\n")[:1] in ("{", "[")

    @cached_property
    def first(self) -> Any:
        """The first JSON document of the file, None where it starts none; errors as `documents`."""
        return next(self.documents(), None) if self.is_json else None

    def documents(self) -> Iterator[Any]:
        """The JSON documents of the file: one, or one per line.

        Raises:
            ReportError: it is damaged, cut off, too deep or too large.
        """
        lines = _Lines(content_chunks(self.path))
        first = lines.line(_AT_ONCE_BYTES)
        while first is not None and not first.strip(b"\xef\xbb\xbf \t\r\n"):
            first = lines.line(_AT_ONCE_BYTES)
        if first is None:
            raise ReportError("the file is empty")
        if lines.in_line:
            yield lean_json(lines.rest_of_line(first))
            yield from _rest(lines)
            return
        document = _decoded_or_none(first)
        if document is _NONE:
            yield _whole(first, lines)
            return
        yield document
        yield from _rest(lines)

    def records(self, knows: Callable[[Any], bool]) -> Iterator[Any]:
        """The documents, and elements of their lists, that `knows` accepts.  Errors as
        `documents`.
        """
        for document in self.documents():
            entries = document if isinstance(document, list) else [document]
            yield from filter(knows, entries)

    @cached_property
    def text(self) -> str:
        """The whole file as text.

        Raises:
            ReportError: it is larger than 32 MB, or holds binary data.
        """
        found = bytearray()
        for chunk in content_chunks(self.path):
            found += chunk
            if len(found) > MAX_TEXT_BYTES:
                raise ReportError(f"the text is larger than {MAX_TEXT_BYTES / 1e6:.0f} MB")
        return decoded(bytes(found))

    @cached_property
    def yaml(self) -> Any:
        """The file as a YAML document.

        Raises:
            ReportError: it is not YAML, or is too large.
        """
        return lean_yaml(self.text)


_NONE = object()


def _decoded_or_none(data: bytes) -> Any:
    """A JSON document, `_NONE` where the bytes are not a complete one."""
    try:
        return json.loads(data.decode("utf-8-sig", "replace"))
    except ValueError:
        return _NONE
    except RecursionError:
        raise ReportError("the JSON is nested too deeply for a benchmark's result") from None


def _rest(lines: _Lines) -> Iterator[Any]:
    """The documents of the further lines; errors as `Content.documents`."""
    number = 1
    while (line := lines.line(_AT_ONCE_BYTES)) is not None:
        number += 1
        if not line.strip():
            continue
        document = _decoded_or_none(line)
        if document is not _NONE:
            yield document
        elif lines.in_line:
            yield lean_json(lines.rest_of_line(line))
        else:
            raise ReportError(f"line {number} is no JSON: the file is damaged or cut off")


def _whole(start: bytes, lines: _Lines) -> Any:
    """A document over many lines; errors as `Content.documents`."""
    data = bytearray(start)
    while len(data) <= _AT_ONCE_BYTES and (more := lines.line(_AT_ONCE_BYTES)) is not None:
        data += more
    if len(data) > _AT_ONCE_BYTES:
        return lean_json(lines.everything(bytes(data)))
    document = _decoded_or_none(bytes(data))
    if document is _NONE:
        raise ReportError("the JSON is damaged or cut off; write or copy the file again")
    return document


class _Lines:
    """Lines read from the pieces of a file."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = iter(chunks)
        self._buffer = bytearray()
        self._at = self._moved = 0
        self.in_line = False

    def line(self, most: int) -> bytes | None:
        """The next line with its end, or its first `most` bytes (`in_line` is then set); None at
        the end of the file.
        """
        self.in_line = False
        searched = self._at
        while (end := self._buffer.find(b"\n", searched)) < 0:
            searched = len(self._buffer)
            if searched - self._at > most:
                self.in_line = True
                return self._take(searched)
            if not self._more():
                return self._take(len(self._buffer)) if self._at < len(self._buffer) else None
            searched -= self._moved
        return self._take(end + 1)

    def rest_of_line(self, start: bytes) -> Iterator[bytes]:
        """The rest of a line after `start`, in pieces."""
        yield start
        while self.in_line and (piece := self.line(1 << 20)) is not None:
            yield piece

    def everything(self, start: bytes) -> Iterator[bytes]:
        """`start` and everything after it, in pieces."""
        yield start
        while (piece := self.line(1 << 20)) is not None:
            yield piece

    def _more(self) -> bool:
        chunk = next(self._chunks, b"")
        self._moved = self._at
        if self._at:
            del self._buffer[: self._at]
            self._at = 0
        self._buffer += chunk
        return bool(chunk)

    def _take(self, end: int) -> bytes:
        taken = bytes(memoryview(self._buffer)[self._at : end])
        self._at = end
        return taken

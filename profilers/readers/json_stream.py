"""A JSON document read value by value from a stream, with every value bounded in size."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from genz_core.errors import ReportError
from profilers.readers.compressed import BrokenOff

#: Most characters of one value (an event, a metadata field).
MAX_VALUE_CHARS = 4 << 20

_SPACE = re.compile(r"[ \t\r\n]*")
_BETWEEN = re.compile(r"[ \t\r\n,]*")


class JsonStream:
    """A reader that walks over the top level of a JSON document and decodes the values below it one
    by one.
    """

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = iter(chunks)
        self._text = codecs.getincrementaldecoder("utf-8-sig")("replace")
        self._scan = json.JSONDecoder().raw_decode
        self._buffer, self._at, self._ended = "", 0, False

    def members(self) -> Iterator[str]:
        """The keys of the object at hand; consume each value with `value` or `elements`."""
        self._take("{")
        while self.peek() != "}":
            key = self.value()
            if not isinstance(key, str):
                raise ReportError("a key of the JSON object is not a text; the file is damaged")
            self._take(":")
            yield key
            if self.peek() == ",":
                self._at += 1
            elif self.peek() != "}":
                raise ReportError("the JSON object is damaged between two members")
        self._at += 1

    def elements(self) -> Iterator[Any]:
        """The elements of the array at hand, decoded one by one."""
        self._take("[")
        scan = self._scan
        while True:
            self._at = _BETWEEN.match(self._buffer, self._at).end()  # type: ignore[union-attr]
            try:
                item, end = scan(self._buffer, self._at)
            except (ValueError, RecursionError):
                if self.peek(_BETWEEN) == "]":
                    self._at += 1
                    return
                item = self.value()
            else:
                if end == len(self._buffer):
                    item = self.value()
                else:
                    self._at = end
            yield item

    def value(self) -> Any:
        """The next value.

        Raises:
            BrokenOff: the document ends inside it, or it is malformed or too large.
            ReportError: it is too deep.
        """
        self.peek()
        while True:
            problem = "it ends in the middle"
            try:
                item, end = self._scan(self._buffer, self._at)
                length = end - self._at
                if end < len(self._buffer) or not self._more():
                    self._at += length
                    return item
                continue  # a number may continue in the next piece
            except RecursionError:
                raise ReportError("the JSON is nested too deeply for a profiler trace") from None
            except ValueError as error:
                problem = str(error).split(":")[0]
            if len(self._buffer) - self._at > MAX_VALUE_CHARS:
                raise BrokenOff(f"the JSON is damaged or a value in it is too large ({problem})")
            if not self._more():
                raise BrokenOff(f"the JSON is damaged or cut off ({problem})")

    def peek(self, skip: re.Pattern[str] = _SPACE) -> str:
        """The next non-space character, without consuming it; "" at the end."""
        while True:
            self._at = skip.match(self._buffer, self._at).end()  # type: ignore[union-attr]
            if self._at < len(self._buffer):
                return self._buffer[self._at]
            if not self._more():
                return ""

    def _take(self, expected: str) -> None:
        """Consume a character; raise if it is another one."""
        character = self.peek()
        if character != expected:
            raise ReportError(
                f"the JSON has {character or 'its end'!r} where {expected!r} is expected"
            )
        self._at += 1

    def _more(self) -> bool:
        """Read the next piece; False at the end."""
        if self._ended:
            return False
        chunk = next(self._chunks, b"")
        self._ended = not chunk
        decoded = self._text.decode(chunk, final=self._ended)
        self._buffer, self._at = self._buffer[self._at :] + decoded, 0
        return bool(decoded) or not self._ended

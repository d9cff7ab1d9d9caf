"""Large documents of JSON or YAML within a memory budget: arrays of numbers are packed,
texts cut.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Iterator
from typing import Any

import ijson
import yaml

from genz_core.errors import ReportError

_MAX_DOCUMENT_BYTES = 512 << 20
#: Most values, beside numbers in arrays, that a document may hold.
_MAX_VALUES = 1_000_000
_MAX_NUMBERS = 20_000_000
_MAX_DEPTH = 200
#: Texts are cut to this length; they are answers of a model, which are not used.
_MAX_TEXT_CHARS = 2000
#: Constants that Python's json writes although JSON lacks them.
_NO_JSON = re.compile(rb"(?<=[\s:,\[])(-?Infinity|NaN)(?=[\s,\]}]|\Z)")
_LONGEST_WORD = 16


def lean_json(pieces: Iterable[bytes]) -> Any:
    """A JSON document read from pieces; its arrays of numbers become `array("d")`.

    Raises:
        ReportError: it is damaged, cut off, too deep or too large.
    """
    builder = Builder(packs=True)
    try:
        for event, value in ijson.basic_parse(_Pieces(pieces), use_float=True):
            builder.take(event, value)
    except ijson.JSONError as error:
        reason = str(error).splitlines()[0][:80] if str(error) else "it ends in the middle"
        raise ReportError(f"the JSON is damaged or cut off ({reason})") from None
    return builder.whole


def lean_yaml(text: str) -> Any:
    """A YAML document: mappings with texts for keys, sequences, and plain scalars.

    Raises:
        ReportError: it is damaged, cut off, too deep or too large.
    """
    builder = Builder(packs=False)
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    anchors: dict[str, Any] = {}
    try:
        for event in yaml.parse(text, Loader=loader):
            if isinstance(event, yaml.DocumentEndEvent):
                break
            _take_yaml(builder, event, anchors)
    except yaml.YAMLError as error:
        problem = getattr(error, "problem", None) or "it ends in the middle"
        raise ReportError(f"the YAML is damaged or cut off ({problem})") from None
    except RecursionError:
        raise ReportError("the YAML is nested too deeply for a benchmark's result") from None
    return builder.whole


class Builder:
    """Builds values from the events of a parser.

    packs: whether arrays that hold nothing but numbers become `array("d")`.
    """

    def __init__(self, packs: bool) -> None:
        self.whole: Any = None
        self._packs = packs
        self._open: list[Any] = []
        self._keys: list[str | None] = []
        self._values = self._numbers = 0

    @property
    def wants_key(self) -> bool:
        """Whether a mapping is open and waits for a key."""
        return bool(self._open) and isinstance(self._open[-1], dict) and self._keys[-1] is None

    @property
    def innermost(self) -> Any:
        """The open container."""
        return self._open[-1]

    def take(self, event: str, value: Any) -> None:
        """Process an event, named as in `ijson.basic_parse`.

        Raises:
            ReportError: beyond the budget.
        """
        if event == "number":
            self._number(value)
        elif event == "map_key":
            self._keys[-1] = str(value)[:_MAX_TEXT_CHARS]
        elif event in ("end_map", "end_array"):
            self._open.pop()
            self._keys.pop()
        elif event == "start_map":
            self._start({})
        elif event == "start_array":
            self._start(array("d") if self._packs else [])
        else:
            self.put(value[:_MAX_TEXT_CHARS] if isinstance(value, str) else value)

    def put(self, value: Any) -> None:
        """Put a value into the innermost container; errors as `take`."""
        self._values += 1
        if self._values > _MAX_VALUES:
            raise ReportError(f"the document holds more than {_MAX_VALUES:,} values")
        if not self._open:
            self.whole = value
            return
        parent = self._open[-1]
        if isinstance(parent, array):
            parent = self._unpacked(parent)
        if isinstance(parent, list):
            parent.append(value)
        else:
            parent[self._keys[-1]] = value
            self._keys[-1] = None

    def _start(self, container: Any) -> None:
        if len(self._open) >= _MAX_DEPTH:
            raise ReportError("the document is nested too deeply for a benchmark's result")
        self.put(container)
        self._open.append(container)
        self._keys.append(None)

    def _number(self, value: Any) -> None:
        self._numbers += 1
        if self._numbers > _MAX_NUMBERS:
            raise ReportError(
                f"the document holds more than {_MAX_NUMBERS:,} numbers: save the result without "
                "the times of each token"
            )
        if self._open and isinstance(self._open[-1], array):
            try:
                self._open[-1].append(float(value))
            except OverflowError:
                raise ReportError("the document holds an integer of hundreds of digits") from None
        else:
            self.put(value)

    def _unpacked(self, packed: array[float]) -> list[Any]:
        """The innermost array converted to a list, because a value that is not a number follows."""
        values: list[Any] = list(packed)
        self._values += len(values)
        self._open[-1] = values
        if len(self._open) == 1:
            self.whole = values
            return values
        parent = self._open[-2]
        place = len(parent) - 1 if isinstance(parent, list) else next(reversed(parent))
        parent[place] = values
        return values


class _Pieces:
    """Pieces as a file for ijson, with Python's infinities as texts and NaN as null."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._ready = self._rewritten(pieces)

    def read(self, size: int = -1) -> bytes:
        return b"" if size == 0 else next(self._ready, b"")

    def _rewritten(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        held, total = b"", 0
        for piece in pieces:
            total += len(piece)
            if total > _MAX_DOCUMENT_BYTES:
                raise ReportError(
                    f"one document of more than {_MAX_DOCUMENT_BYTES / 1e6:.0f} MB: save the "
                    "result without the times of each token"
                )
            data = held + piece
            # before a comma: a word is recognised by what precedes it, and by the cut after it
            cut = max(data.rfind(b",", 0, max(len(data) - _LONGEST_WORD, 0)), 0)
            held = data[cut:]
            if cut:
                yield _NO_JSON.sub(_as_json, data[:cut])
        if held:
            yield _NO_JSON.sub(_as_json, held)


def _as_json(match: re.Match[bytes]) -> bytes:
    word = match.group(1)
    return b"null" if word == b"NaN" else b'"-inf"' if word.startswith(b"-") else b'"inf"'


# ------------------------------------------------------------------------------- YAML

_INTEGER = re.compile(r"[-+]?\d{1,300}")
_FLOAT = re.compile(r"[-+]?(\d+\.\d*|\.\d+|\d+(?=[eE]))([eE][-+]?\d+)?|[-+]?\.(inf|Inf|INF)")
_WORDS: dict[str, Any] = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
    ".nan": float("nan"), ".NaN": float("nan"), ".NAN": float("nan"),
}  # fmt: skip


def _take_yaml(builder: Builder, event: Any, anchors: dict[str, Any]) -> None:
    """Pass a YAML event to a builder.

    Raises:
        ReportError: a key that is not a text, or see `Builder.take`.
    """
    if isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
        builder.take("end_map", None)
    elif isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
        if builder.wants_key:
            raise ReportError(
                "the YAML has a key that is not a text, so it is not a benchmark's result"
            )
        is_map = isinstance(event, yaml.MappingStartEvent)
        builder.take("start_map" if is_map else "start_array", None)
        if event.anchor:
            anchors[event.anchor] = builder.innermost
    elif isinstance(event, yaml.ScalarEvent):
        if builder.wants_key:
            builder.take("map_key", event.value)
            return
        value = _scalar(event)
        if event.anchor:
            anchors[event.anchor] = value
        builder.take("number" if _is_number(value) else "string", value)
    elif isinstance(event, yaml.AliasEvent):
        if builder.wants_key:
            builder.take("map_key", str(anchors.get(event.anchor or ""))[:_MAX_TEXT_CHARS])
        else:
            builder.put(anchors.get(event.anchor or ""))


def _scalar(event: Any) -> Any:
    """The value of a scalar; a quoted or tagged one is a text."""
    text: str = event.value
    if event.style in ("'", '"') or not event.implicit[0]:
        return text
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text):
        return float(text.lower().replace(".inf", "inf"))
    return text


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)

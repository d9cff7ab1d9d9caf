"""The header of a GGUF file: facts about its model, and the type and shape of each tensor.

No tensor is read, so a file truncated after its header is enough.  The format's reference library
maps the whole file and keeps every array; this reader works on a stream, bounds what it reads and
skips vocabularies.  Layout: ggml-org/ggml, docs/gguf.md.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

from genz_core.errors import InvalidValue

MAGIC = b"GGUF"
#: Most bytes of a header that are read, including its vocabulary.
MAX_HEADER_BYTES = 96 * 2**20
_MAX_ENTRIES, _MAX_TENSORS, _MAX_TEXT, _MAX_DIMENSIONS = 4096, 65_536, 2**20, 4
#: Most numbers of an array that are kept; longer ones (vocabularies) are skipped.
_MAX_KEPT = 4096
_TEXT, _ARRAY = 8, 9
_NUMBERS: Mapping[int, str] = {
    **{0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?"},
    **{10: "Q", 11: "q", 12: "d"},
}
#: Formats of `genz_core.precision` by the number of a tensor's type (ggml.h, enum ggml_type).
FORMATS: Mapping[int, str] = {
    **{0: "fp32", 1: "fp16", 30: "bf16", 24: "int8", 39: "mxfp4", 40: "nvfp4"},
    **{2: "q4_0", 3: "q4_1", 6: "q5_0", 7: "q5_1", 8: "q8_0", 14: "q6_k"},
    **{10: "ggml_q2_k", 11: "ggml_q3_k", 12: "ggml_q4_k", 13: "ggml_q5_k"},
    **{16: "iq2_xxs", 17: "iq2_xs", 18: "iq3_xxs", 19: "iq1_s", 20: "iq4_nl", 21: "iq3_s"},
    **{22: "iq2_s", 23: "iq4_xs", 29: "iq1_m", 34: "tq1_0", 35: "tq2_0"},
}


@dataclass(frozen=True, slots=True)
class GgufHeader:
    """facts: the file's key-value pairs, without long arrays.  tensors: (shape, format) by name;
    shapes as in the file, the fastest dimension first.
    """

    facts: Mapping[str, Any]
    tensors: Mapping[str, tuple[tuple[int, ...], str]]


class _Stream:
    """Little-endian reads that raise an error with a sentence at the end of the file."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream, self._left = stream, MAX_HEADER_BYTES

    def bytes(self, count: int) -> bytes:
        """Exactly `count` bytes."""
        self._left -= count
        if self._left < 0:
            raise InvalidValue(
                f"the GGUF header is longer than {MAX_HEADER_BYTES // 2**20} MiB; "
                "give the model's config.json instead"
            )
        data = self._stream.read(count)
        if len(data) != count:
            raise InvalidValue(
                "the GGUF file ends inside its header; give the first 20 MB of it at least, "
                "or the model's config.json"
            )
        return data

    def number(self, code: str) -> Any:
        """One number of a `struct` code."""
        return struct.unpack(f"<{code}", self.bytes(struct.calcsize(f"<{code}")))[0]

    def length(self, most: int, what: str) -> int:
        """A 64-bit length of at most `most`."""
        count = int(self.number("Q"))
        if count > most:
            raise InvalidValue(f"the GGUF file claims {count} {what}; at most {most} are read")
        return count

    def text(self) -> str:
        """A string with its length in front."""
        data = self.bytes(self.length(_MAX_TEXT, "bytes of one text"))
        return data.decode("utf-8", errors="replace")

    def value(self, kind: int) -> Any:
        """A value of a type; None for an array that is skipped."""
        if kind == _TEXT:
            return self.text()
        if kind == _ARRAY:
            return self._array()
        if kind not in _NUMBERS:
            raise InvalidValue(f"the GGUF file has a value of type {kind}, which is not described")
        return self.number(_NUMBERS[kind])

    def _array(self) -> list[Any] | None:
        kind, count = int(self.number("I")), self.length(2**24, "entries of one list")
        if kind == _TEXT:
            for _ in range(count):
                self.bytes(self.length(_MAX_TEXT, "bytes of one text"))
            return None
        if kind not in _NUMBERS:
            raise InvalidValue(f"the GGUF file has a list of type {kind}, which is not read")
        code = _NUMBERS[kind]
        data = self.bytes(count * struct.calcsize(f"<{code}"))
        return list(struct.unpack(f"<{count}{code}", data)) if count <= _MAX_KEPT else None


def read_header(stream: BinaryIO) -> GgufHeader:
    """The header of a GGUF file of version 2 or 3.

    Raises:
        InvalidValue: no GGUF file, one that ends early, or one that claims too much.
    """
    source = _Stream(stream)
    if source.bytes(4) != MAGIC:
        raise InvalidValue("not a GGUF file: it does not start with 'GGUF'")
    version = int(source.number("I"))
    if version not in (2, 3):
        raise InvalidValue(f"GGUF version {version} is not read; versions 2 and 3 are")
    tensors = source.length(_MAX_TENSORS, "tensors")
    entries = source.length(_MAX_ENTRIES, "entries")
    facts = {}
    for _ in range(entries):
        key = source.text()
        value = source.value(int(source.number("I")))
        if value is not None:
            facts[key] = value
    return GgufHeader(facts, dict(_tensor(source) for _ in range(tensors)))


def _tensor(source: _Stream) -> tuple[str, tuple[tuple[int, ...], str]]:
    """(name, (shape, format)) of the next tensor."""
    name, dimensions = source.text(), int(source.number("I"))
    if dimensions > _MAX_DIMENSIONS:
        raise InvalidValue(f"tensor {name[:60]!r} of the GGUF file has {dimensions} dimensions")
    shape = tuple(int(source.number("Q")) for _ in range(dimensions))
    kind = int(source.number("I"))
    source.number("Q")  # where its data starts
    if kind not in FORMATS:
        raise InvalidValue(f"tensor {name[:60]!r} has GGUF type {kind}, which is not described")
    return name, (shape, FORMATS[kind])

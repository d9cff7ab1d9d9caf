"""The protobuf wire format, with every length checked against the available bytes.

Format: https://protobuf.dev/programming-guides/encoding/
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from genz_core.errors import ReportError

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5

Field = tuple[int, int | bytes]


def fields(message: bytes) -> Iterator[Field]:
    """(number, value) of each field: an int for a varint, else the raw bytes.

    Raises:
        ReportError: a length beyond the message, an endless varint, an unknown wire type.
    """
    at, size = 0, len(message)
    while at < size:
        key, at = varint(message, at)
        number, kind = key >> 3, key & 7
        if kind == _VARINT:
            value, at = varint(message, at)
            yield number, value
            continue
        if kind == _BYTES:
            length, at = varint(message, at)
        elif kind in (_FIXED32, _FIXED64):
            length = 8 if kind == _FIXED64 else 4
        else:
            raise ReportError(f"the report is damaged: unknown wire type {kind}")
        if length > size - at:
            raise ReportError("the report is damaged: a field is longer than its message")
        yield number, message[at : at + length]
        at += length


def varint(message: bytes, at: int) -> tuple[int, int]:
    """The unsigned integer at a position, and the position after it."""
    value = shift = 0
    while True:
        if at >= len(message):
            raise ReportError("the report is damaged: a number is cut off")
        byte = message[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
        if shift > 63:
            raise ReportError("the report is damaged: a number has over 64 bits")


def text(value: int | bytes) -> str:
    """A field as text."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def nested(value: int | bytes) -> bytes:
    """A field that must be a message."""
    if isinstance(value, int):
        raise ReportError("the report is damaged: a message is missing")
    return value


def integer(value: int | bytes) -> int:
    """A field that must be a varint."""
    if isinstance(value, bytes):
        raise ReportError("the report is damaged: a number is missing")
    return value


def real(value: int | bytes) -> float:
    """A little-endian float or double."""
    if isinstance(value, bytes) and len(value) in (4, 8):
        return float(struct.unpack("<d" if len(value) == 8 else "<f", value)[0])
    raise ReportError("the report is damaged: a number is missing")

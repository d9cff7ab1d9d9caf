"""Content of uploaded files: their first bytes, and a bounded stream out of gzip or zip."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from genz_core.errors import ReportError

GZIP_MAGIC = b"\x1f\x8b"
ZIP_MAGIC = b"PK\x03\x04"
CHUNK_BYTES = 1 << 20

#: A trace compresses 12 to 30 times; a file that unpacks to far more is a decompression bomb.
MAX_RATIO = 100
MAX_RATIO_FROM_BYTES = 64 << 20
MAX_OUTPUT_BYTES = 8 << 30
#: A zip ends with a record of 22 bytes and a comment, which states the size of the member list.
_END_OF_ZIP_BYTES = 22 + 65535
_MAX_LISTED_BYTES = 1 << 16


class BrokenOff(ReportError):
    """A file that ends or is damaged in the middle; what precedes may be used."""


def decompressed_head(path: Path, size: int = 4096) -> bytes:
    """The first bytes of a file's content, decompressed where it is gzip or zip.

    A truncated archive is no error as long as it yields any bytes.
    """
    head = b""
    try:
        for chunk in content_chunks(path, chunk_bytes=size):
            head += chunk
            if len(head) >= size:
                break
    except BrokenOff:
        if not head:
            raise
    return head[:size]


def content_chunks(path: Path, chunk_bytes: int = CHUNK_BYTES) -> Iterator[bytes]:
    """The content of a file in pieces, decompressed where it is gzip or a zip with a single member.

    Raises:
        ReportError: a damaged archive, a zip with several members or a password, or a decompression
            bomb.
    """
    with path.open("rb") as file:
        magic = file.read(4)
        file.seek(0)
        if magic == ZIP_MAGIC:
            yield from _zip_chunks(file, path, chunk_bytes)
        elif magic.startswith(GZIP_MAGIC):
            chunks = iter(lambda: file.read(chunk_bytes), b"")
            yield from _gunzip(file.read(chunk_bytes), chunks, chunk_bytes)
        else:
            while chunk := file.read(chunk_bytes):
                yield chunk


def _zip_chunks(file: IO[bytes], path: Path, chunk_bytes: int) -> Iterator[bytes]:
    _refuse_crowd(file, path.stat().st_size)
    try:
        with zipfile.ZipFile(file) as archive:
            members = [m for m in archive.infolist() if not m.is_dir()]
            if len(members) != 1:
                raise ReportError(
                    f"the archive holds {len(members)} files where one trace is expected; "
                    "unpack it and give the files themselves"
                )
            with archive.open(members[0]) as member:
                yield from _member_chunks(member, path.stat().st_size, chunk_bytes)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, ValueError, OSError) as error:
        raise ReportError(f"the zip archive is damaged or locked ({error})") from None
    except (EOFError, zlib.error, OverflowError) as error:
        raise ReportError(f"the zip archive is damaged ({error})") from None


def _refuse_crowd(file: IO[bytes], size: int) -> None:
    """Raise where the zip's list of members, which must be read into memory, is too long."""
    file.seek(max(size - _END_OF_ZIP_BYTES, 0))
    tail = file.read()
    at = tail.rfind(b"PK\5\6")
    listed = int.from_bytes(tail[at + 12 : at + 16], "little") if at >= 0 else 0
    if listed > _MAX_LISTED_BYTES:
        raise ReportError("the archive holds many files where one trace is expected")
    file.seek(0)


def _member_chunks(member: IO[bytes], packed: int, chunk_bytes: int) -> Iterator[bytes]:
    first = member.read(chunk_bytes)
    if first.startswith(GZIP_MAGIC):
        rest = iter(lambda: member.read(chunk_bytes), b"")
        yield from _gunzip(first, rest, chunk_bytes)
        return
    produced = 0
    while first:
        produced += len(first)
        _refuse_bomb(packed, produced)
        yield first
        first = member.read(chunk_bytes)


def _gunzip(first: bytes, rest: Iterator[bytes], chunk_bytes: int) -> Iterator[bytes]:
    """Decompress concatenated gzip members, limiting the ratio of output to input."""
    decoder, consumed, produced = zlib.decompressobj(wbits=31), len(first), 0
    pending = first
    try:
        while True:
            out = decoder.decompress(pending, chunk_bytes)
            produced += len(out)
            _refuse_bomb(consumed, produced)
            if out:
                yield out
            pending = decoder.unconsumed_tail
            if decoder.eof:
                pending = decoder.unused_data or next(rest, b"")
                consumed += 0 if decoder.unused_data else len(pending)
                if not pending.startswith(GZIP_MAGIC):
                    return
                decoder = zlib.decompressobj(wbits=31)
            elif not pending and not out:
                pending = next(rest, b"")
                consumed += len(pending)
                if not pending:
                    raise BrokenOff("the gzip file ends in the middle; copy it again")
    except zlib.error as error:
        raise BrokenOff(f"the gzip file is damaged ({error})") from None


def _refuse_bomb(consumed: int, produced: int) -> None:
    if produced > MAX_OUTPUT_BYTES or (
        produced > MAX_RATIO_FROM_BYTES and produced > MAX_RATIO * max(consumed, 1)
    ):
        raise ReportError(
            f"the file unpacks to more than {produced / 1e6:.0f} MB from {consumed / 1e6:.1f} MB; "
            "that is not a profiler report"
        )


def text_bytes(path: Path, limit: int) -> bytes:
    """The whole content of a small file.

    Raises:
        ReportError: more than `limit` bytes, or see `content_chunks`.
    """
    buffer = io.BytesIO()
    for chunk in content_chunks(path):
        buffer.write(chunk)
        if buffer.tell() > limit:
            raise ReportError(
                f"the table is larger than {limit / 1e6:.0f} MB; export a shorter time range"
            )
    return buffer.getvalue()

"""Damage to real files: bits, lengths, truncation, splices, and numbers in text."""

import random
import re

_HARMFUL = (
    b"\xff" * 4,
    b"\xff\xff\xff\x7f",
    b"\x00" * 8,
    b"\x80" * 12,
    b"\xff" * 9 + b"\x01",
    b"[" * 3000,
    b'{"a":' * 3000,
    b'"',
    b"\n",
    b",",
    b"NaN",
    b"1e999",
    b"-1",
    b"9" * 400,
    b"null",
    b"\xc3\x28",
    b"\xed\xa0\x80",
    b"=cmd()",
)
_NUMBERS = (b"0", b"-1", b"1e308", b"9" * 40, b"NaN", b"", b"1,234", b"0x10", b"1.5", b'"x"')


def mutated(data: bytes, other: bytes, rng: random.Random) -> bytes:
    """A damaged copy of a file; `other` is another file to splice in."""
    for _ in range(rng.choice((1, 1, 2, 3, 8, 30))):
        data = rng.choice(_MUTATIONS)(data, other, rng)
    return data[: 8 << 20]


def _flip(data: bytes, other: bytes, rng: random.Random) -> bytes:
    if not data:
        return data
    changed = bytearray(data)
    for _ in range(rng.choice((1, 4, 40))):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _overwrite(data: bytes, other: bytes, rng: random.Random) -> bytes:
    at, harm = rng.randrange(len(data) + 1), rng.choice(_HARMFUL)
    return data[:at] + harm + data[at + len(harm) :]


def _insert(data: bytes, other: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.choice(_HARMFUL) + data[at:]


def _cut(data: bytes, other: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def _drop(data: bytes, other: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + data[at + rng.choice((1, 3, 64, 4096)) :]


def _repeat(data: bytes, other: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + data[at : at + 5000] * rng.choice((2, 5)) + data[at:]


def _splice(data: bytes, other: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(len(data) + 1)] + other[rng.randrange(len(other) + 1) :]


def _swap(data: bytes, other: bytes, rng: random.Random) -> bytes:
    first, second = sorted(rng.randrange(len(data) + 1) for _ in range(2))
    return data[second:] + data[first:second] + data[:first]


def _renumber(data: bytes, other: bytes, rng: random.Random) -> bytes:
    """Replace one number in the text by another, or a random byte if there is none."""
    places = [match.span() for match in re.finditer(rb"\d+", data[:200_000])]
    if not places:
        return _flip(data, other, rng)
    start, end = rng.choice(places)
    return data[:start] + rng.choice(_NUMBERS) + data[end:]


_MUTATIONS = (
    _flip,
    _flip,
    _overwrite,
    _insert,
    _cut,
    _drop,
    _repeat,
    _splice,
    _swap,
    _renumber,
    _renumber,
)

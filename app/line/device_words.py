"""Words about devices: "8 h100", "2 nodes of 8 h100", "tp4", and what their number means in a
question.

Functions of words: as in `app.line.load_words`.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from app.line import names
from app.line.stated_words import Stated
from app.line.vocabulary import NUMBERS
from app.line.words import joined
from genz_core.errors import InvalidValue

DEVICES = ("gpus", "gpu", "devices", "device", "chips", "chip", "accelerators")
_TIMES = ("x", "×")
_NODES = ("node", "nodes", "server", "servers", "machine", "machines", "host", "hosts")
_OF = ("of", "with", *_TIMES)
_UP_TO = ("up to", "at most", "upto")
_HOW_MANY = ("how many", "minimum number of", "minimum", "fewest")
_WHICH = ("cheapest", "cheaper", "best", "which", "what")
#: Most devices among which "how many h100" is answered.
_SEARCHED = 64
#: Most devices in one line.
_MOST = 65_536
_TIMES_AFTER = re.compile(r"(.*?)[x×*:](\d{1,5})")
_GLUED = re.compile(r"(\d+)[x×*](.*)")
_DEGREE = re.compile(r"(tp|pp|dp|ep|cp|moe_tp|moe-tp)(\d+)", re.I)


def count(rest: Sequence[str], stated: Stated) -> int:
    """Read a number of devices: "8 h100", "up to 8 x h100", "2 to 8 gpus", "8xh100", "2 nodes of 8
    h100", "2x8 h100", "h100:8", and "x8" or "x 8" after the name of a system.
    """
    if after := _TIMES_AFTER.fullmatch(joined(rest)):
        most = int(after[2])
        if found := _before_system([after[1]], most, most, 0, stated):
            return found
        if not after[1]:
            stated.say_devices(most, most)
            return 1
    if joined(rest) in _TIMES and (most := _whole(joined(rest, 1, 1))):
        stated.say_devices(most, most)
        return 2
    start = next((n for words in _UP_TO if joined(rest, n := len(words.split())) == words), 0)
    least, rest = (1 if start else 0), rest[start:]
    if nodes := _of_nodes(rest):
        most, words = nodes
        start, rest = start + words - 1, [str(most), *rest[words:]]
    glued = _GLUED.fullmatch(joined(rest))
    if glued and glued[2]:
        most = int(glued[1])
        name = [rest[0][glued.start(2) :], *rest[1:]]
        return _before_system(name, least or most, most, start, stated)
    most = int(glued[1]) if glued else _whole(joined(rest))
    if not most:
        return 0
    taken = 1
    if not start and joined(rest, 1, 1) in ("to", "-") and (last := _whole(joined(rest, 1, 2))):
        least, most, taken = most, last, 3
    word = joined(rest, 1, taken)
    if word in (*DEVICES, *_TIMES):
        taken += 1
    found = _before_system(rest[taken:], least or most, most, start + taken, stated)
    if found or word not in DEVICES:
        return found
    stated.say_devices(least or most, most)
    return start + taken


def any_system(rest: Sequence[str], stated: Stated) -> int:
    """Read a question for the system: "cheapest gpu", "which device is cheapest"."""
    if joined(rest) not in _WHICH or joined(rest, 1, 1) not in DEVICES:
        return 0
    stated.any_system = stated.searches = True
    return 2


def how_many(rest: Sequence[str], stated: Stated) -> int:
    """Read a question for the number of devices: "how many h100", "minimum gpus"."""
    start = next((n for words in _HOW_MANY if joined(rest, n := len(words.split())) == words), 0)
    if not start:
        return 0
    unnamed = joined(rest, 1, start) in DEVICES
    found = _before_system(rest[start:], 1, _SEARCHED, start, stated)
    if unnamed and not found:
        stated.say_devices(1, _SEARCHED)
    if found or unnamed:
        stated.say("rank", "devices")
        stated.notes.append(
            f'up to {_SEARCHED} devices are tried: say "up to 256" and their name for more'
        )
    return found or (start + 1 if unnamed else 0)


def _of_nodes(rest: Sequence[str]) -> tuple[int, int] | None:
    """Devices of "2 nodes of 8" or "2x8", and the number of its words; None for other words."""
    glued = _GLUED.fullmatch(joined(rest))
    if glued and (devices := _whole(glued[1]) * _whole(glued[2])):
        return (devices, 1) if devices <= _MOST else None
    if joined(rest, 1, 1) not in (*_NODES, *_TIMES):
        return None
    words = 3 if joined(rest, 1, 2) in _OF else 2
    devices = _whole(joined(rest)) * _whole(joined(rest, 1, words))
    return (devices, words + 1) if 0 < devices <= _MOST else None


def _before_system(rest: Sequence[str], least: int, most: int, taken: int, stated: Stated) -> int:
    """A number of devices, of `taken` words, before the name of a system; returns the number of
    words of both, 0 if no system is named.
    """
    found = names.named(rest[: names.MOST_WORDS])
    if not found or "system" not in found[1].given:
        return 0
    stated.say_devices(least, most)
    stated.say_named(found[1])
    return taken + found[0] + (joined(rest, 1, found[0]) in DEVICES)


def _whole(word: str) -> int:
    """The integer that a word states, at most `_MOST`; 0 for other words."""
    word = NUMBERS.get(word, word)
    return int(word) if word.isdecimal() and len(word) < 6 and int(word) <= _MOST else 0


def degree(rest: Sequence[str], stated: Stated) -> int:
    """Read a degree of parallelism: "tp4"."""
    match = _DEGREE.fullmatch(joined(rest))
    if match:
        stated.say_text(match[1].replace("-", "_"), match[2])
    return 1 if match else 0


def with_devices(
    given: Mapping[str, Any], devices: tuple[int, int] | None, verb: str
) -> dict[str, Any]:
    """Values with the number of devices: of a search, otherwise as degrees of one replica.

    Raises:
        InvalidValue: the stated degrees have a different product.
    """
    if devices is None:
        return dict(given)
    least, most = devices
    if verb == "plan":
        return {**given, "devices": f"{least}:{most}"}
    ranks = 1
    for name in ("tp", "pp", "dp"):
        ranks *= given.get(name, 1)
    if ranks == most:
        return dict(given)
    if {"tp", "pp", "dp"} & set(given):
        raise InvalidValue(
            f"{most} devices, but tp x pp x dp = {ranks}: say all degrees, or a target or "
            '"any layout" to search them'
        )
    return {**given, "tp": most}

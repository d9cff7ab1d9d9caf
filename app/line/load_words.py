"""Words about a load: "chat", "2k/500", "20/s".

Each function gets the unread words, stores what the first of them state, and returns
their number, 0 if they are not of its kind.
"""

import re
from collections.abc import Sequence

from app.line.presets import PRESETS
from app.line.stated_words import Stated
from app.line.vocabulary import NUMBERS, RATES, UNITS
from app.line.words import is_number, joined, split_unit
from app.question.parameters import PARAMETERS

_RENT = re.compile(r"(?:(?:price|rent) )?\$([\d.]+)(?: ?/ ?| per | an? )(?:h|hr|hour|gpu-hour)")
#: A number such as "10,000".
_GROUPED = re.compile(r"\d{1,3}(,\d{3})+")
#: A number such as "1.000", in countries where a point groups digits: one thousand users.
_POINTS = re.compile(r"[1-9]\d{0,2}\.\d{3}")
_MOST = ("how many", "max", "maximum", "most", "maximum number of", "largest number of")
_HITS = r"(cached|reused|(prefix )?(cache )?hits?( rate)?|(prefix )?cache( rate)?|prefix caching)"
_SHARE = re.compile(rf"(?P<first>[\d.]+) ?% {_HITS}|({_HITS}|prefix) (?P<last>[\d.]+ ?%|0?\.\d+)")


def preset(rest: Sequence[str], stated: Stated) -> int:
    """Read the name of a usual load."""
    for name, values in PRESETS.items():
        count = len(name.split())
        if joined(rest, count) == name:
            stated.usual |= values
            return count
    return 0


def lengths(rest: Sequence[str], stated: Stated) -> int:
    """Read prompt and output lengths: "2k/500", "2k / 500", "in 2k out 500"."""
    for count in (1, 3, 4):
        both = re.split(r"[/+→]| out ", joined(rest, count).removeprefix("in "))
        if len(both) == 2 and all(map(is_number, both)):
            for name, text in zip(("isl", "osl"), both, strict=True):
                stated.say_text(name, text)
            return count
    return 0


def cached(rest: Sequence[str], stated: Stated) -> int:
    """Read the cached share of prompts: "90% cached", "90 % prefix cache hits", "prefix 90%"."""
    for count in (6, 5, 4, 3, 2):
        if match := _SHARE.fullmatch(joined(rest, count)):
            share = f"{match['first']}%" if match["first"] else match["last"]
            stated.say_text("prefix_hits", share.replace(" ", ""))
            return count
    return 0


def quantity(rest: Sequence[str], stated: Stated) -> int:
    """Read a number with its unit: "20/s", "16 users", "2k in", "20 req / s"."""
    word = joined(rest)
    if _GROUPED.fullmatch(word):
        word = word.replace(",", "")
    number, unit = split_unit(word, tuple(UNITS))
    if number:
        _say_quantity(number, unit, stated)
        return 1
    number = NUMBERS.get(word, word)
    for count in (3, 2, 1):
        unit = joined(rest, count, 1)
        if is_number(number) and unit in UNITS:
            _say_quantity(number, unit, stated)
            return 1 + count
    return 0


def most_users(rest: Sequence[str], stated: Stated) -> int:
    """Read a question for the largest number of users: "how many users", "max concurrent users"."""
    start = next((n for words in _MOST if joined(rest, n := len(words.split())) == words), 0)
    if not start:
        return 0
    for count in (2, 1):
        if UNITS.get(joined(rest, count, start)) == "concurrency":
            stated.asks_users = stated.searches = True
            return start + count
    return 0


def rent(rest: Sequence[str], stated: Stated) -> int:
    """Read the rent of a device: "$2/h", "$1.50 per hour"."""
    for count in (3, 2, 1):
        if match := _RENT.fullmatch(joined(rest, count)):
            stated.say_text("price", match[1])
            return count
    return 0


def _say_quantity(number: str, unit: str, stated: Stated) -> None:
    if PARAMETERS[UNITS[unit]].kind == "whole" and _POINTS.fullmatch(number):
        number = number.replace(".", "")
    stated.say_text(UNITS[unit], f"{number}{RATES.get(unit, '')}")

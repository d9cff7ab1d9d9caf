"""The words of a line, and numbers with their units."""

import re
from collections.abc import Sequence

from app.question import literals

_WORD = re.compile(r'<=|>=|<|>|(?:[^\s"<>]|"(?:[^"\\]|\\.)*")+')
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_PLAIN = re.compile(r"[\w./:+-]+")


def words(line: str) -> list[str]:
    """The words of a line, separated by blanks, with comparison signs as separate words.

    A text in double quotes is part of one word; quotes stay, see `unquoted`.
    """
    found = (word if '"' in word else word.strip(",;()?!") for word in _WORD.findall(line))
    return [word for word in (word.removesuffix(".") for word in found) if word]


def joined(rest: Sequence[str], count: int = 1, start: int = 0) -> str:
    """A number of words from `start` on, in lower case; "" if there are not enough."""
    found = rest[start : start + count]
    return " ".join(found).casefold() if len(found) == count else ""


def unquoted(word: str) -> str:
    """A word without its quotes."""
    return _QUOTED.sub(lambda found: re.sub(r"\\(.)", r"\1", found[1]), word)


def quoted(text: str) -> str:
    """A text as part of one word: in quotes if necessary."""
    if _PLAIN.fullmatch(text) and not text.endswith("."):
        return text
    return '"' + re.sub(r'(["\\])', r"\\\1", text) + '"'


def split_unit(word: str, units: Sequence[str]) -> tuple[str, str]:
    """(number, unit) of "20/s" or "16users", the longest unit first; ("", "") for other words."""
    low = word.casefold()
    for unit in sorted(units, key=len, reverse=True):
        number = low.removesuffix(unit)
        if number != low and is_number(number):
            return number, unit
    return "", ""


def is_number(word: str) -> bool:
    """Whether a word is a number: "1024", "10k", "2Ki", "1e6"."""
    try:
        literals.number(word)
    except ValueError:
        return False
    return True


def folded(text: str) -> str:
    """A name of a parameter with hyphens, underscores and blanks treated as equal."""
    return re.sub(r"[-_ ]+", " ", text.casefold()).strip()


def short(value: float) -> str:
    """The shortest text that reads back as the number: 2k, 20, 0.9."""
    if value == int(value) and abs(value) < 1e15:
        whole = int(value)
        return f"{whole // 1000}k" if whole and whole % 1000 == 0 else str(whole)
    return repr(float(value))

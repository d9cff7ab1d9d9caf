"""Words of a line that are not understood, with the closest known words."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from app.line import names
from app.line.device_words import DEVICES
from app.line.presets import PRESETS
from app.line.verb import ASKED
from app.line.vocabulary import UNITS, choices, parameters
from app.line.words import is_number
from app.planning.targets import FIGURES
from app.question import literals
from genz_core.errors import InvalidValue
from model_registry.finding.loading import names as model_names

#: What a line may say in place of a word that states nothing alone.
_EXAMPLES: Mapping[str, tuple[str, ...]] = {
    "any": ("any engine", "any layout"),
    "batch": ("batch 32",),
    **dict.fromkeys(("speculative", "speculation"), ("eagle", "mtp", "ngram")),
    **dict.fromkeys(("cpu", "cpus"), ("epyc-9654", "xeon-6980p")),
    **dict.fromkeys(("max", "maximum", "most", "users", "user", "requests"), ("64 users", "20/s")),
    **dict.fromkeys(DEVICES, ("8 h100", "h100, h200, b200")),
    **dict.fromkeys(("bit", "bits", "4bit", "4-bit"), ("int4", "q4_k_m")),
    **dict.fromkeys(("8bit", "8-bit"), ("int8", "fp8")),
    "q4": ("q4_k_m", "int4"), "q5": ("q5_k_m",), "q6": ("q6_k",), "q8": ("q8_0", "int8"),
}  # fmt: skip
#: A model's size without its name, such as "70b".
_SIZE = re.compile(r"\d+(\.\d+)?b", re.I)
_MOST_NEAR = 3


@dataclass(frozen=True, slots=True)
class Unread:
    """A word that is not understood.  near: possible meanings.  fits: whether each of them fits."""

    word: str
    near: tuple[str, ...] = ()
    fits: bool = False

    def __str__(self) -> str:
        if self.fits:
            return f"{self.word!r} fits {', '.join(self.near)}: choose one of them"
        return f"{self.word!r} is not understood" + (
            f": did you mean {' or '.join(self.near)}?" if self.near else ""
        )


class NotUnderstood(InvalidValue):
    """A line with words that are not understood.  near: possible meanings of the first of them.

    besides: what else the line lacks.
    """

    code = "not_understood"

    def __init__(self, unread: tuple[Unread, ...], besides: str = "") -> None:
        self.unread, self.near = unread, list(unread[0].near)
        super().__init__("; ".join(filter(None, (*map(str, unread), besides))))


def known_words() -> list[str]:
    """Every word that a line may have, but for numbers and quoted texts."""
    words = (*names.known(), *parameters(), *FIGURES, *PRESETS, *UNITS, *ASKED, *choices())
    return list(dict.fromkeys(words))


def _of_size(size: str) -> tuple[str, ...]:
    """Models whose names state the size."""
    short = (name.rpartition("/")[2] for name in model_names())
    return tuple(name for name in short if size.casefold() in name.casefold().split("-"))[
        :_MOST_NEAR
    ]


def not_understood(rest: Sequence[str]) -> tuple[int, Unread]:
    """The number of first words that are not understood together, and their possible meanings."""
    word = rest[0]
    if word.casefold() in _EXAMPLES:
        return 1, Unread(word, _EXAMPLES[word.casefold()])
    found = names.named(rest[: names.MOST_WORDS])
    if found and found[1].fits:
        count, named = found
        return count, Unread(" ".join(rest[:count]), named.fits, True)
    if _SIZE.fullmatch(word):
        return 1, Unread(word, _of_size(word))
    low = {each.casefold(): each for each in known_words()}
    near = () if is_number(word) else literals.near(word, low)
    return 1, Unread(word, tuple(low[each] for each in near if each != word.casefold()))

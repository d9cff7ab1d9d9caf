"""A typed line as parameters of a question, and the verb that it asks.

Words stand in any order.  What each says is tried at every word: a target, a usual load, a load or
a length, a degree, a number of devices, a name, a parameter with its value; what none of these is
stays unread, with the nearest known words.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from app.line import names
from app.line.presets import PRESETS
from app.line.words import folded, is_number, split_unit, unquoted, words
from app.planning.targets import FIGURES, figure, parse_targets
from app.question import groups, typed
from app.question.asking import read as read_value
from app.question.parameter import Parameter
from app.question.parameters import ALIASES, PARAMETERS, in_group
from app.question.question import LOADS, Question
from app.question.verbs import LEFT_OUT, VERBS
from genz_core.errors import InvalidValue

#: Verbs that a line may ask, in the order in which they are tried where it names none.
ASKED = ("serve", "simulate", "estimate", "plan", "sensitivity", "economics")
LONGEST = 1_000
#: What a number counts or measures, by the word behind it.
UNITS: Mapping[str, str] = {
    **dict.fromkeys(("users", "user", "concurrent", "clients"), "concurrency"),
    **dict.fromkeys(
        (
            "/s",
            "req/s",
            "requests/s",
            "rps",
            "qps",
            "/min",
            "/h",
            "per second",
            "a second",
            "requests per second",
            "requests a second",
            "requests / s",
        ),
        "rate",
    ),
    **dict.fromkeys(("in", "tokens in", "in tokens", "prompt"), "isl"),
    **dict.fromkeys(("out", "tokens out", "out tokens", "answer"), "osl"),
    **dict.fromkeys(("turns", "turn"), "turns"),
    **dict.fromkeys(("replicas", "replica"), "replicas"),
}
_DEVICES = ("gpus", "gpu", "devices", "device", "chips", "chip", "accelerators", "x", "×")
_CACHED = ("cached", "hits", "hit", "reused")
_BELOW, _ABOVE = ("<", "<=", "under", "below"), (">", ">=", "over", "above")
#: Words that only join others.
FILLERS = frozenset(
    (
        "on", "of", "at", "in", "with", "under", "for", "the", "a", "an", "and", "or", "to",
        "by", "using", "run", "running", "is", "my", "what", "does", "do", "how", "fast",
        "requests", "request", "tokens", "token", "per", "each", "second", "have", "i", "carry"
    )
)  # fmt: skip
_NUMBERS = {"one": "1", "two": "2", "four": "4", "eight": "8"}
_UP_TO = ("up to", "at most", "upto")
_SEARCHED = ("engine", "layout", "degrees", "devices", "shape")
_DEGREE = re.compile(r"(tp|pp|dp|ep|cp|moe_tp|moe-tp)(\d+)", re.I)


@dataclass(frozen=True, slots=True)
class Unread:
    """A word that is not understood.  near: what may be meant.  fits: whether each of them may."""

    word: str
    near: tuple[str, ...] = ()
    fits: bool = False

    def __str__(self) -> str:
        if self.fits:
            return f"{self.word!r} fits {', '.join(self.near)}: say which"
        return f"{self.word!r} is not understood" + (
            f": did you mean {' or '.join(self.near)}?" if self.near else ""
        )


class NotUnderstood(InvalidValue):
    """A line with words that are not understood.  near: what the first of them may stand for."""

    code = "not_understood"

    def __init__(self, unread: tuple[Unread, ...]) -> None:
        self.unread, self.near = unread, list(unread[0].near)
        super().__init__("; ".join(map(str, unread)))


@dataclass(frozen=True, slots=True)
class Line:
    """What a line says.

    given: values by parameter, several of one as a tuple where the verb chooses among them.
    verb: what it asks.  notes: sentences on what names were taken as.  unread: what is not
    understood.
    """

    text: str
    verb: str = "estimate"
    given: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    unread: tuple[Unread, ...] = ()

    def understood(self) -> Line:
        """This line.

        Raises:
            NotUnderstood: something in it is not understood.
        """
        if self.unread:
            raise NotUnderstood(self.unread)
        return self

    @property
    def several(self) -> Mapping[str, tuple[Any, ...]]:
        """Values to choose among, by parameter."""
        among = VERBS["plan"].several
        return {
            name: value
            for name, value in self.given.items()
            if name in among and isinstance(value, tuple)
        }

    @property
    def question(self) -> Question:
        """The question; the first of several values stands in it.

        Raises:
            InvalidValue: a value that cannot be.
        """
        first = {name: values[0] for name, values in self.several.items()}
        return Question(**{**self.given, **first})


def read(text: str) -> Line:
    """What a line says; what is not understood is in `unread`.

    Raises:
        InvalidValue: a value of a known parameter that cannot be, a parameter that is said twice,
            or a line of more than `LONGEST` characters.
    """
    if len(text) > LONGEST:
        raise InvalidValue(f"the line has {len(text):,} characters: give at most {LONGEST:,}")
    return _Reader(words(text)).line(text)


class _Reader:
    """Reads the words of one line from the left."""

    def __init__(self, found: list[str]) -> None:
        self.words, self.at = found, 0
        self.given: dict[str, Any] = {}
        self.preset: dict[str, Any] = {}
        self.notes: list[str] = []
        self.unread: list[Unread] = []
        self.verb, self.searches = "", False
        self.count: tuple[int, int] | None = None

    def line(self, text: str) -> Line:
        rules: tuple[Callable[[], int], ...] = (
            self._verb, self._target, self._any, self._preset, self._stated, self._lengths,
            self._cached, self._count, self._quantity, self._degree, self._parameter, self._counted,
            self._name, self._choice, self._filler,
        )  # fmt: skip
        while self.at < len(self.words):
            taken = next((count for rule in rules if (count := rule())), 0)
            if not taken:
                self._not_understood(self.words[self.at])
                taken = 1
            self.at += taken
        given = {**self._of_preset(), **self.given}
        verb = self.verb or self._suggested(given)
        given = self._with_devices(given, verb)
        ordered = {name: given[name] for name in PARAMETERS if name in given}
        return Line(text, verb, ordered, tuple(dict.fromkeys(self.notes)), tuple(self.unread))

    # --------------------------------------------------------------------------- words

    def _ahead(self, count: int = 1, start: int = 0) -> str:
        """The next words in lower case, "" where there are not as many."""
        at = self.at + start
        found = self.words[at : at + count]
        return " ".join(found).casefold() if len(found) == count else ""

    def _say(self, name: str, value: Any) -> None:
        """Take the value of a parameter."""
        one = PARAMETERS[name]
        if name in self.given:
            before = self.given[name]
            if name == "target":
                value = (*before, *value)
            elif name in VERBS["plan"].several:
                many = before if isinstance(before, tuple) else (before,)
                value = tuple(dict.fromkeys((*many, *(value if isinstance(value, tuple) else
                                                      (value,)))))  # fmt: skip
                value = value[0] if len(value) == 1 else value
                self.searches = self.searches or isinstance(value, tuple)
            elif before != value:
                raise InvalidValue(
                    f"{one.name} is said twice, {typed.text(before)} and {typed.text(value)}: "
                    "say it once"
                )
        self.given[name] = value

    def _read(self, one: Parameter, text: str) -> Any:
        """A value of a parameter from its text, several of it as a tuple."""
        if one.name in VERBS["plan"].several and "," in text:
            self.searches = True
            found = tuple(typed.values(one, text))
            return found if len(found) > 1 else found[0]
        return read_value(one, text)

    def _not_understood(self, word: str) -> None:
        fits = names.named(self.words[self.at : self.at + names.MOST_WORDS])
        if fits and fits[1].fits:
            count, found = fits
            self.unread.append(Unread(" ".join(self.words[self.at : self.at + count]), found.fits,
                                      True))  # fmt: skip
            self.at += count - 1
            return
        known = [*_by_name(), *FIGURES, *PRESETS, *UNITS, *ASKED, *_choices(), *names.known()]
        low = {each.casefold(): each for each in known}
        near = () if is_number(word) else typed.near(word, low)
        self.unread.append(Unread(word, tuple(low[each] for each in near)))

    # --------------------------------------------------------------------------- rules

    def _verb(self) -> int:
        """The name of a verb at the start."""
        if self.at or self._ahead() not in ASKED:
            return 0
        self.verb = self._ahead()
        return 1

    def _target(self) -> int:
        """ "p99 tpot < 30 ms", "tpot p99 under 30ms", "usd_per_mtok<0.4"."""
        for count in (2, 1):
            name, sign = _figure(self._ahead(count).split()), self._ahead(1, count)
            if not name or sign not in (*_BELOW, *_ABOVE):
                continue
            value = self._ahead(1, count + 1)
            unit = self._ahead(1, count + 2)
            joined = f"{value}{unit}" if unit in ("ms", "s", "us") and is_number(value) else value
            compared = ">" if sign in _ABOVE else "<"
            text = f"{name} {sign if sign[0] in '<>' else compared} {joined}"
            parse_targets(text)
            self._say("target", (text,))
            return count + 2 + (joined != value)
        return 0

    def _any(self) -> int:
        """ "any engine": a search over what is not said."""
        if self._ahead() in ("cheapest", "best"):
            self.searches = True
            return 1
        if self._ahead() == "any" and self._ahead(1, 1) in (*_SEARCHED, f"{_SEARCHED[0]}s"):
            self.searches = True
            return 2
        return 0

    def _preset(self) -> int:
        for name, values in PRESETS.items():
            count = len(name.split())
            if self._ahead(count) == name:
                self.preset |= values
                return count
        return 0

    def _stated(self) -> int:
        """ "name=value", "--name value", "--name=value"."""
        word = self.words[self.at]
        name, equals, value = word.partition("=")
        if not equals and not word.startswith("--"):
            return 0
        one = _by_name().get(folded(name.lstrip("-")))
        truth = one or _by_name().get(folded(name.lstrip("-").removeprefix("no-")))
        if truth is not None and truth.kind == "truth" and not equals:
            self._say(truth.name, one is not None)
            return 1
        if one is None:
            return 0
        if not equals and self.at + 1 == len(self.words):
            raise InvalidValue(f"{word} without a value: give {one.name}=VALUE")
        text = unquoted(value if equals else self.words[self.at + 1])
        self._say(one.name, self._read(one, text))
        return 1 if equals else 2

    def _lengths(self) -> int:
        """ "2k/500", "2k / 500"."""
        for count in (1, 3):
            lengths = self._ahead(count).split("/")
            if len(lengths) == 2 and all(map(is_number, lengths)):
                for name, text in zip(("isl", "osl"), lengths, strict=True):
                    self._say(name, self._read(PARAMETERS[name], text))
                return count
        return 0

    def _cached(self) -> int:
        """ "90% cached", "90 % cached", "cached 90%"."""
        for text, count in ((self._ahead(2), 2), (self._ahead(3), 3)):
            match = re.fullmatch(r"([\d.]+) ?% (\w+)|(\w+) ([\d.]+) ?%", text)
            if match and (match[2] or match[3]) in _CACHED:
                text = f"{match[1] or match[4]}%"
                self._say("prefix_hits", self._read(PARAMETERS["prefix_hits"], text))
                return count
        return 0

    def _count(self) -> int:
        """ "8 h100", "up to 8 x h100", "2 to 8 gpus", "8xh100"."""
        start = next((2 if " " in word else 1 for word in _UP_TO
                      if self._ahead(2 if " " in word else 1) == word), 0)  # fmt: skip
        first = _whole(self._ahead(1, start))
        least, taken = (1 if start else 0), start + 1
        glued = re.fullmatch(r"(\d+)[x×](.*)", self._ahead(1, start))
        if glued:
            first = int(glued[1])
            if not glued[2]:
                glued = None
            else:
                rest = [self.words[self.at + start][glued.start(2):],
                        *self.words[self.at + start + 1 :]]  # fmt: skip
                return self._counted_system(least or first, first, rest, taken - 1)
        if not first:
            return 0
        if not start and self._ahead(1, 1) in ("to", "-") and (most := _whole(self._ahead(1, 2))):
            least, first, taken = first, most, 3
        word = self._ahead(1, taken)
        if word in _DEVICES:
            taken += 1
        found = self._counted_system(least or first, first, self.words[self.at + taken :], taken)
        if found or word not in _DEVICES[:-2]:
            return found
        self._take_count(least or first, first)
        return taken

    def _counted_system(self, least: int, most: int, rest: list[str], taken: int) -> int:
        """A number of devices before the name of a system, words taken together."""
        found = names.named(rest[: names.MOST_WORDS])
        if not found or "system" not in found[1].given:
            return 0
        self._take_count(least, most)
        self._take(found[1])
        return taken + found[0]

    def _take_count(self, least: int, most: int) -> None:
        if self.count not in (None, (least, most)):
            raise InvalidValue("the number of devices is said twice: say it once")
        self.count = (least, most)
        self.searches = self.searches or least != most

    def _quantity(self) -> int:
        """ "20/s", "16 users", "2k in", "20 req / s"."""
        word = self._ahead()
        number, unit = split_unit(word, tuple(UNITS))
        if number:
            return self._take_quantity(number, unit, 1)
        number = _NUMBERS.get(word, word)
        for count in (3, 2, 1):
            unit = self._ahead(count, 1)
            if is_number(number) and unit in UNITS:
                return self._take_quantity(number, unit, 1 + count)
        return 0

    def _take_quantity(self, number: str, unit: str, count: int) -> int:
        one = PARAMETERS[UNITS[unit]]
        per = unit if unit in ("/min", "/h") else ""
        self._say(one.name, self._read(one, f"{number}{per}"))
        return count

    def _degree(self) -> int:
        """ "tp4"."""
        match = _DEGREE.fullmatch(self._ahead())
        if match:
            one = PARAMETERS[match[1].replace("-", "_")]
            self._say(one.name, self._read(one, match[2]))
        return 1 if match else 0

    def _parameter(self) -> int:
        """A parameter's name, one of its other names or its label, then its value."""
        for count in (4, 3, 2, 1):
            text = folded(self._ahead(count))
            one = _by_name().get(text) if text else None
            if one is None and text.startswith("no "):
                one = _by_name().get(text.removeprefix("no "))
                if one is not None and one.kind == "truth":
                    self._say(one.name, False)
                    return count
            if one is None:
                continue
            if one.kind == "truth":
                self._say(one.name, True)
                return count
            if self._ahead(1, count) == "any" and one.name in VERBS["plan"].several:
                self.searches = True
                return count + 1
            if self.at + count < len(self.words) and one.kind != "list":
                return count + self._value(one, count)
        return 0

    def _value(self, one: Parameter, start: int) -> int:
        """Take the value that stands behind a parameter's name; returns how many words it has."""
        rest = self.words[self.at + start :]
        if one.name in ("model", "system", "engine"):
            found = names.named(rest)
            if found and one.name in found[1].given:
                self._take(found[1])
                return found[0]
        text = unquoted(rest[0])
        if len(rest) > 1 and one.unit and is_number(text):  # "think time 30 s"
            try:
                value = self._read(one, f"{text}{rest[1]}")
            except InvalidValue:
                pass
            else:
                self._say(one.name, value)
                return 2
        self._say(one.name, self._read(one, text))
        return 1

    def _counted(self) -> int:
        """A number, then the parameter that it is of: "256 max-num-seqs", "2 images"."""
        word = self._ahead()
        if not is_number(word.removesuffix("%")):
            return 0
        for count in (4, 3, 2, 1):
            text = folded(self._ahead(count, 1))
            one = _by_name().get(text) if text else None
            if one is not None and one.numeric:
                self._say(one.name, self._read(one, word))
                return count + 1
        return 0

    def _name(self) -> int:
        found = names.named(self.words[self.at : self.at + names.MOST_WORDS])
        if not found or found[1].fits or self._ahead() in FILLERS:
            return 0
        self._take(found[1])
        return found[0]

    def _take(self, found: names.Named) -> None:
        for name, value in found.given.items():
            if name in ("model", "engine_version") and self.given.get(name, value) != value:
                raise InvalidValue(
                    f"{self.given[name]} and {value}: a line asks of one {name.replace('_', ' ')}"
                )
            self._say(name, value)
        self.notes += [found.note] if found.note else []

    def _choice(self) -> int:
        """A value that only one parameter may have: "eagle3", "aggregated"."""
        word = self._ahead().replace("-", "_")
        if word not in _choices():
            return 0
        one = PARAMETERS[_choices()[word]]
        self._say(one.name, self._read(one, word))
        return 1

    def _filler(self) -> int:
        return 1 if self._ahead() in FILLERS else 0

    # --------------------------------------------------------------------------- the whole

    def _of_preset(self) -> dict[str, Any]:
        """The usual load, without its number of users where the line has another load."""
        stated = set(LOADS) & set(self.given)
        return {
            name: value for name, value in self.preset.items() if not (stated and name in LOADS)
        }

    def _suggested(self, given: Mapping[str, Any]) -> str:
        """The verb that what was said asks."""
        search = set(given) & ({"target"} | set(_OF_A_SEARCH))
        if (search or self.searches) and "batch" not in given:
            return "plan"
        if not set(given) & set(LOADS[1:]):
            return "estimate"
        fitting = (verb for verb in ("serve", "simulate") if not set(given) & set(LEFT_OUT[verb]))
        return next(fitting, "serve")

    def _with_devices(self, given: dict[str, Any], verb: str) -> dict[str, Any]:
        """What was said with the number of devices: of a search, else as degrees of one replica.

        Raises:
            InvalidValue: degrees that are said have another number.
        """
        if self.count is None:
            return given
        least, most = self.count
        if verb == "plan":
            return {**given, "devices": f"{least}:{most}"}
        ranks = 1
        for name in ("tp", "pp", "dp"):
            ranks *= given.get(name, 1)
        if ranks == most:
            return given
        if {"tp", "pp", "dp"} & set(given):
            raise InvalidValue(
                f"{most} devices, but tp x pp x dp = {ranks}: say all degrees, or a target or "
                '"any layout" to search them'
            )
        return {**given, "tp": most}


_OF_A_SEARCH = ("devices", "pools", "cross_systems", "rank", "confidence", "top", "break_even")


def _whole(word: str) -> int:
    """The whole number that a word is, at most 65,536; 0 for another word."""
    word = _NUMBERS.get(word, word)
    return int(word) if word.isdecimal() and len(word) < 6 and int(word) <= 65_536 else 0


def _figure(found: list[str]) -> str:
    """The name of a figure: of "p99 tpot", "tpot p99", "tpot"; "" for others."""
    for text in ("_".join(found), "_".join(reversed(found))):
        try:
            return figure(text).name
        except InvalidValue:
            continue
    return ""


@cache
def _by_name() -> Mapping[str, Parameter]:
    """Parameters by name, other names and labels, as `folded` has them."""
    labels = {folded(one.label): one for one in PARAMETERS.values() if one.label}
    others = {folded(alias): PARAMETERS[name] for alias, name in ALIASES.items()}
    own = {folded(name): one for name, one in PARAMETERS.items()}
    return {**labels, **others, **own}


@cache
def _choices() -> Mapping[str, str]:
    """Words that are a choice of one parameter alone, by the parameter; no names of parameters."""
    owners: dict[str, list[str]] = {}
    for word, name in _pairs():
        owners.setdefault(word, []).append(name)
    formats = {*in_group(groups.FORMATS)}
    return {
        word: of[0]
        for word, of in owners.items()
        if len(of) == 1 and folded(word) not in _by_name() and word not in formats
    }


def _pairs() -> Iterator[tuple[str, str]]:
    for name, one in PARAMETERS.items():
        for choice in one.choices:
            if choice not in ("", "none"):
                yield choice.casefold(), name

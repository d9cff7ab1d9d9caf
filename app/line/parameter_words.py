"""Words that name a parameter, and those that name one of its values.

Functions of words: as in `app.line.load_words`.
"""

from collections.abc import Sequence

from app.line import names
from app.line.stated_words import Stated
from app.line.verb import WORDS
from app.line.vocabulary import FILLERS, choices, parameters
from app.line.words import folded, is_number, joined, unquoted
from app.question import groups
from app.question.parameter import Parameter
from app.question.parameters import in_group
from app.question.verbs import VERBS
from genz_core.errors import InvalidValue

#: Most words of a parameter's name, other name or label.
_MOST_WORDS = 4
_FORMATS = in_group(groups.FORMATS)
_SEARCHED = ("engine", "engines", "layout", "degrees", "devices", "shape")


def option(rest: Sequence[str], stated: Stated) -> int:
    """Read a parameter with its value: "name=value", "name:value", "--name value"."""
    word = rest[0]
    name, equals, value = word.partition("=" if "=" in word else ":")
    if not equals and not word.startswith("--"):
        return 0
    one = parameters().get(folded(name.lstrip("-")))
    truth = one or parameters().get(folded(name.lstrip("-").removeprefix("no-")))
    if truth is not None and truth.kind == "truth" and not equals:
        stated.say(truth.name, one is not None)
        return 1
    if one is None:
        return 0
    if not equals and len(rest) == 1:
        raise InvalidValue(f"{word} without a value: give {one.name}=VALUE")
    stated.say_text(one.name, unquoted(value if equals else rest[1]))
    return 1 if equals else 2


def named(rest: Sequence[str], stated: Stated) -> int:
    """Read a parameter's name, one of its other names or its label, then its value."""
    for count in range(_MOST_WORDS, 0, -1):
        text = folded(joined(rest, count))
        one = parameters().get(text) if text else None
        if one is None:
            denied = parameters().get(text.removeprefix("no ")) if text.startswith("no ") else None
            if denied is not None and denied.kind == "truth":
                stated.say(denied.name, False)
                return count
            continue
        if one.kind == "truth":
            stated.say(one.name, True)
            return count
        if joined(rest, 1, count) == "any" and one.name in VERBS["plan"].several:
            stated.searches = True
            return count + 1
        if one.kind != "list":
            start = count + (one.numeric and joined(rest, 1, count) == "of")
            follows = joined(rest, 1, start)
            return start + _value(one, rest[start:], stated) if _is_value(one, follows) else 0
    return 0


def _is_value(one: Parameter, word: str) -> bool:
    """Whether a word can be the value of the parameter before it."""
    if one.numeric:
        return any(map(str.isdigit, word))
    if one.name in _FORMATS:
        return _is_choice(one, word)
    return bool(word) and word not in FILLERS


def _is_choice(one: Parameter, word: str) -> bool:
    """Whether a word is one of a parameter's choices, or a number format where it takes one."""
    if one.name in _FORMATS:
        return bool(names.number_format(word))
    return bool(word) and word in one.choices


def _value(one: Parameter, rest: Sequence[str], stated: Stated) -> int:
    """Read the value after a parameter's name; returns its number of words."""
    if one.name in ("model", "system", "engine"):
        found = names.named(rest)
        if found and one.name in found[1].given:
            stated.say_named(found[1])
            return found[0]
    text = unquoted(rest[0])
    if len(rest) > 1 and one.unit and is_number(text):  # "think time 30 s"
        try:
            value = stated.value(one, f"{text}{rest[1]}")
        except InvalidValue:
            pass
        else:
            stated.say(one.name, value)
            return 2
    stated.say_text(one.name, text)
    return 1


def counted(rest: Sequence[str], stated: Stated) -> int:
    """Read a value, then its parameter: "256 max-num-seqs", "fp8 kv cache", "eagle speculation"."""
    word = joined(rest)
    count, one = _parameter(rest[1:])
    if one is None:
        return 0
    if one.numeric:
        fits = is_number(word.removesuffix("%"))
    else:  # in "fp8 kv bf16" the value follows its parameter, in "fp8 weights int8 kv" it does not
        other = _is_choice(one, joined(rest, 1, count + 1)) and not _parameter(rest[count + 2 :])[0]
        fits = _is_choice(one, word) and not other
    if not fits:
        return 0
    stated.say_text(one.name, word)
    return count + 1


def _parameter(rest: Sequence[str]) -> tuple[int, Parameter | None]:
    """The number of first words that name a parameter, and the parameter; (0, None) if none do."""
    for count in range(_MOST_WORDS, 0, -1):
        text = folded(joined(rest, count))
        if text and text in parameters():
            return count, parameters()[text]
    return 0, None


def name(rest: Sequence[str], stated: Stated) -> int:
    """Read the name of a model, system, engine or number format without a parameter's name."""
    found = names.named(rest[: names.MOST_WORDS])
    if not found or found[1].fits or joined(rest) in FILLERS:
        return 0
    stated.say_named(found[1])
    return found[0]


def choice(rest: Sequence[str], stated: Stated) -> int:
    """Read a value that only one parameter can have: "eagle3", "aggregated"."""
    word = joined(rest).replace("-", "_")
    if word not in choices():
        return 0
    stated.say_text(choices()[word], word)
    return 1


def any_of(rest: Sequence[str], stated: Stated) -> int:
    """Read words that start a search over unstated parameters: "any engine", "cheapest"."""
    if joined(rest) in ("cheapest", "cheaper", "best"):
        stated.searches = True
        return 1
    if joined(rest) == "any" and joined(rest, 1, 1) in _SEARCHED:
        stated.searches = True
        return 2
    return 0


def verb(rest: Sequence[str], stated: Stated) -> int:
    """Read a word that asks for the answer of another verb: "monthly"."""
    if joined(rest) not in WORDS:
        return 0
    stated.verb = WORDS[joined(rest)]
    return 1


def filler(rest: Sequence[str], _stated: Stated) -> int:
    """Skip a word that only connects others, and "max" before a number."""
    limit = joined(rest) in ("max", "maximum") and is_number(joined(rest, 1, 1))
    return 1 if limit or joined(rest) in FILLERS else 0

"""Words for parameters: their names, units of their values, choices of a single parameter."""

from collections.abc import Iterator, Mapping
from functools import cache

from app.line.words import folded
from app.question import groups
from app.question.parameter import Parameter
from app.question.parameters import ALIASES, PARAMETERS, in_group

#: Parameters of numbers, by the word after the number.
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
#: Words that only connect others.
FILLERS = frozenset(
    (
        "on", "of", "at", "in", "with", "under", "for", "the", "a", "an", "and", "or", "to",
        "by", "using", "run", "running", "is", "my", "what", "does", "do", "how", "fast",
        "requests", "request", "tokens", "token", "per", "each", "second", "have", "i", "carry",
        "can", "will", "would", "much", "cost", "costs", "serve", "serves", "serving", "way",
        "it", "we", "me", "please",
    )
)  # fmt: skip
#: Numbers that are written as words.
NUMBERS: Mapping[str, str] = {"one": "1", "two": "2", "four": "4", "eight": "8"}


@cache
def parameters() -> Mapping[str, Parameter]:
    """Parameters by name, other names and labels, as normalised by `folded`."""
    labels = {folded(one.label): one for one in PARAMETERS.values() if one.label}
    others = {folded(alias): PARAMETERS[name] for alias, name in ALIASES.items()}
    own = {folded(name): one for name, one in PARAMETERS.items()}
    return {**labels, **others, **own}


@cache
def choices() -> Mapping[str, str]:
    """Words that are a choice of only one parameter, with the parameter; without names of
    parameters.
    """
    owners: dict[str, list[str]] = {}
    for word, name in _choices_with_owners():
        owners.setdefault(word, []).append(name)
    formats = {*in_group(groups.FORMATS)}
    return {
        word: of[0]
        for word, of in owners.items()
        if len(of) == 1 and folded(word) not in parameters() and word not in formats
    }


def _choices_with_owners() -> Iterator[tuple[str, str]]:
    for name, one in PARAMETERS.items():
        for choice in one.choices:
            if choice not in ("", "none", "yes", "no"):
                yield choice.casefold(), name

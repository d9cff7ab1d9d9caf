"""Words for parameters: their names, units of their values, choices of a single parameter."""

from collections.abc import Iterator, Mapping
from functools import cache

from app.line.words import folded
from app.question import groups
from app.question.parameter import Parameter
from app.question.parameters import ALIASES, PARAMETERS, in_group

_TIMES: Mapping[str, str] = {
    "s": "/s", "second": "/s", "min": "/min", "minute": "/min", "h": "/h", "hour": "/h",
    "day": "/day",
}  # fmt: skip
#: The unit of a rate by the words after its number.
RATES: Mapping[str, str] = {
    **dict.fromkeys(("req/s", "rps", "qps", "a second", "requests a second"), "/s"),
    **{
        f"{what}{per}{time}".strip(): unit
        for time, unit in _TIMES.items()
        for per in ("/", " / ", " per ")
        for what in ("", "requests")
    },
}
#: Parameters of numbers, by the word after the number.
UNITS: Mapping[str, str] = {
    **dict.fromkeys(
        ("users", "user", "concurrent", "concurrent users", "concurrent requests", "clients"),
        "concurrency",
    ),
    **dict.fromkeys(RATES, "rate"),
    **dict.fromkeys(("in", "tokens in", "in tokens", "prompt", "context"), "isl"),
    **dict.fromkeys(("out", "tokens out", "out tokens", "answer"), "osl"),
    **dict.fromkeys(("turns", "turn"), "turns"),
    **dict.fromkeys(("replicas", "replica"), "replicas"),
    **dict.fromkeys(("images", "image"), "images"),
    **dict.fromkeys(("adapters", "loras"), "lora_adapters"),
}
#: Words that only connect others.
FILLERS = frozenset(
    (
        "on", "of", "at", "in", "with", "within", "under", "for", "the", "a", "an", "and", "or",
        "to", "by", "using", "run", "running", "is", "my", "what", "does", "do", "how", "fast",
        "requests", "request", "tokens", "token", "per", "each", "second", "have", "i", "carry",
        "can", "will", "would", "much", "cost", "costs", "serve", "serves", "serving", "way",
        "it", "we", "me", "please", "many", "take", "takes", "need", "needs", "compare", "vs",
        "versus", "between", "which", "model", "slo", "sla", "million", "mac", "studio", "macbook",
        "what's", "long", "latency", "goodput", "energy", "power", "draw", "rent", "speed", "fit",
        "fits",
    )
)  # fmt: skip
#: Numbers that are written as words.
NUMBERS: Mapping[str, str] = {"one": "1", "single": "1", "two": "2", "four": "4", "eight": "8"}


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

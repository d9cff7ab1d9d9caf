"""Words for parameters: their names, units of their values, choices of a single parameter."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache

from app.line.words import folded, is_number
from app.question import groups
from app.question.parameter import Parameter
from app.question.parameters import ALIASES, PARAMETERS, in_group

_TIMES: Mapping[str, str] = {
    "s": "/s", "sec": "/s", "second": "/s", "min": "/min", "minute": "/min", "h": "/h",
    "hr": "/h", "hour": "/h", "day": "/day", "month": "/month",
}  # fmt: skip
#: The unit of a rate by the words after its number.
RATES: Mapping[str, str] = {
    **dict.fromkeys(("rps", "qps"), "/s"),
    "rpm": "/min",
    **{
        f"{what}{per}{time}".strip(): unit
        for time, unit in _TIMES.items()
        for per in ("/", " / ", " per ", " a ")
        for what in ("", "requests", "request", "reqs", "req", "r", "queries", "prompts")
    },
}
#: Words for what is counted by the parameters of lengths, and for requests in flight.
_PROMPT = ("prompt", "prompts", "context", "input", "inputs", "in")
_ANSWER = ("answer", "answers", "output", "outputs", "out", "response", "responses", "completion",
           "completions")  # fmt: skip
_USERS = ("users", "user", "requests", "sessions", "clients", "streams", "connections", "people")
_AT_ONCE = ("concurrent", "parallel", "simultaneous", "active", "open")
#: Parameters of numbers, by the word after the number.
UNITS: Mapping[str, str] = {
    **dict.fromkeys(set(_USERS) - {"requests"}, "concurrency"),
    **{f"{how} {who}": "concurrency" for how in _AT_ONCE for who in _USERS},
    **dict.fromkeys(("concurrent", "requests in flight"), "concurrency"),
    **dict.fromkeys(RATES, "rate"),
    **{
        words: name
        for name, whats in (("isl", _PROMPT), ("osl", _ANSWER))
        for what in whats
        for words in (what, f"{what} tokens", f"tokens {what}", f"token {what}")
    },
    **dict.fromkeys(("turns", "turn"), "turns"),
    **dict.fromkeys(("replicas", "replica"), "replicas"),
    **dict.fromkeys(("images", "image"), "images"),
    "drafts": "draft_tokens",
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
        "fits", "average", "avg", "mean", "about", "approx", "length", "node", "@",
        "make", "makes", "produce", "produces", "generate", "generates", "deliver", "delivers",
    )
)  # fmt: skip
#: Names of parameters that only a line knows, besides those that every interface takes.
_NAMES: Mapping[str, str] = {
    **dict.fromkeys(("prompt", "prompts", "prompt length", "prompt len", "prompt size", "context",
                     "context length", "ctx", "input length", "seq len"), "isl"),
    **dict.fromkeys(("answer", "answer length", "response", "response length", "completion",
                     "generation length", "output length"), "osl"),
    **dict.fromkeys(("bs", "batchsize"), "batch"),
    **dict.fromkeys(("qps", "rps"), "rate"),
    **dict.fromkeys(("memory utilization", "mem fraction"), "memory_fraction"),
    **dict.fromkeys(("speculative", "speculative decoding", "spec decode", "spec decoding"),
                    "speculation"),
    "conc": "concurrency",
}  # fmt: skip
#: Words after a number that its unit contains as a letter.
_SCALES: Mapping[str, str] = {"thousand": "k", "million": "m", "billion": "g"}
#: Other spellings of single words.
_SAME: Mapping[str, str] = {
    **dict.fromkeys(("eagle3", "eagle-3"), "eagle"),
    **dict.fromkeys(("disagg", "disaggregation"), "disaggregated"),
    "chatbot": "chat",
    "agentic": "agents",
    **dict.fromkeys(("summarization", "summarisation", "summary"), "summaries"),
    **dict.fromkeys(("millisecond", "milliseconds", "msec"), "ms"),
    "seconds": "s",
}
_SIGNS = ("<", "<=", ">", ">=")
#: Words after a number that make its comma a decimal one.
_UNIT_WORDS = frozenset(
    (*(words.split()[0] for words in UNITS), *_SCALES, "ms", "s", "us", "second", "%", "$/h")
)
#: A number with a decimal comma, and what follows it in its word.
_COMMA = re.compile(r"(\$?\d+),(\d{1,2})(?![\d,])(.*)")
#: Numbers that are written as words.
NUMBERS: Mapping[str, str] = {"one": "1", "single": "1", "two": "2", "four": "4", "eight": "8"}


def usual(found: Sequence[str]) -> list[str]:
    """Words as the rules read them: usual spellings, "10m" for "10 million", and a point for a
    decimal comma.
    """
    kept: list[str] = []
    for word, after in zip(found, [*found[1:], ""], strict=False):
        low = word.casefold()
        before = kept[-1].casefold() if kept else ""
        if low in _SCALES and is_number(before):
            kept[-1] += _SCALES[low]
        else:
            kept.append(_with_point(_SAME.get(low, word), before, after.casefold()))
    return kept


def _with_point(word: str, before: str, after: str) -> str:
    """A word with a point for its decimal comma, which has a unit after it or a sign before it:
    "0,5 s", "2,5k/500", "cost < 0,4".  "tp 1,2" are two values.
    """
    comma = _COMMA.fullmatch(word)
    if comma is None:
        return word
    alone = before not in parameters() and (before in _SIGNS or after in _UNIT_WORDS)
    decimal = comma[1] == "0" or comma[3] or alone
    return f"{comma[1]}.{comma[2]}{comma[3]}" if decimal else word


@cache
def parameters() -> Mapping[str, Parameter]:
    """Parameters by name, other names and labels, as normalised by `folded`."""
    labels = {folded(one.label): one for one in PARAMETERS.values() if one.label}
    others = {folded(alias): PARAMETERS[name] for alias, name in ALIASES.items()}
    own = {folded(name): one for name, one in PARAMETERS.items()}
    typed = {words: PARAMETERS[name] for words, name in _NAMES.items()}
    return {**typed, **labels, **others, **own}


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

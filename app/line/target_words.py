"""Words about targets and wanted speeds: "p99 tpot < 30 ms", "ttft 500ms", "50 tokens/s each".

Functions of words: as in `app.line.load_words`.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import product

from app.line.stated_words import Stated
from app.line.words import is_number, joined
from app.planning.targets import Figure, figure, parse_targets
from app.question import literals
from genz_core.errors import InvalidValue

#: Signs of a target by the words for them.
_SIGNS: Mapping[str, str] = {
    **{sign: sign for sign in ("<", "<=", ">", ">=")},
    **dict.fromkeys(("under", "below", "within", "less than", "at most", "max", "maximum"), "<"),
    **dict.fromkeys(("over", "above", "more than", "at least", "min", "minimum"), ">"),
}
#: Names of figures that only a line knows.
_CALLED: Mapping[str, str] = {
    **dict.fromkeys(("time to first token", "first token"), "ttft"),
    **dict.fromkeys(("time per output token", "itl", "inter-token latency", "per token",
                     "inter token latency"), "tpot"),
    **dict.fromkeys(("latency", "end to end latency", "end-to-end latency"), "e2e"),
    "p99 latency": "e2e_p99", "p95 latency": "e2e_p95", "p90 latency": "e2e_p90",
}  # fmt: skip
#: Most words of a figure and of a sign.
_MOST_WORDS, _SIGN_WORDS = 4, 2
_TIME_UNITS = ("ms", "s", "us")
_TIME = re.compile(r"[\d.]+(ms|us|s)")
#: Most words of a wanted speed.
_SPEED_WORDS = 10
_SPEED = re.compile(
    r"((at least|min|minimum|over|above|>=?) )?(?P<number>[\d.]+(e\d+)?[kmgt]?i?) ?"
    r"((output |generated )?(tokens?|toks?|t)( ?/ ?| per | a )"
    r"(?P<time>seconds?|sec|s|minutes?|min|hours?|h|day)|tps)"
    r"(?P<user>( ?/ ?| per | a | for each | for every )(user|request|client|u)| each)?(?= |$)"
)
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}


def target(rest: Sequence[str], stated: Stated) -> int:
    """Read a target: "p99 tpot < 30 ms", "tpot p99 under 30ms", "usd_per_mtok<0.4"."""
    for count, width in product(range(_MOST_WORDS, 0, -1), range(_SIGN_WORDS, 0, -1)):
        name, sign = _figure(joined(rest, count)), _SIGNS.get(joined(rest, width, count))
        if name is None or sign is None:
            continue
        value = joined(rest, 1, count + width)
        unit = joined(rest, 1, count + width + 1)
        apart = unit in _TIME_UNITS and is_number(value)
        _say_target(f"{name.name} {sign} {value}{unit if apart else ''}", stated)
        return count + width + 1 + apart
    return 0


def limit(rest: Sequence[str], stated: Stated) -> int:
    """Read the limit of a latency without a sign: "ttft 500ms", "p99 tpot of 30 ms", "tpot=20ms",
    "500 ms ttft".
    """
    words = len(rest)
    rest = [*joined(rest).split("=", 1), *rest[1:]]
    equals = len(rest) - words
    if size := _time(rest):
        count, name = _latency(rest[size:])
    else:
        count, name = _latency(rest)
        count += bool(name) and joined(rest, 1, count) in ("of", "at", "is")
        size = _time(rest[count:]) if name else 0
    if not (size and name):
        return 0
    time = "".join(rest[:size] if _time(rest) else rest[count : count + size]).casefold()
    _say_target(f"{name} < {time}", stated)
    return count + size - equals


def _time(words: Sequence[str]) -> int:
    """The number of first words that are a time with its unit, 0 if they are none."""
    if _TIME.fullmatch(joined(words)):
        return 1
    return 2 if is_number(joined(words)) and joined(words, 1, 1) in _TIME_UNITS else 0


def _latency(words: Sequence[str]) -> tuple[int, str]:
    """The number of first words that name a latency, and its name; (0, "") if they name none."""
    for count in range(_MOST_WORDS, 0, -1):
        found = _figure(joined(words, count))
        if found is not None and found.latency:
            return count, found.name
    return 0, ""


def speed(rest: Sequence[str], stated: Stated) -> int:
    """Read a wanted speed, of a user ("50 tokens/s each", "50 tok/s/user") or of all together
    ("5 million tokens per day").
    """
    match = _SPEED.match(" ".join(rest[:_SPEED_WORDS]).casefold())
    if not match or not is_number(match["number"]):
        return 0
    number = float(literals.number(match["number"]))
    wanted = number / _SECONDS[(match["time"] or "s")[0]]
    if match["user"]:
        _say_target(f"interactivity > {wanted:.6g}", stated)
    else:
        stated.say_speed(wanted)
    return match[0].count(" ") + 1


def asked_figure(rest: Sequence[str], _stated: Stated) -> int:
    """Skip the name of a figure that the line asks for, such as "ttft": every answer has it."""
    return next((count for count in range(_MOST_WORDS, 0, -1) if _figure(joined(rest, count))), 0)


def _say_target(text: str, stated: Stated) -> None:
    parse_targets(text)
    stated.say("target", (text,))


def _figure(words: str) -> Figure | None:
    """The figure that the words mean, None if they mean none."""
    try:
        return figure(_CALLED.get(words, words.removesuffix(" latency"))) if words else None
    except InvalidValue:
        return None

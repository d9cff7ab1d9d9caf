"""Words about targets and wanted speeds: "p99 tpot < 30 ms", "ttft 500ms", "50 tokens/s each".

Functions of words: as in `app.line.load_words`.
"""

import re
from collections.abc import Sequence

from app.line.stated_words import Stated
from app.line.words import is_number, joined
from app.planning.targets import Figure, figure, parse_targets
from app.question import literals
from genz_core.errors import InvalidValue

_BELOW, _ABOVE = ("<", "<=", "under", "below"), (">", ">=", "over", "above")
_TIME_UNITS = ("ms", "s", "us")
_TIME = re.compile(r"[\d.]+(ms|us|s)?")
#: Most words of a wanted speed.
_SPEED_WORDS = 10
_SPEED = re.compile(
    r"(?P<number>[\d.]+(e\d+)?[kmgt]?i?) ?(?P<scale>thousand |million |billion )?"
    r"((output |generated )?(tokens?|toks?|t)( ?/ ?| per | a )"
    r"(?P<time>seconds?|sec|s|minutes?|min|hours?|h|day)|tps)"
    r"(?P<user>( ?/ ?| per | a | for each | for every )(user|request|client)| each)?(?= |$)"
)
_SCALES = {"": 1.0, "thousand": 1e3, "million": 1e6, "billion": 1e9}
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}


def target(rest: Sequence[str], stated: Stated) -> int:
    """Read a target: "p99 tpot < 30 ms", "tpot p99 under 30ms", "usd_per_mtok<0.4"."""
    for count in (2, 1):
        name, sign = _figure(joined(rest, count)), joined(rest, 1, count)
        if name is None or sign not in (*_BELOW, *_ABOVE):
            continue
        value = joined(rest, 1, count + 1)
        unit = joined(rest, 1, count + 2)
        apart = unit in _TIME_UNITS and is_number(value)
        compared = ">" if sign in _ABOVE else "<"
        text = f"{name.name} {sign if sign[0] in '<>' else compared} {value}"
        _say_target(f"{text}{unit if apart else ''}", stated)
        return count + 2 + apart
    return 0


def limit(rest: Sequence[str], stated: Stated) -> int:
    """Read the limit of a latency without a sign: "ttft 500ms", "p99 tpot of 30 ms",
    "tpot=20ms".
    """
    words = len(rest)
    rest = [*joined(rest).split("=", 1), *rest[1:]]
    equals = len(rest) - words
    for count in (2, 1):
        name = _figure(joined(rest, count))
        if name is None or not name.latency:
            continue
        between = int(joined(rest, 1, count) in ("of", "at", "is"))
        value, unit = (joined(rest, 1, count + between + more) for more in (0, 1))
        match = _TIME.fullmatch(value)
        apart = unit in _TIME_UNITS and is_number(value)
        if match and (match[1] or apart):
            _say_target(f"{name.name} < {value}{unit if apart else ''}", stated)
            return count + between + 1 + apart - equals
    return 0


def speed(rest: Sequence[str], stated: Stated) -> int:
    """Read a wanted speed, of a user ("50 tokens/s each", "50 tok/s/user") or of all together
    ("5 million tokens per day").
    """
    match = _SPEED.match(" ".join(rest[:_SPEED_WORDS]).casefold())
    if not match or not is_number(match["number"]):
        return 0
    number = float(literals.number(match["number"]))
    scale = _SCALES[(match["scale"] or "").strip()]
    wanted = number * scale / _SECONDS[(match["time"] or "s")[0]]
    if match["user"]:
        _say_target(f"interactivity > {wanted:.6g}", stated)
    else:
        stated.say_speed(wanted)
    return match[0].count(" ") + 1


def asked_figure(rest: Sequence[str], _stated: Stated) -> int:
    """Skip the name of a figure that the line asks for, such as "ttft": every answer has it."""
    return next((count for count in (3, 2, 1) if _figure(joined(rest, count))), 0)


def _say_target(text: str, stated: Stated) -> None:
    parse_targets(text)
    stated.say("target", (text,))


def _figure(words: str) -> Figure | None:
    """The figure that the words mean, None if they mean none."""
    try:
        return figure(words) if words else None
    except InvalidValue:
        return None

"""A typed line as parameters of a question and a verb.

Words may come in any order.  At every word the functions of `target_words`, `load_words`,
`device_words` and `parameter_words` are tried, the most specific first; words that none of them
accepts are unread, and are listed with the closest known words.
"""

from collections.abc import Callable, Sequence

from app.line import device_words, load_words, parameter_words, target_words
from app.line.line import Line
from app.line.presets import MOST_OF_SHORTLIST, SHORTLIST, SHORTLIST_NOTE
from app.line.stated_words import Stated
from app.line.unread import Unread, not_understood
from app.line.verb import ASKED, suggested
from app.line.vocabulary import usual
from app.line.words import joined, words
from app.question.parameters import PARAMETERS
from genz_core.errors import InvalidValue
from genz_core.limits import brief

#: Most characters of a line.
LONGEST = 1_000
#: Gets the unread words; returns how many of them it accepts.
Rule = Callable[[Sequence[str], Stated], int]
_RULES: tuple[Rule, ...] = (
    target_words.target,
    target_words.limit,
    target_words.speed,
    device_words.any_system,
    parameter_words.any_of,
    load_words.most_users,
    device_words.how_many,
    load_words.preset,
    parameter_words.option,
    load_words.lengths,
    load_words.cached,
    load_words.rent,
    device_words.count,
    load_words.quantity,
    device_words.degree,
    parameter_words.named,
    parameter_words.counted,
    parameter_words.name,
    parameter_words.choice,
    target_words.asked_figure,
    parameter_words.verb,
    parameter_words.filler,
)


def read(text: str) -> Line:
    """The parsed content of a line; words that are not understood are in `unread`.

    Raises:
        InvalidValue: an invalid value of a known parameter, a parameter that is stated twice,
            a line of more than `LONGEST` characters, or no text.
    """
    if not isinstance(text, str):
        raise InvalidValue(f"line = {brief(text)}: give a question as a text")
    if len(text) > LONGEST:
        raise InvalidValue(f"the line has {len(text):,} characters: give at most {LONGEST:,}")
    found = usual(words(text))
    named = joined(found) if joined(found) in ASKED else ""
    stated, unread = _stated(found[1:] if named else found)
    values = stated.values()
    if stated.any_system and "system" not in values:
        values |= {"system": SHORTLIST}
        stated.notes.append(SHORTLIST_NOTE)
        stated.devices = stated.devices or (1, MOST_OF_SHORTLIST)
    verb = named or suggested(values, stated.searches, stated.verb)
    given = device_words.with_devices(values, stated.devices, verb)
    ordered = {name: given[name] for name in PARAMETERS if name in given}
    return Line(
        text, verb, ordered, tuple(dict.fromkeys(stated.notes)), tuple(unread), stated.asks_users
    )


def _stated(rest: Sequence[str]) -> tuple[Stated, list[Unread]]:
    """The content of words, read from the left, and the words that are not understood."""
    stated, unread = Stated(), list[Unread]()
    while rest:
        taken = next((count for rule in _RULES if (count := rule(rest, stated))), 0)
        if not taken:
            taken, word = not_understood(rest)
            unread.append(word)
        rest = rest[taken:]
    return stated, unread

"""The verb of a line: the one at its beginning, otherwise the one that its values need."""

from collections.abc import Collection, Mapping

from app.question.question import LOADS
from app.question.verbs import LEFT_OUT

#: Verbs of a line, in the order in which they are tried if it names none.
ASKED = ("serve", "simulate", "estimate", "plan", "sensitivity", "economics")
#: Words that ask for another answer than the speed of a deployment.
WORDS: Mapping[str, str] = dict.fromkeys(("monthly", "month", "tco"), "economics")
_OF_A_SEARCH = frozenset(
    ("target", "devices", "pools", "cross_systems", "rank", "confidence", "top", "break_even")
)


def suggested(given: Collection[str], searches: bool, asked: str = "") -> str:
    """The verb that fits the stated parameters.

    given: names of parameters.  searches: whether the line leaves something to choose.
    asked: the verb of `WORDS`, for a line that leaves nothing to choose.
    """
    stated = set(given)
    if (searches or stated & _OF_A_SEARCH) and "batch" not in stated:
        return "plan"
    if asked:
        return asked
    if not stated & set(LOADS[1:]):
        return "estimate"
    fitting = (verb for verb in ("serve", "simulate") if not stated & set(LEFT_OUT[verb]))
    return next(fitting, "serve")

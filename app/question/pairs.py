"""A question typed as pairs: "system=h100 concurrency=64 target='tpot < 20ms'"."""

import shlex

from genz_core.errors import InvalidValue


def pairs(text: str) -> dict[str, str]:
    """The values by name.

    Raises:
        InvalidValue: a word that is not a pair, a repeated name, or unclosed quotes.
    """
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise InvalidValue(f"{text[:60]!r} cannot be split: {error}") from None
    found: dict[str, str] = {}
    for word in words:
        name, sign, value = word.partition("=")
        if not sign or not name or not value:
            raise InvalidValue(f"{word[:60]!r}: give name=value, such as system=h100")
        name = name.strip("-").replace("-", "_")
        if name in found:
            raise InvalidValue(f"{name} is given twice: give it once")
        found[name] = value
    return found

"""The forms in which a value of a parameter may be given to a verb.

Bodies of the API, types of `import ridgeline` and the reference page are made of them.
"""

from typing import Literal

from app.question.parameter import Parameter
from app.question.verbs import VERBS

#: text: a name or a typed number.  numbers, texts: lists.  range: {"from": 1, "to": 8, "step": 1}.
#: rows: [rows, 2] of prompt and answer tokens.  prices: US dollars by system.
Form = Literal["number", "numbers", "range", "truth", "text", "texts", "rows", "prices"]


def takes_many(one: Parameter, verb: str) -> bool:
    """Whether a verb takes several values of a parameter at once."""
    return one.name in VERBS[verb].several or (one.array and VERBS[verb].arrays)


def forms_of(one: Parameter, verb: str = "") -> tuple[Form, ...]:
    """The forms of a value, the most usual first.

    verb: that takes it; "" for a single value.
    """
    many = bool(verb) and takes_many(one, verb)
    if one.kind == "truth":
        return ("truth",)
    if one.numeric:
        lists: tuple[Form, ...] = ("numbers", "range") if many else ()
        return ("number", *lists, "text")
    if one.names == "lengths":
        return ("rows",)
    texts = many or (one.kind == "list" and "numbers" not in one.also)
    several: tuple[Form, ...] = ("texts",) if texts else ()
    return ("text", *several, *one.also)  # type: ignore[arg-type]  # declared with these words

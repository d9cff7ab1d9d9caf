"""The parsed content of a line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from app.line.unread import NotUnderstood, Unread
from app.question.question import Question
from app.question.verbs import VERBS


@dataclass(frozen=True, slots=True)
class Line:
    """The parsed content of a line.

    given: values by parameter, several of one as a tuple if the verb chooses among them.
    verb: the one that it asks for.  asks_users: whether it asks for the largest number of users.
    notes: sentences on the interpretation of names.  unread: the
    words that were not understood.
    """

    text: str
    verb: str = "estimate"
    given: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    unread: tuple[Unread, ...] = ()
    asks_users: bool = False

    def understood(self, *, alone: bool = False) -> Line:
        """This line.  alone: whether no form beside it names the model.

        Raises:
            NotUnderstood: a part of it is not understood.
        """
        if self.unread:
            named = "model" in self.given or any(word.fits for word in self.unread)
            besides = "no known model is named" if alone and not named else ""
            raise NotUnderstood(self.unread, besides)
        return self

    @property
    def several(self) -> Mapping[str, tuple[Any, ...]]:
        """Values to choose among, by parameter."""
        among = VERBS["plan"].several
        return {
            name: value
            for name, value in self.given.items()
            if name in among and isinstance(value, tuple)
        }

    @property
    def question(self) -> Question:
        """The question, with the first of several values.

        Raises:
            InvalidValue: an invalid value.
        """
        first = {name: values[0] for name, values in self.several.items()}
        return Question(**{**self.given, **first})

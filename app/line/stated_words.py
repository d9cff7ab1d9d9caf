"""The content of a line's words, collected as they are read."""

from dataclasses import dataclass, field
from typing import Any

from app.line.names import Named
from app.question import literals
from app.question.parameter import Parameter
from app.question.parameters import PARAMETERS
from app.question.query import read
from app.question.question import LOADS, STANDARD
from app.question.verbs import VERBS
from genz_core.errors import InvalidValue


@dataclass(slots=True)
class Stated:
    """The content of the words read so far.

    given: values by parameter, several of one as a tuple.  usual: those of a usual load, which
    `given` overrides.  devices: their least and greatest number, None if not stated.
    searches: whether the verb has to choose among values.  notes: how ambiguous names were
    interpreted.  speed: output tokens/s of all users together, None if not stated.
    any_system: whether the best of usual systems is wanted.  asks_users: whether the largest number
    of users is.  verb: the one that a word of `app.line.verb.WORDS` asks for, "" for none.
    """

    given: dict[str, Any] = field(default_factory=dict)
    usual: dict[str, Any] = field(default_factory=dict)
    devices: tuple[int, int] | None = None
    searches: bool = False
    notes: list[str] = field(default_factory=list)
    speed: float | None = None
    any_system: bool = False
    asks_users: bool = False
    verb: str = ""

    def value(self, one: Parameter, text: str) -> Any:
        """A value of a parameter from its text, several of them as a tuple.

        Raises:
            InvalidValue: it is invalid.
        """
        if one.name in VERBS["plan"].several and "," in text:
            self.searches = True
            found = tuple(literals.values(one, text))
            return found if len(found) > 1 else found[0]
        return read(one, text)

    def say(self, name: str, value: Any) -> None:
        """Store the value of a parameter.

        Raises:
            InvalidValue: the parameter already has another and accepts only one.
        """
        if name not in self.given:
            self.given[name] = value
            return
        before = self.given[name]
        if name == "target":
            self.given[name] = (*before, *value)
        elif name in VERBS["plan"].several:
            both = tuple(dict.fromkeys((*_each(before), *_each(value))))
            self.given[name] = both if len(both) > 1 else both[0]
            self.searches = self.searches or len(both) > 1
        elif before != value:
            raise InvalidValue(
                f"{name} is given twice, {literals.text(before)} and {literals.text(value)}: "
                "give it once"
            )

    def say_text(self, name: str, text: str) -> None:
        """Store the value of a parameter from its text.

        Raises:
            InvalidValue: as `value` and `say`.
        """
        self.say(name, self.value(PARAMETERS[name], text))

    def say_named(self, found: Named) -> None:
        """Store the meaning of some words.

        Raises:
            InvalidValue: the line names another model, or another version of the engine.
        """
        for name, value in found.given.items():
            if name in ("model", "engine_version") and self.given.get(name, value) != value:
                raise InvalidValue(
                    f"{self.given[name]} and {value}: a line has only one {name.replace('_', ' ')}"
                )
            self.say(name, value)
        if found.note:
            self.notes.append(found.note)

    def say_devices(self, least: int, most: int) -> None:
        """Store the number of devices.

        Raises:
            InvalidValue: the line has another.
        """
        if self.devices not in (None, (least, most)):
            raise InvalidValue("the number of devices is given twice: give it once")
        self.devices = (least, most)
        self.searches = self.searches or least != most

    def say_speed(self, tokens_per_s: float) -> None:
        """Store the output tokens/s of all users together.

        Raises:
            InvalidValue: the line has another.
        """
        if self.speed not in (None, tokens_per_s):
            raise InvalidValue("tokens per time of all users are given twice: give them once")
        self.speed = tokens_per_s
        self.searches = True

    def values(self) -> dict[str, Any]:
        """All values by parameter; a usual load loses its number of users if the line has another
        load.  A speed of all users together is a target beside a load, otherwise the load: the
        requests/s that need it.
        """
        loaded = set(LOADS) & set(self.given)
        usual = {name: v for name, v in self.usual.items() if not (loaded and name in LOADS)}
        values = {**usual, **self.given}
        if self.speed is None:
            return values
        if set(LOADS) & set(values):
            wanted = f"output_tokens_per_s > {self.speed:.6g}"
            return {**values, "target": (*values.get("target", ()), wanted)}
        return {**values, "rate": self.speed / values.get("osl", STANDARD.osl)}


def _each(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)

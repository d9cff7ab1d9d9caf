"""One parameter of a question: its declaration, and the check of a value against it."""

import math
from collections.abc import Mapping
from dataclasses import Field, dataclass, field
from typing import Any, Literal

from genz_core.errors import InvalidValue
from genz_core.limits import LIMITS, brief

Kind = Literal["whole", "number", "truth", "text", "list"]
_KEY = "parameter"
_OPEN = 1e-8  # distance of a limit from the whole number that it must stay below


@dataclass(frozen=True, slots=True)
class Parameter:
    """The declaration of a parameter.

    name: of the keyword, column, link key, body field; `--name-with-hyphens` on the command line.
    kind: "whole" or "number" (numbers), "truth", "text", or "list" (several texts or numbers).
    default: the value if none is given; None where absence has a meaning of its own.
    help: one sentence for every interface.  label: on a form.  unit: of a number.
    least, most: limits of a number, both allowed.  above: the number must be larger than `least`.
    choices: texts that are allowed; () for any.  "yes" and "no" may also be a truth.
    array: takes one value per configuration in `estimate`, `serve` and `sweep`.
    names: what the texts refer to: "model", "system", "engine", "trace" or "lengths" (which may
    also be given as an object or, if the caller may open files, as a file), "" for plain text.
    also: further forms of a value, beside the kind's own, see `app.question.forms`.
    aliases: other names that mean the same: the engines' own flags, and names of earlier releases.
    group: heading under which forms, help texts and the reference page show it; by default the
    name of its part of the question.
    """

    name: str
    kind: Kind
    default: Any
    help: str
    label: str = ""
    unit: str = ""
    least: float = 0
    most: float = math.inf
    above: bool = False
    choices: tuple[str, ...] = ()
    array: bool = False
    names: str = ""
    also: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    group: str = ""

    @property
    def option(self) -> str:
        """The option of the command line: "--max-num-seqs"."""
        return f"--{self.name.replace('_', '-')}"

    @property
    def title(self) -> str:
        """The label on a form: as declared, else the name in words, without its unit."""
        if self.label:
            return self.label
        return self.name.removesuffix(f"_{self.unit}").replace("_", " ").capitalize()

    @property
    def numeric(self) -> bool:
        return self.kind in ("whole", "number")

    def checked(self, value: Any) -> Any:
        """A value in the type of this parameter.

        Raises:
            InvalidValue: a value of another type, outside the limits or not among the choices.
        """
        if value is None and self.default is None:
            return None
        if self.numeric:
            return self._number(value)
        if self.kind == "truth":
            if not isinstance(value, bool):
                raise InvalidValue(f"{self.name} = {brief(value)}: give true or false")
            return value
        if self.kind == "list":
            return self._list(value)
        if self.kind == "text" and self.choices:
            return self._choice(value)
        if self.kind == "text" and not (isinstance(value, str) or self.names):
            return self._other(value)
        return value

    def _list(self, value: Any) -> tuple[str, ...]:
        """Several texts, from a list or separated by commas; numbers are converted to text.

        A list of numbers may also be a single number, and may be separated by spaces.
        """
        if "numbers" in self.also:
            alone = isinstance(value, (int, float)) and not isinstance(value, bool)
            value = [value] if alone else value
            value = value.replace(" ", ",") if isinstance(value, str) else value
        if isinstance(value, str):
            value = [part.strip() for part in value.split(",") if part.strip()]
        try:
            texts = tuple(each if isinstance(each, str) else f"{each:.15g}" for each in value)
        except (TypeError, ValueError):
            raise InvalidValue(f"{self.name} = {brief(value)}: give a list of texts") from None
        return tuple(dict.fromkeys(map(self._choice, texts))) if self.choices else texts

    def _other(self, value: Any) -> Any:
        """The value to use for a text; a number becomes its text, so that both give the same
        question.
        """
        if self.also and not isinstance(value, (bool, int, float)):
            return value
        if isinstance(value, bool) or "number" not in self.also:
            raise InvalidValue(f"{self.name} = {brief(value)}: give a text")
        return f"{value:.15g}"

    def _number(self, value: Any) -> float:
        try:
            number = math.nan if isinstance(value, bool) else float(value)
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        low = number > self.least if self.above else number >= self.least
        whole = self.kind == "number" or number.is_integer()
        if not (math.isfinite(number) and low and number <= self.most and whole):
            raise InvalidValue(self._sentence(value))
        return int(number) if self.kind == "whole" else number

    def _sentence(self, value: Any) -> str:
        kind = "a whole number" if self.kind == "whole" else "a number"
        limit = LIMITS.get(self.name)
        if limit and self.kind == "whole" and limit.least == self.least:
            return limit.sentence(self.name, value)
        start = f"above {self.least:,g}" if self.above else f"from {self.least:,g}"
        end = "" if math.isinf(self.most) else f" to {self.most:,.15g}"
        if 0.0 < round(self.most + _OPEN) - self.most <= _OPEN:
            end = f" to below {round(self.most):,}"
        return f"{self.name} = {brief(value)}: give {kind} {start}{end}"

    def _choice(self, value: Any) -> str:
        word = str(value).casefold().replace("-", "_")
        known = {choice.casefold().replace("-", "_"): choice for choice in self.choices}
        if "" in known:
            known.setdefault("none", "")
        if "truth" in self.also:
            known |= {"true": "yes", "false": "no"}
        if word not in known:
            allowed = ", ".join(choice or '""' for choice in self.choices if choice)
            raise InvalidValue(f"{self.name} = {brief(value)}: choose {allowed}")
        return known[word]


def parameter(
    kind: Kind, default: Any, help_: str, *, limit: str = "", optional: bool = False, **more: Any
) -> Any:
    """A field of a part of the question, which declares a parameter.

    limit: key of `genz_core.limits.LIMITS` with its range.  optional: 0 is also allowed and means
    the engine's default.  more: the other fields of `Parameter`.
    """
    if limit:
        more = {"least": 0 if optional else LIMITS[limit].least, "most": LIMITS[limit].most, **more}
    declared = {"kind": kind, "default": default, "help": help_, **more}
    return field(default=default, metadata={_KEY: declared})


def declared(entry: Field[Any], group: str) -> Parameter:
    """The parameter that a field of a part of the question declares."""
    facts: Mapping[str, Any] = entry.metadata[_KEY]
    return Parameter(name=entry.name, **{"group": group, **facts})

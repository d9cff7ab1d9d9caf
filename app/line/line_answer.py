"""The answer to a line: how it was understood, and the result of its verb."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from app.line.largest_load import with_largest_load
from app.line.line import Line
from app.line.line_parser import read
from app.line.sentence import left_open, sentence, words
from app.question import literals
from app.question.extras import extras_of
from app.question.query import Query, Sources, ask
from app.question.question import LOADS
from genz_core.errors import InvalidValue
from genz_core.limits import brief

if TYPE_CHECKING:
    from genz_core.validity import OnError

#: The function of each verb, imported when it is needed.
FUNCTIONS: Mapping[str, str] = {
    "estimate": "app.scenario.results:estimate", "serve": "app.scenario.results:serve",
    "simulate": "app.simulation.result:simulate", "plan": "app.planning.result:plan",
    "sensitivity": "app.decide.sensitivity_rows:document",
    "economics": "app.decide.economics:economics",
}  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Answered:
    """A line with its answer.

    line: as parsed.  asked: the question for the verb.  answer: the result of the verb: the return
    value of the function of `import ridgeline` with that name, or a document for other verbs.
    """

    line: Line
    query: Query
    answer: Any

    @property
    def verb(self) -> str:
        """The verb of the line: "serve", "plan" ..."""
        return self.line.verb

    @property
    def understood(self) -> str:
        """The question as a sentence."""
        return said(self.line)

    def to_dict(self) -> dict[str, Any]:
        """What was understood, and the answer as the verb's `--json` prints it."""
        return document(self.line, document_of(self.verb, self.answer))

    def __repr__(self) -> str:
        return f"{self.understood}\n{self.answer!r}"


def answer(text: str, sources: Sources = dict, *, on_error: OnError = "raise") -> Answered:
    """Read a line and compute its answer.

    Args:
        text: the line.
        sources: as of `app.question.query.ask`.
        on_error: what `estimate` and `serve` do with configurations that cannot run.

    Raises:
        RidgelineError: a part of the line is not understood, or the verb refuses it.
    """
    line = readable(text, sources)
    query = ask(line.verb, line.given, sources)
    more = {"on_error": on_error} if "on_error" in extras_of(line.verb) else {}
    return Answered(line, query, resolve_name(FUNCTIONS[line.verb])(query, **more))


def document_of(verb: str, answer: Any) -> Any:
    """The result of a verb's function, as the verb's `--json` prints it."""
    if verb in ("estimate", "serve"):
        return {"rows": answer.rows}
    return answer if isinstance(answer, Mapping) else answer.to_dict()


def readable(text: str, sources: Sources = dict) -> Line:
    """The parsed line, if it can be answered: with the largest number of users if it asks for that;
    otherwise a plan without a load is of one user.

    Raises:
        InvalidValue: a part of it is not understood, or it names no model.
    """
    line = read(text).understood(alone=True)
    if "model" not in line.given:
        raise InvalidValue(f"the line {brief(text)} needs a model: name one in it")
    line = with_largest_load(line, sources)
    if line.verb == "plan" and not set(LOADS) & set(line.given):
        return replace(
            line,
            given={**line.given, "concurrency": 1},
            notes=(*line.notes, "no load is stated, so one user is taken: say 64 users or 20/s"),
        )
    return line


def said(line: Line) -> str:
    """How a line was understood, as a sentence."""
    searched = left_open(line.verb, line.given)
    return words(sentence(line.question, line.verb, line.several, searched))


def document(line: Line, answered: Any) -> dict[str, Any]:
    """A line and its answer: line, verb, understood, given, notes, answer."""
    return {
        "line": line.text, "verb": line.verb, "understood": said(line), "given": listed(line),
        "notes": list(line.notes), "answer": answered,
    }  # fmt: skip


def listed(line: Line) -> dict[str, Any]:
    """The values that a line gives, several of one parameter as a list."""
    return {n: list(v) if isinstance(v, tuple) else v for n, v in line.given.items()}


def command(line: Line) -> list[str]:
    """The command with options for the same question."""
    given = {name: value for name, value in line.given.items() if name != "model"}
    options = []
    for name, value in given.items():
        option = f"--{name.replace('_', '-')}"
        if isinstance(value, bool):
            options.append(option if value else f"--no-{option[2:]}")
        else:
            options += [option, literals.text(value)]
    return ["ridgeline", line.verb, str(line.given.get("model", "")), *options]

"""One row of a points file: its cells as a question, or a sentence on what is wrong."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from app.question import literals
from app.question.parameters import ALIASES, PARAMETERS
from app.question.query import Query, Sources, ask
from app.question.question import Question
from app.question.validity import meaningless
from app.question.verbs import VERBS, parameters_of
from genz_core.errors import InvalidParallelism, InvalidValue

#: Kinds of load; a row has exactly one.
LOADS = VERBS["estimate"].loads
#: Parameters that are one number per row; rows that differ only in these are priced together.
NUMBERS = tuple(name for name, one in parameters_of("estimate").items() if one.array)
#: Parameters whose empty cell is not NaN.
_OPTIONAL = tuple(name for name in NUMBERS if PARAMETERS[name].default is None)
_MTP_TOKENS = replace(PARAMETERS["draft_tokens"], name="mtp_tokens")
#: Columns of a points file. mtp_tokens: tokens drafted per step by the model's own module, 0 for
#: none.
KNOWN = ("id", "mtp_tokens", *parameters_of("estimate"))


@dataclass(frozen=True, slots=True)
class Point:
    """One parsed row.

    asked: its question without its numbers, shared by rows that are priced together.
    numbers: those that its cells state, by parameter.
    """

    id: str
    query: Query
    numbers: Mapping[str, float]

    @property
    def load(self) -> str:
        """The column that holds the load."""
        return next(name for name in LOADS if name in self.numbers)

    @property
    def question(self) -> Question:
        """The question of this row."""
        numbers: dict[str, Any] = dict(self.numbers)
        return replace(self.query.question, **numbers)

    @property
    def group(self) -> tuple[object, ...]:
        """A key that is equal for rows that can be priced in one array call."""
        return self.query.question, tuple(name for name in _OPTIONAL if name in self.numbers)


def parse(row: Mapping[str, str], default_id: str = "", sources: Sources = dict) -> Point:
    """Parse one row.

    Raises:
        InvalidValue: an invalid cell, no model or system, or not exactly one load.
        InvalidParallelism: moe_tp * ep is not tp * dp.
    """
    cells = {ALIASES.get(name, name): text for name, text in row.items() if text}
    for name in ("model", "system"):
        if name not in cells:
            raise InvalidValue(f"the {name} is empty; name one")
    given = [name for name in LOADS if name in cells]
    if len(given) != 1:
        has = " and ".join(given) or "none"
        raise InvalidValue(f"give exactly one of batch, concurrency and rate; this row has {has}")
    numbers = {name: _number(name, cells[name]) for name in NUMBERS if name in cells}
    numbers |= _experts(numbers)
    shared = {name: cells[name] for name in parameters_of("estimate") if name in cells}
    texts = {name: text for name, text in shared.items() if name not in numbers}
    if drafted := literals.value(_MTP_TOKENS, cells.get("mtp_tokens", "0")):
        texts |= {"speculation": "mtp", "draft_tokens": str(drafted)}
    query = _asked(given[0], tuple(texts.items()), sources)
    return Point(row.get("id") or default_id, query, numbers)


@lru_cache(maxsize=4096)
def _asked(load: str, texts: tuple[tuple[str, str], ...], sources: Sources) -> Query:
    return ask("estimate", {**dict(texts), load: 1}, sources, strict=False)


@lru_cache(maxsize=65_536)
def _number(name: str, text: str) -> float:
    return literals.value(PARAMETERS[name], text)


def notes(point: Point) -> tuple[str, ...]:
    """Parameters of a row that have no meaning for its load, in words."""
    return tuple(meaningless(point.question))


def unknown_columns(header: Iterable[str], known: Sequence[str] = KNOWN) -> list[str]:
    """A sentence for every column that is neither known nor a measured figure."""
    sentences = []
    for name in header:
        if name in known or name in ALIASES or not name or name.startswith("measured_"):
            continue
        hint = literals.did_you_mean(literals.near(name, known), known)
        sentences.append(f"column {name!r} is unknown and was ignored: {hint}")
    return sentences


def _experts(numbers: Mapping[str, Any]) -> dict[str, float]:
    """`ep` of a row that states only `moe_tp`."""
    if "moe_tp" not in numbers:
        return {}
    ranks, moe_tp = numbers.get("tp", 1) * numbers.get("dp", 1), numbers["moe_tp"]
    if "ep" not in numbers:
        if ranks % moe_tp:
            raise InvalidParallelism(f"moe_tp={moe_tp} does not divide tp x dp = {ranks}")
        return {"ep": ranks // moe_tp}
    if numbers["ep"] * moe_tp != ranks:
        raise InvalidParallelism(
            f"moe_tp x ep = {moe_tp} x {numbers['ep']} must equal tp x dp = {ranks}; leave moe_tp "
            "empty"
        )
    return {}

"""A caller's keywords, converted to a question and the arrays for it."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from app.question import literals
from app.question.objects import refuse_other_objects
from app.question.parameter import Parameter
from app.question.parameters import ALIASES, PARAMETERS
from app.question.question import LOADS, Question
from app.question.validity import refuse_contradictions, refuse_meaningless
from app.question.verbs import LEFT_OUT, VERBS, parameters_of, refusal
from genz_core.errors import InvalidValue
from genz_core.limits import brief
from genz_core.types import Array

#: Function that resolves the text of a model or a system: names only, or also files of this
#: machine.
Sources = Callable[[Mapping[str, Any]], dict[str, Any]]
_RANKS = ("tp", "dp", "moe_tp")
_OBJECTS = tuple(one.name for one in PARAMETERS.values() if one.names)


class UnknownParameter(InvalidValue):
    """An unknown parameter.  near: names that may be meant."""

    code = "unknown_parameter"

    def __init__(self, name: str, known: Iterable[str]) -> None:
        known = tuple(known)
        self.near = literals.near(name.replace("-", "_"), (*known, *ALIASES))
        super().__init__(
            f"{name[:60]!r} is not a parameter: {literals.did_you_mean(self.near, known)}"
        )


@dataclass(frozen=True, slots=True)
class Query:
    """A question in the form that a verb takes.

    arrays: arrays that replace the question's values, one element per configuration, of equal
    length.
    several: values to choose among, by parameter.  given: names that the caller gave.
    objects: models, systems and engines given as objects or files instead of names.
    """

    verb: str
    question: Question
    arrays: Mapping[str, Array] = field(default_factory=dict)
    several: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    given: frozenset[str] = frozenset()
    objects: Mapping[str, Any] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Number of configurations."""
        return len(next(iter(self.arrays.values()))) if self.arrays else 1

    def named(self, name: str) -> Any:
        """A model, system or engine: the object if one was given, otherwise the name."""
        return self.objects.get(name, getattr(self.question, name))


def ask(
    verb: str, given: Mapping[str, Any], sources: Sources = dict, *, strict: bool = True
) -> Query:
    """The question for a verb, from a caller's keywords.

    Args:
        given: values by parameter or other name; None stands for "not given".  Numbers may be
            texts; lists and arrays hold one value per configuration.
        sources: function that resolves models and systems; by default texts open no file.
        strict: refuse a parameter without meaning for the load; otherwise the caller reports it
            with `validity.meaningless`.

    Raises:
        InvalidValue: an unknown name or one without meaning for the verb, an impossible value, not
            exactly one load, or arrays of unequal lengths.
    """
    known = parameters_of(verb)
    values = canonical(verb, given)
    if VERBS[verb].names_model and not values.get("model"):
        raise InvalidValue(f"{verb} needs a model: name one")
    loads: list[str] = [name for name in LOADS if name in values]
    _check_loads(verb, loads)
    values = _opened(verb, values, sources)
    objects = _objects(values)
    scalars: dict[str, Any] = {}
    arrays: dict[str, Array] = {}
    several: dict[str, tuple[Any, ...]] = {}
    for name, value in values.items():
        one = known[name]
        if name in objects:
            scalars[name] = _name_of(objects[name])
        elif name in VERBS[verb].several and _is_many(value):
            several[name] = _many(one, value)
        elif one.array and VERBS[verb].arrays and _is_many(value):
            arrays[name] = np.array(_many(one, value), dtype=float)
        else:
            scalars[name] = read(one, value)
    # the lists of a sweep are axes
    if verb != "sweep" and len({len(each) for each in arrays.values()}) > 1:
        shapes = ", ".join(f"{name} {len(arrays[name])}" for name in PARAMETERS if name in arrays)
        raise InvalidValue(
            f"arrays must have equal lengths, one value per configuration; these have {shapes}. "
            "A sweep crosses them: ridgeline sweep"
        )
    if "moe_tp" in values and ("tp" in VERBS[verb].several or set(_RANKS) & set(arrays)):
        scalars.setdefault("ep", 1)  # experts of every shape are distributed separately
    question = Question(**scalars)
    if loads and loads[0] in arrays:  # so that the question knows its kind of load
        question = replace(question, **{loads[0]: arrays[loads[0]][0]})
    # one of the methods stands for all, so that parameters of drafts are allowed
    methods = several.get("speculation", ())
    drafts = "draft_model" if "draft_model" in methods else next(filter(None, methods), "")
    refuse_contradictions(replace(question, speculation=drafts) if drafts else question)
    if strict and not VERBS[verb].measured:  # a verb whose load comes from the measurement
        refuse_meaningless(question, verb, arrays)
    query = Query(verb, question, arrays, several, frozenset(values), objects)
    return query if verb == "sweep" else replace(query, arrays=with_experts(arrays, query))


def with_experts(arrays: Mapping[str, Array], query: Query) -> dict[str, Array]:
    """Arrays with `ep` of every configuration where only `moe_tp` was given."""
    if "ep" in query.given or "moe_tp" not in query.given or not set(_RANKS) & set(arrays):
        return dict(arrays)
    tp, dp, moe_tp = (arrays.get(name, getattr(query.question, name)) for name in _RANKS)
    # a remainder gets its reason code later
    spread = np.ceil(np.asarray(tp * dp / moe_tp, dtype=float))
    return {**arrays, "ep": spread}


def canonical(verb: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The given values under the parameters' own names, without missing ones.

    Raises:
        InvalidValue: an unknown name or one without meaning for the verb, or two names of one
            parameter.
    """
    values: dict[str, Any] = {}
    typed: dict[str, str] = {}
    for typed_name, value in given.items():
        if value is None:
            continue
        name = typed_name.replace("-", "_")
        name = ALIASES.get(name, name)
        if name not in PARAMETERS:
            raise UnknownParameter(typed_name, parameters_of(verb))
        if name in LEFT_OUT[verb]:
            raise InvalidValue(refusal(verb, name))
        if name in values:
            other = typed_name if typed[name] == name else typed[name]
            raise InvalidValue(f"{name} is given twice, once as {other}: give it once")
        values[name], typed[name] = value, typed_name
    return values


def read(one: Parameter, value: Any) -> Any:
    """A single value of a parameter, parsed if it is text.

    Raises:
        InvalidValue: an impossible value.
    """
    if isinstance(value, str) and one.kind not in ("text",):
        return literals.value(one, value)
    if isinstance(value, (np.generic, np.ndarray)) and not np.ndim(value):
        value = value.item()
    if np.ndim(value) and (one.numeric or one.names in ("model", "system", "engine")):
        what = "number" if one.numeric else "name"
        raise InvalidValue(f"{one.name} = {brief(value)}: give one {what}")
    if one.names and value is not None:
        refuse_other_objects(one, value)
    return one.checked(value)


def _opened(verb: str, values: Mapping[str, Any], sources: Sources) -> dict[str, Any]:
    """The values with their names resolved; of several names, each separately."""
    opened = dict(values)
    for name in ("system",) if "system" in VERBS[verb].several and "system" in values else ():
        value = values[name]
        many = literals.words(value) if isinstance(value, str) and "," in value else value
        if _is_list(many):
            opened[name] = tuple(sources({name: each})[name] for each in many)
    single = {name: value for name, value in opened.items() if not _is_list(value)}
    return opened | sources(single)


def _check_loads(verb: str, given: list[str]) -> None:
    allowed = VERBS[verb].loads
    wrong = [name for name in given if name not in allowed]
    if wrong:
        raise InvalidValue(f"{wrong[0]} is not a load for {verb}: give {' or '.join(allowed)}")
    if len(given) > 1 or not (given or VERBS[verb].default_load):
        one = f"give one of {', '.join(allowed[:-1])} or {allowed[-1]}"
        raise InvalidValue(
            f"{one}, not {' and '.join(given)}" if given else f"no load is given: {one}"
        )


def _objects(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values given as objects instead of names; a list may be rows of lengths.

    Raises:
        InvalidValue: an object in place of a name that stands for none.
    """
    objects = {
        name: values[name]
        for name in _OBJECTS
        if name in values
        and not isinstance(values[name], str)
        and (name == "lengths" or not _is_list(values[name]))
    }
    for name, value in objects.items():
        refuse_other_objects(PARAMETERS[name], value)
    return objects


def _name_of(value: Any) -> str:
    """The name of an object in a question."""
    if isinstance(value, Path):
        return str(value)
    return str(getattr(value, "slug", "") or getattr(value, "name", "") or "given")


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple))


def _is_many(value: Any) -> bool:
    if isinstance(value, str):
        return "," in value or ":" in value
    return _is_list(value) or isinstance(value, Mapping) or np.ndim(value) > 0


def _many(one: Parameter, value: Any) -> tuple[Any, ...]:
    if isinstance(value, str):
        return tuple(literals.values(one, value))
    if isinstance(value, Mapping):
        return tuple(literals.of_range(one, value))
    if not len(value) or any(_is_list(each) or np.ndim(each) for each in value):
        raise InvalidValue(f"{one.name} = {brief(value)}: give one value or a list of values")
    return tuple(read(one, each) for each in value)

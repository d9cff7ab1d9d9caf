"""Request bodies, made from the declarations: name, limits, default and help of each field.

They are made with pydantic's `create_model`, because annotated classes would repeat for each verb
the parameters declared in `app.question.parameters`.  A text is a name and never a path.  Bodies
check only the type and number of values; `app.question.query.ask` checks the values, with the
command line's error messages.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, reduce
from operator import or_
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    PlainValidator,
    PrivateAttr,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    TypeAdapter,
    ValidationError,
    WithJsonSchema,
    create_model,
    model_validator,
)
from pydantic_core import PydanticCustomError

from app.line.line_parser import LONGEST as LONGEST_LINE
from app.question import fleets
from app.question.extras import extras_of
from app.question.forms import Form, forms_of
from app.question.parameter import Parameter
from app.question.query import canonical
from app.question.verbs import VERBS, parameters_of

#: Limits: configurations of one estimate, characters of a name, and of a trace.
MOST_ROWS, LONGEST_NAME, LONGEST_TRACE = 1_000, 300, 8_000_000
#: Limits: rows of measured lengths, and devices or systems of one list.
MOST_LENGTHS, MOST_LISTED = 100_000, 64


class Body(BaseModel):
    """A question; unknown fields are refused.

    verb: that answers it.  extras: fields that are not parameters of the question.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    verb: ClassVar[str] = ""
    extras: ClassVar[frozenset[str]] = frozenset()
    _given: dict[str, Any] = PrivateAttr(default_factory=dict)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    @model_validator(mode="wrap")
    @classmethod
    def _by_name(cls, values: Any, made: ModelWrapValidatorHandler[Body]) -> Body:
        """Rename aliases to the parameters' own names, and record which were given."""
        if not isinstance(values, dict):
            return made(values)
        beside = {name: value for name, value in values.items() if name in cls.extras}
        asked = {name: value for name, value in values.items() if name not in cls.extras}
        named = canonical(cls.verb, asked)
        body = made({**named, **{n: value for n, value in beside.items() if value is not None}})
        body._given = {n: getattr(body, n) for n in cls.model_fields if n in named}
        return body

    @property
    def given(self) -> Mapping[str, Any]:
        """The given parameters of the question, in the order of declaration."""
        return self._given

    def __reduce__(self) -> Any:
        """For another process: the verb and what was given, as its class has no name to import."""
        return body_of, (self.verb, self.model_dump(exclude_unset=True))


# ------------------------------------------------------------------------------- kinds of values


def _list(each: Any, most: int, least: int = 1) -> Any:
    return Annotated[list[each], Field(min_length=least, max_length=most)]


_Number = StrictInt | StrictFloat
_Text = Annotated[StrictStr, Field(max_length=LONGEST_NAME)]
#: For each form of a value: its type, and its description.
_SHAPES: Mapping[Form, tuple[Any, str]] = {
    "number": (_Number, "a number"),
    "numbers": (_list(_Number | _Text, MOST_ROWS), f"a list of 1 to {MOST_ROWS:,}"),
    "range": (
        dict[Literal["from", "to", "step"], _Number | _Text],
        'a range {"from": 1, "to": 8, "step": 1}',
    ),
    "truth": (StrictBool, "true or false"),
    "text": (_Text, f"a text of at most {LONGEST_NAME} characters"),
    "texts": (_list(_Text, MOST_LISTED), f"a list of 1 to {MOST_LISTED} texts"),
    "rows": (
        _list(_list(_Number, 2, 2), MOST_LENGTHS),
        f"1 to {MOST_LENGTHS:,} rows of two numbers, prompt and answer",
    ),
    "prices": (
        Annotated[dict[str, _Number], Field(max_length=MOST_LISTED)],
        "US dollars by system",
    ),
}


@cache
def _checked(forms: tuple[Form, ...], longest: int) -> Callable[[Any], Any]:
    """A validator for these forms; it leaves the value unchanged."""
    types = [_SHAPES[form][0] for form in forms]
    types += [Annotated[StrictStr, Field(max_length=longest)]] if longest > LONGEST_NAME else []
    adapter: TypeAdapter[Any] = TypeAdapter(reduce(or_, types))
    words = ", or ".join(_SHAPES[form][1] for form in forms)

    def check(value: Any) -> Any:
        try:
            return adapter.validate_python(value)
        except ValidationError:
            raise PydanticCustomError("kind", "give {words}", {"words": words}) from None

    return check


def schema_of(one: Parameter, verb: str = "") -> dict[str, Any]:
    """The JSON schema of a parameter for a verb."""
    number: dict[str, Any] = {"type": "integer" if one.kind == "whole" else "number"}
    if one.numeric:
        number["exclusiveMinimum" if one.above else "minimum"] = one.least
        number["maximum"] = one.most
    text: dict[str, Any] = {"type": "string", "maxLength": LONGEST_NAME}
    if one.names == "trace":
        text["maxLength"] = LONGEST_TRACE
    elif one.choices:
        text["enum"] = list(one.choices)
    typed = {"type": ["number", "string"]}
    shapes: Mapping[Form, dict[str, Any]] = {
        "number": number,
        "numbers": _list_of(number, MOST_ROWS),
        "range": {
            "type": "object",
            "properties": dict.fromkeys(("from", "step", "to"), typed),
            "required": ["from", "to"],
            "additionalProperties": False,
        },
        "truth": {"type": "boolean"},
        "text": text,
        "texts": _list_of(text, MOST_LISTED),
        "rows": _list_of({**_list_of({"type": "number"}, 2), "minItems": 2}, MOST_LENGTHS),
        "prices": {"type": "object", "additionalProperties": {"type": "number", "minimum": 0}},
    }
    found = [shapes[form] for form in forms_of(one, verb)]
    found += [{"type": "null"}] if one.default is None else []
    return found[0] if len(found) == 1 else {"anyOf": found}


def _list_of(items: Mapping[str, Any], most: int) -> dict[str, Any]:
    return {"type": "array", "items": items, "minItems": 1, "maxItems": most}


# ------------------------------------------------------------------------------- bodies


def _field(one: Parameter, verb: str, default: Any) -> Any:
    """The annotation and the field of a parameter in a body."""
    forms: tuple[Form, ...] = ("text",) if one.names == "trace" else forms_of(one, verb)
    longest = LONGEST_TRACE if one.names == "trace" else LONGEST_NAME
    said = f"{one.help}{f' Unit: {one.unit}.' if one.unit else ''}"
    if one.aliases:
        said += f" Also: {', '.join(one.aliases)}."
    kind = Annotated[
        Any, PlainValidator(_checked(forms, longest)), WithJsonSchema(schema_of(one, verb))
    ]
    return kind, Field(default, description=said)


#: What each verb answers, for programs.
_ABOUT: Mapping[str, str] = {
    "estimate": "Latency, memory and cost of a static batch or a load, with intervals; lists give "
    "one configuration per element.",
    "serve": "TTFT, TPOT and throughput of a deployment under a load: give concurrency or rate; "
    "for a trace use simulate.",
    "simulate": "Percentiles of simulated requests, at a concurrency, at a rate or from a trace.  "
    "trace: its text, CSV or JSON lines.  lengths: rows of prompt and answer tokens.",
    "sweep": "All combinations of parameter values, given as lists or ranges.",
    "plan": "The best deployments for a load within targets, and how to launch them: concurrency, "
    'rate or a trace\'s text, target="tpot < 20ms", system=["h100"].',
    "sensitivity": "How TTFT, TPOT and throughput depend on each resource, and the hardware that "
    "targets need.",
    "economics": "Cost of tokens on rented and owned devices and against an API; energy and "
    "carbon.",
    "scale": "Replicas scaled by Kubernetes' HPA, KEDA or Dynamo's planner: cost and percentiles "
    "compared with a fixed number, with cold starts and losses.  A rate is that of the busiest "
    "hour of a day; a trace is served as recorded, or repeated over a day with `day`.",
    "availability": "How many replicas keep a share of requests within targets, with some lost.",
    "ops": "FLOPs and bytes of every operator of one step of a model, independent of hardware.",
    "routing": "The cost of uneven expert routing, from token counts per expert, and the gain from "
    "redundant experts.",
    "export": "A step of one static batch for network simulators: Chakra traces and the network.  "
    "MCP returns names, sizes and the network; for the traces use REST or the command line.",
    "tune": "The server setting to run next, given the runs so far: give lists of settings; with "
    "dry_run the whole search, with the simulator instead of a server.",
    "compare": "Compare profiler reports of one run, or benchmark results, with the prediction for "
    "that run; missing values are read from the files.",
    "guard": "Whether benchmark results are worse than predicted, or than a baseline; missing "
    "values are read from the results.",
    "watch": "When and why a server deviates from its prediction, from recordings of its metrics "
    "page; missing values are read from the pages.",
}
#: Fields of a verb's body that are not declared as parameters.
_OWN: Mapping[str, dict[str, Any]] = {
    "compare": {
        "steps": (
            dict[str, Any],
            Field(default_factory=dict, description="Number of steps in a summary, by phase."),
        ),
    },
    "routing": {
        "statistics": (
            Annotated[str, Field(max_length=LONGEST_TRACE)] | list[Any] | dict[str, Any],
            Field(
                description="Tokens routed to each expert: nested lists, [steps][layers][experts] "
                "or fewer levels, or the text of a CSV with layer_id, expert_id, count.",
            ),
        ),
    },
    "tune": {
        "measured": (
            list[dict[str, Any]],
            Field(
                default_factory=list,
                max_length=MOST_ROWS,
                description='Runs so far: {"setting": {...}, "figures": {...}}, or with "status": '
                '"failed" and "why".',
            ),
        ),
    },
}


def _made(verb: str) -> type[Body]:
    """The body of a verb."""
    beside, own = extras_of(verb, programs=True), _OWN.get(verb, {})
    needed = () if VERBS[verb].measured else ("model",)  # a file may name it
    fields = {
        name: _field(one, verb, ... if name in needed else one.default)
        for name, one in parameters_of(verb).items()
    }
    fields |= {name: _field(one, "", one.default) for name, one in beside.items()} | own
    name = f"{verb.capitalize()}Body"
    made = create_model(name, __base__=Body, __module__=__name__, __doc__=_ABOUT[verb], **fields)
    made.verb, made.extras = verb, frozenset((*beside, *own))
    return made


def _entries(known: Mapping[str, Parameter], verb: str, most: int, needed: str, about: str) -> Any:
    """The annotation and the field of a list of entries whose keys are declared."""
    entry = {
        "type": "object",
        "properties": {name: schema_of(one, verb) for name, one in known.items()},
        "required": [needed],
        "additionalProperties": False,
    }
    kind = Annotated[list[dict[str, Any]], WithJsonSchema(_list_of(entry, most))]
    return kind, Field(max_length=most, description=about)


class _Fleet(Body):
    """Which of several models runs on which machines, by priority.

    machines: each with a system, its devices, their count, and owned or a price.  models: questions
    of plan with a name and a priority.  question: what these share.
    """

    verb = "fleet"

    @model_validator(mode="wrap")
    @classmethod
    def _by_name(cls, values: Any, made: ModelWrapValidatorHandler[Self]) -> Self:
        """Accept the fleet's own keys only; the keys of its entries are checked when it is
        answered.
        """
        body = made(values)
        body._given = {n: getattr(body, n) for n in cls.model_fields if n in body.model_fields_set}
        return body

    @property
    def model(self) -> str:
        """The subject of the question, as text."""
        return f"{len(self.models)} models"


_OF_FLEET: Mapping[str, Any] = {
    **{name: _field(one, "", one.default) for name, one in fleets.FLEET.items()},
    "question": (
        dict[str, Any],
        Field(default_factory=dict, description="Parameters shared by all models."),
    ),
    "machines": _entries(fleets.MACHINE, "", fleets.MOST_KINDS, "system", "Kinds of machines."),
    "models": _entries(
        {**fleets.OF_MODEL, **fleets.of_question()}, "plan", fleets.MOST_MODELS, "model",
        "Models, each with the parameters of a plan and a priority.",
    ),
}  # fmt: skip
FleetBody = create_model(
    "FleetBody", __base__=_Fleet, __module__=__name__, __doc__=_Fleet.__doc__, **_OF_FLEET
)
_Entries = Annotated[
    list[dict[str, Any]] | None,
    Field(max_length=MOST_LISTED, description="Entries, each with a name and its differences."),
]


class StudyBody(BaseModel):
    """A technology study: every combination of chips, formats and techniques."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    title: Annotated[str, Field(max_length=LONGEST_NAME)] = "Technology study"
    question: Annotated[
        dict[str, Any],
        Field(description="Parameters shared by all combinations, as in /estimate."),
    ]
    chips: _Entries = None
    formats: _Entries = None
    techniques: _Entries = None


class LineBody(BaseModel):
    """A question as a typed line; returns how it was understood and the answer."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    line: Annotated[
        str,
        Field(
            min_length=1, max_length=LONGEST_LINE,
            description="Names, numbers with units and options in any order.",
        ),
    ]  # fmt: skip


#: Bodies of verbs that take only a body, and of verbs that also take files.
WITH_FILES: Mapping[str, type[Body]] = {verb: _made(verb) for verb in ("compare", "guard", "watch")}
ASKED: Mapping[str, type[Body]] = {
    **{verb: _made(verb) for verb in _ABOUT if verb not in WITH_FILES},
    "fleet": FleetBody,
}


def body_of(verb: str, given: Mapping[str, Any]) -> Body:
    """The body of a verb.  Raises `ValidationError` for what it does not accept."""
    return {**ASKED, **WITH_FILES}[verb].model_validate(given)

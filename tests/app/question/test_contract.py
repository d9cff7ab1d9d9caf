"""Every parameter at every interface has the same name, type, default, limits and help, or a
reason.

A cell is a parameter at an interface of a verb.  The last test prints how many are filled.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import re
from collections import Counter
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import ridgeline
import typer
from starlette.testclient import TestClient
from typer.testing import CliRunner

from app.api import bodies, verbs
from app.api.answers import Answers
from app.api.mcp_server import server
from app.api.rest import application
from app.cli import cli
from app.planning import sweep_axes
from app.question.extras import EXTRAS, extras_of
from app.question.forms import Form, forms_of, takes_many
from app.question.groups import CACHE, POOL
from app.question.parameter import Parameter
from app.question.parameters import ALIASES, PARAMETERS, in_group
from app.question.query import ask
from app.question.question import Question
from app.question.verbs import LEFT_OUT, REASONS, VERBS, parameters_of
from app.scenario import points_row
from app.scenario.setup import Setup, setup_from
from genz_core.errors import InvalidValue
from tests.app.question.samples import MODEL, REFUSED, another, beyond
from tests.rules import for_every

#: Verbs without a function or request body: they write a calibration, a file or counts.
COMMANDS_ALONE = ("calibrate", "predictor")
PROGRAMS = tuple(verb for verb in VERBS if verb not in COMMANDS_ALONE)
COMMAND = {"calibrate": ("calibrate", "runs")}
CELLS = [(verb, name) for verb in VERBS for name in parameters_of(verb)]
FILLED: Counter[str] = Counter()
#: Python's type for a JSON type.
KINDS = {"whole": "int", "number": "float", "truth": "bool", "text": "str", "list": "str"}
JSON_TYPES: Mapping[Form, str] = {
    "number": "number", "numbers": "array", "range": "object", "truth": "boolean",
    "text": "string", "texts": "array", "rows": "array", "prices": "object",
}  # fmt: skip


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_takes_every_parameter_or_leaves_it_out_for_a_reason(verb: str):
    left = LEFT_OUT[verb]
    assert set(parameters_of(verb)) | set(left) == set(PARAMETERS)
    assert not set(parameters_of(verb)) & set(left)
    assert set(left.values()) <= set(REASONS)
    for name, reason in left.items():
        words = (
            "is not modelled by"
            if reason == "not modelled"
            else "(does not apply to|is not a load for)"
        )
        with pytest.raises(InvalidValue, match=f"{name} {words} {verb}"):
            ask(verb, {name: another(PARAMETERS[name])})


def test_what_a_verb_does_not_model_is_told_from_what_means_nothing_to_it():
    reasons = {verb: LEFT_OUT[verb] for verb in ("scale", "availability")}
    for left in reasons.values():
        assert {left[name] for name in ("offload", "lora_rank", "prefill_workers", "sessions",
                                        "host_cache_gib")} == {"not modelled"}  # fmt: skip
        assert {left[name] for name in ("batch", "concurrency", "prefix_hits")} == {"physics"}
    assert LEFT_OUT["estimate"]["burstiness"] == "not modelled"
    assert LEFT_OUT["estimate"]["seed"] == LEFT_OUT["ops"]["burstiness"] == "physics"


def test_a_name_means_one_parameter():
    assert not set(ALIASES) & set(PARAMETERS)
    stated = [alias for one in PARAMETERS.values() for alias in one.aliases]
    assert len(stated) == len(set(stated))
    for one in PARAMETERS.values():
        assert one.help.endswith(".") and one.group, one.name
        assert one.checked(one.default) == one.default


# ------------------------------------------------------------------------------- Python


@cache
def signature(verb: str) -> inspect.Signature:
    return inspect.signature(getattr(ridgeline, verb))


@pytest.mark.parametrize("verb", PROGRAMS)
def test_a_function_of_python_has_the_parameters_of_its_verb(verb: str):
    arguments, document = signature(verb).parameters, getattr(ridgeline, verb).__doc__
    own = {"compare": {"reports", "steps"}, "guard": {"results", "baseline"}, "serve": {"trace"},
           "sweep": {"output"}, "economics": {"kept_runs"},
           "routing": {"statistics"}, "export": {"output"},
           "tune": {"server", "client", "folder", "measured"},
           "watch": {"source", "every", "seconds"}}  # fmt: skip
    extras = {one.name for one in EXTRAS.get(verb, ())}
    assert set(arguments) == {*parameters_of(verb), *extras, *own.get(verb, ())}
    for name, one in parameters_of(verb).items():
        argument = arguments[name]
        if name == "model":
            assert argument.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
            assert argument.default in (inspect.Parameter.empty, "")
        else:
            assert argument.kind is inspect.Parameter.KEYWORD_ONLY
            assert argument.default == one.default and type(argument.default) is type(one.default)
        assert KINDS[one.kind] in argument.annotation.split(" | ")
        assert ("None" in argument.annotation) == (one.default is None)
        assert ("Sequence" in argument.annotation) >= takes_many(one, verb)
        first = one.help.split(".")[0].split()
        assert " ".join(first[:3]) in " ".join(document.split()), name
        FILLED["Python"] += 1


# ------------------------------------------------------------------------------- REST and MCP


@cache
def rest_document() -> dict[str, Any]:
    with TestClient(application(answers=Answers())) as client:
        document: dict[str, Any] = client.get("/openapi.json").json()
    return document


def rest_fields(verb: str) -> dict[str, Any]:
    """The fields of a request body, from the OpenAPI document for verbs with a body."""
    if verb in bodies.WITH_FILES:
        schema = bodies.WITH_FILES[verb].model_json_schema()
    else:
        assert f"/{verb}" in rest_document()["paths"]
        schema = rest_document()["components"]["schemas"][f"{verb.capitalize()}Body"]
    assert schema["additionalProperties"] is False
    return dict(schema["properties"])


@cache
def tools() -> dict[str, Any]:
    async def listed() -> Any:
        from mcp import Client

        async with Client(server(Answers())) as client:
            return (await client.list_tools()).tools

    return {tool.name: tool.input_schema for tool in asyncio.run(listed())}


def check_field(one: Parameter, verb: str, field: Mapping[str, Any]) -> None:
    """Type, default, limits, choices and help of a field in a JSON schema."""
    shapes = field.get("anyOf", [field])
    found = {shape["type"] for shape in shapes}
    wanted = {JSON_TYPES[form] for form in forms_of(one, verb)}
    wanted |= {"null"} if one.default is None else set()
    wanted = {"integer" if kind == "number" and one.kind == "whole" else kind for kind in wanted}
    if one.names in ("trace", "lengths"):
        wanted = {{"trace": "string", "lengths": "array"}[one.names], "null"}
    assert found == wanted
    if one.name != "model":
        default = list(one.default) if isinstance(one.default, tuple) else one.default
        assert field.get("default") == default
    if one.numeric:
        number = next(shape for shape in shapes if shape["type"] in ("integer", "number"))
        assert number["exclusiveMinimum" if one.above else "minimum"] == one.least
        assert number["maximum"] == one.most
    if one.choices:
        text = next(shape for shape in shapes if shape["type"] == "string")
        assert text["enum"] == list(one.choices)
    assert field["description"].startswith(one.help)
    assert all(alias in field["description"] for alias in one.aliases)


@pytest.mark.parametrize("verb", PROGRAMS)
def test_a_body_of_rest_has_the_parameters_of_its_verb(verb: str):
    fields = rest_fields(verb)
    assert set(parameters_of(verb)) <= set(fields)
    for name, one in parameters_of(verb).items():
        check_field(one, verb, fields[name])
        FILLED["REST"] += 1


@pytest.mark.parametrize("verb", PROGRAMS)
def test_a_tool_of_assistants_has_the_parameters_of_its_verb(verb: str):
    schema = tools()[verb]
    assert schema["additionalProperties"] is False
    for name, one in parameters_of(verb).items():
        check_field(one, verb, schema["properties"][name])
        FILLED["MCP"] += 1


@for_every(ALIASES)
def test_another_name_is_understood_by_bodies_and_functions(alias: str):
    name = ALIASES[alias]
    verb = next(verb for verb in PROGRAMS if name in parameters_of(verb))
    value = another(PARAMETERS[name])
    value = list(value) if isinstance(value, tuple) else value
    kind = (bodies.ASKED | bodies.WITH_FILES)[verb]
    sent = {"model": MODEL} if name != "model" else {}
    assert dict(kind.model_validate({**sent, alias: value}).given) == {**sent, name: value}
    assert alias not in signature(verb).parameters, "one name in a signature"


# ------------------------------------------------------------------------------- command line


@cache
def command(verb: str) -> Any:
    found: Any = typer.main.get_command(cli)
    for word in COMMAND.get(verb, (verb,)):
        found = found.commands[word]
    return found


@pytest.mark.parametrize("verb", VERBS)
def test_a_command_has_the_parameters_of_its_verb(verb: str):
    params = command(verb).params
    options = {word: one for one in params for word in one.opts if word.startswith("--")}
    arguments = {one.name for one in params if one.param_type_name == "argument"}
    for name, one in parameters_of(verb).items():
        if name == "model" and name in arguments:
            FILLED["command line"] += 1
            continue
        assert one.option in options, f"{verb} has no {one.option}"
        option = options[one.option]
        assert (option.help or "").startswith(one.help)
        assert all(alias.replace("_", "-") in option.help for alias in one.aliases)
        if one.kind == "truth":
            assert f"--no-{one.option[2:]}" in option.secondary_opts
        assert option.default is None, "what is not typed is not given"
        FILLED["command line"] += 1


@pytest.mark.parametrize(
    ("verb", "own"),
    [("compare", {"fill", "level"}), ("guard", {"level", "tolerance"}), ("sweep", {"bounds_only"}),
     ("plan", {"deployment"}), ("estimate", set()), ("serve", set()),
     ("simulate", {"worth"})],
)  # fmt: skip
def test_a_command_declares_no_extra_of_its_verb_again(verb: str, own: set[str]):
    options = {one.name: one for one in command(verb).params}
    extras = extras_of(verb, programs=True)
    found = {name for name, one in extras.items()
             if name in options and (options[name].help or "").startswith(one.help)}  # fmt: skip
    assert found == own
    others = {name for name in extras if name in options} - own
    assert others == ({"phase"} if verb == "compare" else set()), "decode=REGEX, of range names"


# ------------------------------------------------------------------------------- files and links


def test_a_points_file_has_the_columns_of_estimate():
    assert set(points_row.KNOWN) == {*parameters_of("estimate"), "id", "mtp_tokens"}
    FILLED["points file"] += len(parameters_of("estimate"))


@for_every(parameters_of("estimate"))
def test_a_cell_of_a_points_file_is_read_as_the_parameter(name: str):
    one = PARAMETERS[name]
    if one.kind == "list":
        value: Any = ",".join(another(one))
    else:
        value = another(one)
    row = {"model": MODEL, "system": "h100", "isl": "100", "osl": "10"}
    row |= {"concurrency": "4"} if name not in ("batch", "concurrency", "rate") else {}
    needed = {"draft_tokens": {"speculation": "mtp"}, "acceptance": {"speculation": "mtp"},
              "draft_model": {"speculation": "draft_model"}, "lora_adapters": {"lora_rank": "8"},
              "prefix_tier": {"prefix_hits": "0.5"}, "requests": {"burst_start": "true"},
              "speculation": {"draft_model": "Qwen/Qwen3-0.6B"},
              "prefill_moe_tp": {"prefill_workers": "1", "prefill_tp": str(value)},
              "turn_isl": {"turns": "3"},
              **{n: {"turns": "3", "host_cache_gib": "10", "think_s": "2"}
                 for n in ("think_s", "think_spread", *in_group(CACHE))},
              **{f"{tier}_cache_gb_per_s": {"turns": "3", f"{tier}_cache_gib": "10"}
                 for tier in ("disk", "remote")},
              **{n: {"prefill_workers": "1"} for n in in_group(POOL)
                 if n not in ("prefill_workers", "prefill_system", "prefill_moe_tp")}}  # fmt: skip
    row |= needed.get(name, {})
    if name == "moe_tp":
        row["tp"] = str(value)
    question = points_row.parse({**row, name: str(value).casefold() if one.kind == "truth" else
                                 str(value)}).question  # fmt: skip
    assert getattr(question, name) == one.checked(value if one.kind != "list" else another(one))


def test_a_file_of_axes_has_the_parameters_of_sweep():
    assert set(sweep_axes.KNOWN) == {*parameters_of("sweep"), "points"}
    FILLED["sweep file"] += len(parameters_of("sweep"))


@pytest.mark.parametrize("name", VERBS["plan"].several)
def test_a_search_tries_several_values_of_what_its_space_holds(name: str):
    one = PARAMETERS[name]
    several = [one.default, another(one)] if one.default is not None else [1, another(one)]
    given = {"model": MODEL, "rate": 1, name: several}
    if name == "speculation":
        given["draft_model"] = "Qwen/Qwen3-0.6B"
    asked = ask("plan", given)
    assert set(map(str, asked.several[name])) == set(map(str, several))
    FILLED["space of a search"] += 1


@for_every(PARAMETERS)
def test_a_link_brings_a_parameter_back(name: str):
    needed = {"tp": 2} if name == "moe_tp" else {}
    question = Question(**needed, **{name: another(PARAMETERS[name])})
    keys = json.loads(json.dumps(Setup(question).changed()))
    assert name in keys
    assert setup_from(keys).scenario == question
    FILLED["links"] += 1


def test_every_parameter_has_a_control_on_a_page():
    from app.dashboard import search_form
    from app.dashboard.panels import economics, sensitivity, simulation
    from app.dashboard.question_form import controls

    forms = "".join(
        Path(str(panel.__file__)).read_text()
        for panel in (search_form, economics, sensitivity, simulation)
    )
    drawn = {*controls(), *re.findall(r'"(?:sensitivity_)?(\w+)"', forms)}
    # a page has an upload of a trace instead
    missing = sorted(set(PARAMETERS) - drawn - {"lengths"})
    assert not missing, (
        f"no page has a control for: {', '.join(missing)}; name it in DRAWER of "
        "app/dashboard/question_form.py"
    )
    FILLED["forms"] += len(PARAMETERS) - 1


# ------------------------------------------------------------------------------- limits


@for_every(REFUSED)
def test_a_value_beyond_its_limits_is_refused_in_one_sentence_everywhere(one: Parameter):
    verb = next(verb for verb in PROGRAMS if one.name in parameters_of(verb))
    given: dict[str, Any] = {"model": MODEL, one.name: beyond(one)}
    if not VERBS[verb].default_load and one.name not in VERBS[verb].loads:
        given[VERBS[verb].loads[0]] = 1
    with pytest.raises(InvalidValue) as said:
        ask(verb, given)
    sentence = str(said.value)
    assert one.name in sentence and ("give" in sentence or "choose" in sentence)
    with pytest.raises(InvalidValue) as said:
        getattr(ridgeline, verb)(**given)
    assert str(said.value) == sentence
    if one.kind != "truth":  # a body accepts true and false only, a command a flag
        with pytest.raises(InvalidValue) as said:
            verbs.asked_by(bodies.ASKED[verb].model_validate(given))
        assert str(said.value) == sentence
        words = [f"--{n.replace('_', '-')}={v}" for n, v in given.items() if n != "model"]
        done = CliRunner().invoke(cli, [verb, MODEL, *words])
        assert str(done.exception) == sentence
    if one.name in parameters_of("estimate"):
        row = {n: str(v) for n, v in given.items()} | {"system": "h100"}
        row |= {} if set(row) & {"batch", "concurrency", "rate"} else {"batch": "1"}
        with pytest.raises(InvalidValue) as said:
            points_row.parse(row)
        assert str(said.value) == sentence


def test_the_cells_are_counted():
    """The number of filled cells by interface, and of omitted ones by reason."""
    left = Counter(reason for verb in VERBS for reason in LEFT_OUT[verb].values())
    print(f"\nfilled: {sum(FILLED.values()):,} of {dict(FILLED)}")
    print(f"{len(VERBS)} verbs x {len(PARAMETERS)} parameters: {len(CELLS):,} are taken")
    print("left out: " + ", ".join(f"{n} since {REASONS[reason]}" for reason, n in left.items()))
    assert len(CELLS) + sum(left.values()) == len(VERBS) * len(PARAMETERS)

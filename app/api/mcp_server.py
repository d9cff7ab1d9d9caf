"""MCP: the verbs as tools for an assistant, over stdio or HTTP, with the official SDK.

Answers are short, with intervals and sources.  A text is a name; reports are sent as text, and no
file of the machine can be named.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.tools import Tool
from mcp.server.mcpserver.utilities.func_metadata import ArgModelBase, FuncMetadata, func_metadata
from pydantic import BaseModel, ValidationError, create_model
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

import model_registry
from app import version
from app.answers.table import to_json
from app.api import bodies, errors, short_documents
from app.api.answers import Answers
from app.api.metrics import MEDIA_TYPE, Counting, Metrics
from app.api.request_bounds import BoundedRequests, Bounds
from app.api.uploads import Sent
from app.question.query import UnknownParameter
from app.scenario import system_facts
from genz_core.errors import RidgelineError

_INSTRUCTIONS = """Ridgeline predicts how fast language models run on hardware.  Times are seconds,
sizes bytes, cost US dollars; *_low_s and *_high_s enclose 80 % of measured runs, and figures listed
under not_validated have no interval.  `profile` names the constants used.  Names of models and
systems are found with the tools models and systems; an error suggests close names."""
_LONGEST_REPORT = 2_000_000
#: Keywords of schemas that tools leave out.
_UNSAID = ("title", "maxLength", "minItems", "maxItems")
Told = TypeVar("Told")


class _Given(FuncMetadata):
    """Arguments as sent; the body checks them."""

    def validate_arguments(self, arguments_to_validate: dict[str, Any]) -> dict[str, Any]:
        return {"given": self.pre_parse_json(arguments_to_validate)}


def server(answers: Answers) -> MCPServer:
    """The MCP server for some answers."""
    tools = [_verb_tool(verb, kind, answers) for verb, kind in bodies.ASKED.items()]
    tools += [_file_tool(verb, kind, answers) for verb, kind in bodies.WITH_FILES.items()]
    tools += [_plain_tool(function) for function in (*_other_tools(answers), *_library_tools())]
    return MCPServer("ridgeline", instructions=_INSTRUCTIONS, tools=tools)


def over_http(made: MCPServer, host: str, bounds: Bounds) -> ASGIApp:
    """The server on HTTP: /mcp, with the /health and /metrics of the REST interface."""
    metrics = Metrics()
    app = made.streamable_http_app(host=host)

    async def health(_: Request) -> Response:
        return JSONResponse({"status": "ok", "version": version()})

    async def counters(_: Request) -> Response:
        return Response(metrics.text(), media_type=MEDIA_TYPE)

    app.router.routes += [Route("/health", health), Route("/metrics", counters)]
    return Counting(BoundedRequests(app, bounds, metrics), metrics)


def _verb_tool(verb: str, kind: type[bodies.Body], answers: Answers) -> Tool:
    """A tool whose arguments are the fields of a body."""

    def ask(given: dict[str, Any]) -> dict[str, Any]:
        body = _body(kind, given)
        answer = _told(lambda: answers.kept(body) or answers.answer(body))
        return short_documents.SHORT[verb](json.loads(answer))

    return _tool(verb, kind, ask)


def _file_tool(verb: str, kind: type[bodies.Body], answers: Answers) -> Tool:
    """A tool that takes a file's text in addition to the fields of a body."""
    texts = dict.fromkeys(("text", *(("baseline",) if verb == "guard" else ()), "name"), "")

    def ask(given: dict[str, Any]) -> dict[str, Any]:
        sent = {name: given.pop(name, "") for name in texts}
        if not all(isinstance(text, str) for text in sent.values()) or not sent["text"]:
            raise ToolError("text: give the text of a report or a result")
        body, name = _body(kind, given), sent["name"] or "report"
        files = [_sent(name, sent["text"])]
        earlier = [_sent("baseline", sent["baseline"])] if sent.get("baseline") else []
        return _told(
            lambda: short_documents.compared(json.loads(answers.of_files(files, body, earlier)))
        )

    return _tool(verb, kind, ask, texts)


def _plain_tool(function: Callable[..., dict[str, Any]]) -> Tool:
    """A tool whose arguments are those of a function, refused in the sentences of a body."""
    made = Tool.from_function(function, name=function.__name__.rstrip("_"))
    told = made.fn_metadata
    known = told.arg_model.model_fields

    def ask(given: dict[str, Any]) -> dict[str, Any]:
        if unknown := next((name for name in given if name not in known), None):
            raise ToolError(str(UnknownParameter(unknown, known)))
        return function(**_body(told.arg_model, given).model_dump_one_level())

    checked = _Given(
        arg_model=told.arg_model, output_schema=told.output_schema, output_model=told.output_model,
        wrap_output=told.wrap_output,
    )  # fmt: skip
    schema = {**made.parameters, "additionalProperties": False}
    return made.model_copy(update={"fn": ask, "fn_metadata": checked, "parameters": schema})


def _tool(
    verb: str,
    kind: type[bodies.Body],
    ask: Callable[..., dict[str, Any]],
    texts: Mapping[str, str] | None = None,
) -> Tool:
    """A tool with the schema of a body, and of additional texts."""
    schema: dict[str, Any] = _short(kind.model_json_schema())
    if texts:
        beside = {name: {"type": "string", "default": given} for name, given in texts.items()}
        schema["properties"] = beside | schema["properties"]
        schema["required"] = ["text", *schema.get("required", ())]
    # the SDK reads JSON in a text, unless the argument is a text
    fields: dict[str, Any] = {
        name: (str if _is_text(field) else Any, None)
        for name, field in schema["properties"].items()
    }
    arguments = create_model(f"{verb}Arguments", __base__=ArgModelBase, **fields)
    told = func_metadata(ask)
    return Tool(
        fn=ask, name=verb, title=None, description=str(kind.__doc__), parameters=schema,
        is_async=False, context_kwarg=None, annotations=None,
        fn_metadata=_Given(
            arg_model=arguments, output_schema=told.output_schema, output_model=told.output_model,
            wrap_output=told.wrap_output,
        ),
    )  # fmt: skip


def _short(schema: Any) -> Any:
    """A schema without what takes an assistant's attention and a refusal states: titles, lengths,
    and the limits of a number once more for lists of it.
    """
    if isinstance(schema, list):
        return [_short(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: _short(each) for name, each in schema.items() if name not in _UNSAID}
    if "properties" in schema:  # by name, some of which are those of keywords
        found["properties"] = {name: _short(each) for name, each in schema["properties"].items()}
    if schema.get("type") == "array" and "maximum" in schema.get("items", {}):
        found["items"] = {"type": schema["items"]["type"]}
    return found


def _is_text(field: Mapping[str, Any]) -> bool:
    """Whether a field takes texts alone, if it is given."""
    kinds = {each.get("type") for each in field.get("anyOf", [field])}
    return kinds - {"null"} == {"string"}


def _body(kind: type[BaseModel], given: dict[str, Any]) -> Any:
    try:
        with errors.in_a_request():
            return kind.model_validate(given)
    except ValidationError as error:
        raise ToolError(errors.of_body(error.errors())["error"]["message"]) from None
    except RidgelineError as error:
        raise ToolError(str(error)) from None


def _library_tools() -> tuple[Callable[..., Any], ...]:
    def models(find: str = "") -> dict[str, Any]:
        """Names of models that contain a text."""
        return short_documents.named(model_registry.listed(find[: bodies.LONGEST_NAME]), "name")

    def systems(find: str = "", vendor: str = "") -> dict[str, Any]:
        """Names of hardware, filtered by a text in the name and by vendor."""
        return _told(lambda: short_documents.named(system_facts.listed(vendor, "", find), "slug"))

    def model(name: str) -> dict[str, Any]:
        """One model: its parameters and their source."""
        return _told(lambda: _plain(dict(model_registry.describe(name))))

    def system(name: str) -> dict[str, Any]:
        """One system: its figures, each with its source."""
        return _told(lambda: _plain(system_facts.sourced_facts(name)))

    return models, systems, model, system


def _other_tools(answers: Answers) -> tuple[Callable[..., Any], ...]:
    def ask(line: str) -> dict[str, Any]:
        """A question as a typed line, "llama 70b fp8 on 8 h100 vllm 20/s 2k/500 p99 tpot<30ms":
        what it was understood as, and its answer.  A target asks for a plan."""
        try:
            found = _told(lambda: json.loads(answers.of_line(line)))
        except ValidationError as error:
            raise ToolError(errors.of_body(error.errors())["error"]["message"]) from None
        return {**found, "answer": short_documents.SHORT[found["verb"]](found["answer"])}

    def study(
        question: dict[str, Any],
        chips: list[dict[str, Any]] | None = None,
        formats: list[dict[str, Any]] | None = None,
        techniques: list[dict[str, Any]] | None = None,
        title: str = "Technology study",
    ) -> dict[str, Any]:
        """Chips, formats and techniques in all combinations: speed, cost, energy, what binds.
        question: what all share; entries have a name and what differs."""
        given = {"question": question, "chips": chips, "formats": formats,
                 "techniques": techniques, "title": title}  # fmt: skip
        body = _body(bodies.StudyBody, given)
        return _told(lambda: short_documents.rows(json.loads(answers.study(body))))

    def import_(text: str, name: str = "report") -> dict[str, Any]:
        """The figures of a profiler's report, or of a benchmark's result, given as its text."""
        files = [_sent(name, text)]
        return _told(lambda: short_documents.imported(json.loads(answers.imported(files))))

    return ask, study, import_


def _sent(name: str, text: str) -> Sent:
    if len(text) > _LONGEST_REPORT:
        raise ToolError(f"the text is longer than {_LONGEST_REPORT:,} characters: send it by REST")
    return Sent(name[:120], text.encode("utf-8", "replace"))


def _told(ask: Callable[[], Told]) -> Told:
    """An answer, or an error message."""
    try:
        with errors.in_a_request():
            return ask()
    except RidgelineError as error:
        raise ToolError(str(error)) from None


def _plain(document: dict[str, Any]) -> dict[str, Any]:
    """A document reduced to JSON types."""
    return dict(json.loads(to_json(document)))

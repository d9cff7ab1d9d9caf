"""MCP: the verbs as tools of an assistant, over stdio or HTTP, by the official SDK.

Answers are short, with intervals and sources.  A text is a name; reports are sent as text, and no
file of the machine can be named.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from typing import Any

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import ValidationError

from app.api import bodies, errors, shortening, verbs
from app.api.answers import Answers
from app.api.uploads import Sent
from app.wording.tables import to_json
from genz_core.errors import RidgelineError

_INSTRUCTIONS = """Ridgeline predicts how fast language models run on hardware.  Times are seconds,
sizes bytes, cost US dollars; *_low_s and *_high_s hold 80 % of measured runs, and what stands under
not_validated has no interval.  `profile` says whose constants priced it.  Names of models and
systems are found by models and systems; a refusal names those that are near."""
_LONGEST_REPORT = 2_000_000
_TOOLS: dict[str, tuple[type[bodies.Body], str]] = {
    "estimate": (bodies.EstimateBody, "Time, memory and cost of a static batch, with intervals."),
    "serve": (bodies.ServeBody, "TTFT, TPOT and throughput of a deployment under a load: give "
              "concurrency or rate."),
    "simulate": (bodies.SimulateBody, "Percentiles of requests served one by one, at a "
                 "concurrency, a rate or of a trace's text."),
    "sweep": (bodies.SweepBody, "The best of all combinations of some axes: lists or ranges."),
    "plan": (bodies.PlanBody, "The best deployments for a load within targets, and how to launch "
             'them: rate or concurrency, target="tpot < 20ms", systems=["h100"].'),
}  # fmt: skip


def server(answers: Answers) -> MCPServer:
    """The MCP server of some answers."""
    made = MCPServer("ridgeline", instructions=_INSTRUCTIONS)
    for verb, (kind, words) in _TOOLS.items():
        made.tool(name=verb, description=words)(_asking(verb, kind, answers))
    for tool in (*_library_tools(), *_file_tools(answers)):
        made.tool(name=tool.__name__.rstrip("_"))(tool)
    return made


def _asking(verb: str, kind: type[bodies.Body], answers: Answers) -> Callable[..., Any]:
    """A tool whose arguments are the fields of a body."""

    def ask(**given: Any) -> dict[str, Any]:
        with_values = {n: v for n, v in given.items() if v != kind.model_fields[n].default}
        body = _body(kind, with_values)
        return _told(lambda: shortening.SHORT[verb](_loaded(_answer(answers, verb, body))))

    ask.__name__ = verb
    ask.__signature__ = _signature(kind)  # type: ignore[attr-defined]  # read by the SDK
    ask.__annotations__ = {p.name: p.annotation for p in _signature(kind).parameters.values()}
    ask.__annotations__["return"] = dict[str, Any]
    return ask


def _answer(answers: Answers, verb: str, body: bodies.Body) -> bytes:
    return answers.kept(verb, body) or answers.answer(verb, body)


def _signature(kind: type[bodies.Body]) -> inspect.Signature:
    """Keyword arguments as the fields of a body: any value, which the body then checks."""
    parameters = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if field.is_required() else field.default,
            annotation=Any,
        )
        for name, field in kind.model_fields.items()
    ]
    ordered = sorted(parameters, key=lambda p: p.default is not inspect.Parameter.empty)
    return inspect.Signature(ordered, return_annotation=dict[str, Any])


def _body(kind: type[bodies.Body], given: dict[str, Any]) -> Any:
    try:
        return kind.model_validate(given)
    except ValidationError as error:
        said = errors.of_body(error.errors(), tuple(kind.model_fields))
        raise ToolError(said["error"]["message"]) from None


def _library_tools() -> tuple[Callable[..., Any], ...]:
    def models(find: str = "") -> dict[str, Any]:
        """Names of models that contain a text."""
        return shortening.named(verbs.models(find[: bodies.LONGEST_NAME]), "name")

    def systems(find: str = "", vendor: str = "") -> dict[str, Any]:
        """Names of hardware, by a text in the name and a vendor."""
        return _told(lambda: shortening.named(verbs.systems(vendor, "", find), "slug"))

    def model(name: str) -> dict[str, Any]:
        """One model: its parameters and where they are from."""
        return _told(lambda: _plain(verbs.model(name)))

    def system(name: str) -> dict[str, Any]:
        """One system: its figures, each with its source."""
        return _told(lambda: _plain(verbs.system(name)))

    return models, systems, model, system


def _file_tools(answers: Answers) -> tuple[Callable[..., Any], ...]:
    def import_(text: str, name: str = "report") -> dict[str, Any]:
        """The figures of a profiler's report, or of a benchmark's result, given as its text."""
        files = [_sent(name, text)]
        return _told(lambda: shortening.imported(_loaded(answers.imported(files))))

    def compare(
        text: str, model: str = "", system: str = "", engine: str = "", tp: int = 0,
        name: str = "report",
    ) -> dict[str, Any]:  # fmt: skip
        """A report's or a result's text beside the prediction; what is not given is read in it."""
        given = {"model": model, "system": system, "engine": engine or None, "tp": tp or None}
        body = _body(bodies.CompareBody, {k: v for k, v in given.items() if v})
        files = [_sent(name, text)]
        return _told(lambda: shortening.compared(_loaded(answers.compared(files, body))))

    return import_, compare


def _sent(name: str, text: str) -> Sent:
    if len(text) > _LONGEST_REPORT:
        raise ToolError(f"the text is longer than {_LONGEST_REPORT:,} characters: send it by REST")
    return Sent(name[:120], text.encode("utf-8", "replace"))


def _told(ask: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """An answer, or the sentence that says why there is none."""
    try:
        return ask()
    except RidgelineError as error:
        raise ToolError(str(error)) from None


def _loaded(content: bytes) -> Any:
    return json.loads(content)


def _plain(document: dict[str, Any]) -> dict[str, Any]:
    """A document as JSON has it."""
    plain: dict[str, Any] = json.loads(to_json(document))
    return plain

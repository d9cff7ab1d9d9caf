"""The application: REST over the verbs, its OpenAPI document, health and metrics."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Body as BodyOf
from fastapi import Depends, FastAPI, File, Form, Query, Request, Response, UploadFile
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError, WithJsonSchema
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

import model_registry
from app import version
from app.answers.table import to_json
from app.api import bodies, errors
from app.api.answers import Answers
from app.api.examples import EXAMPLES, LINES, STUDIES
from app.api.metrics import MEDIA_TYPE, Counting, Metrics
from app.api.request_bounds import BoundedRequests, Bounds
from app.api.uploads import Sent
from app.question import literals
from app.scenario import system_facts
from genz_core.errors import InvalidValue, RidgelineError

_MOST_FILES = 64
_Text = Annotated[str, Query(max_length=bodies.LONGEST_NAME)]
_Files = Annotated[list[UploadFile], File()]
_Asked = Annotated[
    str, Form(description="A JSON object describing the run: model, system, engine, tp ...")
]
#: An object of any fields.  Clients that are generated take `additionalProperties: true`, which
#: pydantic would state, for numbers and texts alone, and refuse lists.
Document = Annotated[dict[str, Any], WithJsonSchema({"type": "object"})]
_ROWS = ("estimate", "serve", "sweep", "routing")
_ABOUT = """Ridgeline's command line as an API: the same names, units (SI, the unit in the name),
errors and numbers.  An error is one sentence under `error.message`."""


#: Descriptions of error responses.
_REFUSALS = {
    400: "The body cannot be read.",
    401: "No token, or an unknown one.",
    404: "There is nothing at this address.",
    413: "A body or files that are too large.",
    421: "A host name that this server does not answer to.",
    422: "An invalid name, value or configuration; or an answer that needs too much memory.",
    429: "Too many long requests at once; Retry-After states when to try again.",
    503: "No process has started in time or can start, or the server is shutting down.",
    504: "The answer was not ready in time.",
}


class Rows(BaseModel):
    """Rows with the columns of the command line's JSON."""

    rows: list[Document]


class Reason(BaseModel):
    """code: kind of error.  message: a sentence.  near: names that may be meant."""

    code: str
    message: str
    near: list[str] = []


class Refused(BaseModel):
    """The reason why there is no answer."""

    error: Reason


class Health(BaseModel):
    """Answer of the health check: the release of the server."""

    status: str
    version: str


def _known_only(request: Request) -> None:
    """Refuse a query parameter that the route of a request does not have.

    Raises:
        InvalidValue: its name, and those that there are.
    """
    known = [one.alias for one in request.scope["route"].dependant.query_params]
    for name in (name for name in request.query_params if name not in known):
        near = literals.did_you_mean(literals.near(name, known), known) if known else "it has none"
        raise InvalidValue(f"{name[:60]!r} is not a parameter of {request.url.path[:60]}: {near}")


def application(bounds: Bounds | None = None, answers: Answers | None = None) -> FastAPI:
    """The REST application.

    bounds: of requests.  answers: computes the answers; closed when the application ends.
    """
    bounds, answers, metrics = bounds or Bounds(), answers or Answers(), Metrics()

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        answers.workers.close()

    refused: dict[int | str, dict[str, Any]] = {
        status: {"model": Refused, "description": said} for status, said in _REFUSALS.items()
    }
    api = FastAPI(
        title="Ridgeline", version=version(), description=_ABOUT, lifespan=lifespan,
        responses=refused, redoc_url=None, docs_url=None, servers=[{"url": "/"}],
        dependencies=[Depends(_known_only)],
    )  # fmt: skip
    _add_refusals(api, metrics)
    _add_questions(api, answers, metrics)
    _add_files(api, answers)
    _add_library(api)
    _add_schemas(api)
    _add_state(api, metrics)
    api.add_middleware(_Advising)
    api.add_middleware(BoundedRequests, bounds=bounds, metrics=metrics)
    api.add_middleware(Counting, metrics=metrics)  # outermost: refused requests count too
    return api


@dataclass(frozen=True, slots=True)
class _Advising:
    """Lets every error of a request advise what a request can give."""

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with errors.in_a_request():
            await self.app(scope, receive, send)


def _add_question(
    api: FastAPI,
    path: str,
    kind: Any,
    examples: Mapping[str, Any],
    model: Any,
    answer: Callable[[Any], Awaitable[bytes]],
) -> None:
    """Add POST /path with a body.  examples: bodies by description.  model: of the response."""
    shown: Any = {name: {"value": value} for name, value in examples.items()}

    async def asked(body: Any) -> Response:
        return _json(await answer(body))

    asked.__annotations__["body"] = Annotated[kind, BodyOf(openapi_examples=shown)]
    asked.__doc__ = kind.__doc__
    api.post(f"/{path}", response_model=model, operation_id=path, summary=path)(asked)


def _add_questions(api: FastAPI, answers: Answers, metrics: Metrics) -> None:
    """Add POST of every verb, of a line and of a study."""

    async def of_verb(body: bodies.Body) -> bytes:
        found = answers.kept(body)
        if found is None:
            return await run_in_threadpool(answers.answer, body)
        metrics.kept.labels(body.verb).inc()
        return found

    async def of_line(body: bodies.LineBody) -> bytes:
        try:
            return await run_in_threadpool(answers.of_line, body.line)
        except ValidationError as error:
            raise RequestValidationError(error.errors()) from None

    async def of_study(body: bodies.StudyBody) -> bytes:
        return await run_in_threadpool(answers.study, body)

    for verb, kind in bodies.ASKED.items():
        model = Rows if verb in _ROWS else Document
        _add_question(api, verb, kind, EXAMPLES[verb], model, of_verb)
    lines = {name: {"line": line} for name, line in LINES.items()}
    _add_question(api, "ask", bodies.LineBody, lines, Document, of_line)
    _add_question(api, "study", bodies.StudyBody, STUDIES, Rows, of_study)


def _add_files(api: FastAPI, answers: Answers) -> None:
    """Add POST /import, /chakra, /compare, /guard and /watch, which take files."""

    @api.post("/import", operation_id="import", response_model=list[Document])
    async def import_(files: _Files, by_shape: Annotated[bool, Form()] = False) -> Response:
        """Figures of uploaded profiler reports and serving benchmark results.

        by_shape: also the operators of reports by input shape.
        """
        sent = await _received(files)
        return _json(await run_in_threadpool(answers.imported, sent, by_shape))

    @api.post("/chakra", operation_id="chakra", response_model=Document)
    async def chakra(file: UploadFile) -> Response:
        """Operators of a Chakra trace: runs, seconds, FLOPs, bytes, messages."""
        return _json(await run_in_threadpool(answers.trace, (await _received([file]))[0]))

    @api.post("/compare", operation_id="compare", response_model=Document)
    async def compare(files: _Files, asked: _Asked = "{}") -> Response:
        """Compare profiler reports of a run, or benchmark results, with their prediction."""
        body = _read("compare", asked)
        return _json(await run_in_threadpool(answers.of_files, await _received(files), body))

    @api.post("/guard", operation_id="guard", response_model=Document)
    async def guard(
        files: _Files,
        asked: _Asked = "{}",
        baseline: Annotated[list[UploadFile] | None, File()] = None,
    ) -> Response:
        """Check whether benchmark results are worse than predicted, or worse than a baseline."""
        body = _read("guard", asked)
        sent = await _received(files), body, await _received(baseline or [])
        return _json(await run_in_threadpool(answers.of_files, *sent))

    @api.post("/watch", operation_id="watch", response_model=Document)
    async def watch(files: _Files, asked: _Asked = "{}") -> Response:
        """When and why a server deviates from its prediction, from recorded metrics pages."""
        body = _read("watch", asked)
        return _json(await run_in_threadpool(answers.of_files, await _received(files), body))


def _read(verb: str, text: str) -> bodies.Body:
    """The body of a verb in a field of a form."""
    try:
        return bodies.WITH_FILES[verb].model_validate_json(text)
    except ValidationError as error:
        raise RequestValidationError(error.errors()) from None


async def _received(files: list[UploadFile]) -> list[Sent]:
    if len(files) > _MOST_FILES:
        raise HTTPException(413, f"{len(files)} files: send at most {_MOST_FILES} at once")
    return [Sent(file.filename or "file", await file.read()) for file in files]


def _add_library(api: FastAPI) -> None:
    """Add GET /models, /modules and /systems, for all entries or one."""
    from model_registry.modules import entry_names, read_entry

    @api.get("/models", operation_id="models", response_model=Rows)
    def models(find: _Text = "") -> Response:
        """The models that ship; find: only names that contain this text."""
        return _document({"rows": model_registry.listed(find)})

    @api.get("/models/{name:path}", operation_id="model", response_model=Document)
    def model(name: str) -> Response:
        """One model."""
        return _document(dict(model_registry.describe(name)))

    @api.get("/modules", operation_id="modules", response_model=Document)
    def modules() -> Response:
        """The module classes that have formulas."""
        return _document({"modules": list(entry_names())})

    @api.get("/modules/{name}", operation_id="module", response_model=Document)
    def module(name: str) -> Response:
        """The formulas of one, by its full path or bare name."""
        return _document(read_entry(name).to_json())

    @api.get("/systems", operation_id="systems", response_model=Rows)
    def systems(
        vendor: _Text = "",
        kind: _Text = "",
        find: _Text = "",
    ) -> Response:
        """The available hardware, filtered by texts in vendor, kind and name."""
        return _document({"rows": system_facts.listed(vendor, kind, find)})

    @api.get("/systems/{name}", operation_id="system", response_model=Document)
    def system(name: str) -> Response:
        """A system with the source of every figure."""
        return _document(system_facts.sourced_facts(name))


def _add_schemas(api: FastAPI) -> None:
    """Add GET /schemas, for all or one."""
    from model_registry.reports import schemas

    @api.get("/schemas", operation_id="schemas", response_model=Document)
    def every() -> Response:
        """The documents exchanged by commands that have a JSON schema."""
        return _document({"schemas": schemas.names()})

    @api.get("/schemas/{name}", operation_id="schema", response_model=Document)
    def one(name: str) -> Response:
        """The JSON schema of one document."""
        return _document(schemas.schema(name))


def _add_state(api: FastAPI, metrics: Metrics) -> None:
    @api.get("/health", operation_id="health", response_model=Health)
    async def health() -> Response:
        """Whether the server answers; needs no token."""
        return _document({"status": "ok", "version": version()})

    @api.get("/metrics", operation_id="metrics", response_class=Response)
    async def show_metrics() -> Response:
        """Counters in Prometheus' text format."""
        return Response(metrics.text(), media_type=MEDIA_TYPE)


def _add_refusals(api: FastAPI, metrics: Metrics) -> None:
    """Answer every refusal with one sentence, and count it by its code."""

    def refuse(
        status: int, said: dict[str, Any], headers: Mapping[str, str] | None = None
    ) -> JSONResponse:
        metrics.refusals.labels(said["error"]["code"]).inc()
        return JSONResponse(said, status, headers)

    @api.exception_handler(RidgelineError)
    async def of_error(_: Request, error: RidgelineError) -> Response:
        return refuse(*errors.of_error(error), errors.headers_of(error))

    @api.exception_handler(RequestValidationError)
    async def of_body(_: Request, error: RequestValidationError) -> Response:
        said = error.errors()
        return refuse(errors.status_of_body(said), errors.of_body(said))

    @api.exception_handler(HTTPException)
    async def of_request(request: Request, error: HTTPException) -> Response:
        sentences = {
            404: f"there is no {request.url.path[:60]!r}; see /openapi.json",
            405: f"{request.url.path[:60]!r} does not support {request.method}",
        }
        sentence = sentences.get(error.status_code, str(error.detail))
        said = errors.document("invalid_request", sentence)
        return refuse(error.status_code, said, error.headers)


def _document(document: Any) -> Response:
    return _json(to_json(document, compact=True).encode("utf-8", "replace"))


def _json(content: bytes) -> Response:
    return Response(content, media_type="application/json")

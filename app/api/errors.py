"""Refusals as one sentence: errors of the functions, and errors of the request itself."""

import math
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from genz_core.errors import RidgelineError, taking

_CLIPPED = 60
#: What a request may name, by kind of name.
_INSTEAD = {
    "model": "GET /models, or the tool `models`, lists all; a request cannot use a file or the "
    "hub.",
    "system": (
        "GET /systems, or the tool `systems`, lists all; a request cannot use a file, but the "
        "operator of this server can add a system to its data folder."
    ),
}


def in_a_request() -> AbstractContextManager[None]:
    """Within the block, errors advise what a request can give."""
    return taking(_INSTEAD)


class Busy(RidgelineError):
    """Too many questions at once.  retry_s: seconds after which to try again."""

    code = "busy"

    def __init__(self, sentence: str, retry_s: float) -> None:
        super().__init__(sentence)
        self.retry_s = retry_s


class Exhausted(RidgelineError):
    """An answer that takes more time or memory than allowed."""

    code = "exhausted"


class TooLong(Exhausted):
    """An answer that is not ready in time."""


class Stopping(RidgelineError):
    """The server is shutting down, and cancelled its work."""

    code = "stopping"


class Unavailable(RidgelineError):
    """No process for long questions can start, whatever the request."""

    code = "unavailable"


#: Statuses of errors that are not caused by the question.
_STATUS = {Busy: 429, Unavailable: 503, Stopping: 503, TooLong: 504}


class Refused(RidgelineError):
    """An error of another process, with its original message, code and near names; other errors
    may not pickle.
    """

    def __init__(self, code: str, sentence: str, near: Sequence[str] = ()) -> None:
        super().__init__(sentence)
        self.code, self.near = code, list(near)

    def __reduce__(self) -> Any:
        return Refused, (self.code, str(self), self.near)


def document(code: str, sentence: str, near: Sequence[str] = ()) -> dict[str, Any]:
    """The document of a refusal."""
    return {"error": {"code": code, "message": sentence, "near": list(near)}}


def of_error(error: RidgelineError) -> tuple[int, dict[str, Any]]:
    """Status and document of an error, with the same sentence as on the command line."""
    said = document(error.code, str(error), getattr(error, "near", ()))
    return _STATUS.get(type(error), 422), said


def headers_of(error: RidgelineError) -> dict[str, str]:
    """Headers of the response to an error."""
    return {"Retry-After": f"{math.ceil(error.retry_s)}"} if isinstance(error, Busy) else {}


def status_of_body(errors: Sequence[Mapping[str, Any]]) -> int:
    """Status for an invalid body: 400 if it is not JSON, 422 for its content."""
    return 400 if errors[0]["type"] == "json_invalid" else 422


def of_body(errors: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The document for an invalid body, from pydantic's first error."""
    first = errors[0]
    raised = first.get("ctx", {}).get("error")
    if isinstance(raised, RidgelineError):
        return of_error(raised)[1]
    place = [str(part) for part in first["loc"] if part not in ("body", "query", "path")]
    name = place[0][:_CLIPPED] if place else ""
    if first["type"] == "missing":
        sentence = f"{name or 'the body'}: this field is required"
    elif first["type"] == "json_invalid":
        sentence = "the body is not valid JSON"
    elif not name:
        sentence = "the body is not a JSON object; send one, with Content-Type: application/json"
    else:
        said = str(first["msg"])
        sentence = f"{name} = {_shown(first.get('input'))}: {said[:1].lower()}{said[1:]}"
    return document("invalid_body", " ".join(sentence.split()))


def _shown(value: Any) -> str:
    try:
        text = repr(value)
    except ValueError:  # a whole number with too many digits
        text = "a number of many digits"
    text = text.encode("utf-8", "replace").decode()
    return text if len(text) <= _CLIPPED else f"{text[:_CLIPPED]}…"

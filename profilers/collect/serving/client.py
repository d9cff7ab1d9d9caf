"""A client of the streaming completions endpoint that vLLM, SGLang, transformers and others serve.

POST /v1/completions with `stream`, answered by server-sent events: lines `data: {...}`, each with
a piece of text, the last with `finish_reason` or `[DONE]`.
Source: OpenAI API reference, "Completions", and WHATWG HTML, "Server-sent events".
"""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from genz_core.errors import MeasurementError
from profilers.collect.measured_model import first_line

_LONGEST_LINE, _MOST_BODY = 1 << 20, 1 << 20


class Refused(MeasurementError):
    """An answer that is not a stream.  status: HTTP status."""

    def __init__(self, status: int, message: str) -> None:
        self.status = status
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class Server:
    """A server and what every request to it has in common.

    address: "http://host:port", with or without "/v1".  model: as the server names it.
    timeout_s: of one request, from sending it to its last token.
    body: further fields of every request, beside model, prompt, length and temperature 0.
    """

    address: str
    model: str
    timeout_s: float = 600.0
    body: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        try:
            parts = urlsplit(self.address)
            known = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        except ValueError:
            known = False
        if not known:
            raise MeasurementError(
                f"{self.address!r} is not the address of a server: give one like "
                "http://localhost:8000"
            )
        if not 0 < self.timeout_s <= 86_400:
            raise MeasurementError(f"timeout = {self.timeout_s:g} s: give 0 to 86,400")

    def connection(self) -> http.client.HTTPConnection:
        """A new connection, not yet opened."""
        parts = urlsplit(self.address)
        kind = (
            http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        )
        return kind(str(parts.hostname), parts.port, timeout=self.timeout_s)

    def path(self, endpoint: str) -> str:
        """Path of an endpoint such as "completions"."""
        folder = urlsplit(self.address).path.rstrip("/").removesuffix("/v1")
        return f"{folder}/v1/{endpoint}"


@dataclass(frozen=True, slots=True)
class Answer:
    """One streamed completion; times of `time.perf_counter` [s].

    chunks_s: arrival times of the pieces of text, usually one token each.
    prompt_tokens, output_tokens: as the server counts them, 0 where it does not say.
    """

    sent_s: float
    chunks_s: tuple[float, ...]
    prompt_tokens: int = 0
    output_tokens: int = 0

    @property
    def ttft_s(self) -> float:
        """From sending the request to the first piece."""
        return self.chunks_s[0] - self.sent_s

    @property
    def e2e_s(self) -> float:
        """From sending the request to the last piece."""
        return self.chunks_s[-1] - self.sent_s


class OpenRequests:
    """Requests under way, so that another thread can end them all."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: set[http.client.HTTPConnection] = set()
        self.aborted = False

    def add(self, connection: http.client.HTTPConnection) -> None:
        """Register an open connection.

        Raises:
            MeasurementError: all have been ended.
        """
        with self._lock:
            if self.aborted:
                raise MeasurementError("the run was stopped")
            self._open.add(connection)

    def drop(self, connection: http.client.HTTPConnection) -> None:
        """Unregister a closed connection."""
        with self._lock:
            self._open.discard(connection)

    def abort(self) -> None:
        """Abort every request; threads that wait for one get an error at once."""
        with self._lock:
            self.aborted = True
            for connection in self._open:
                if connection.sock is not None:
                    try:
                        connection.sock.shutdown(socket.SHUT_RDWR)
                    except OSError:
                        continue  # the server closed it first


def complete(
    server: Server, prompt: str, tokens: int, open_requests: OpenRequests | None = None
) -> Answer:
    """Request `tokens` tokens for a prompt and record when each piece arrives.

    Raises:
        Refused: the server answers with an error, such as an unknown model.
        MeasurementError: it cannot be reached, stops sending, ends early or sends no completion.
    """
    body = {
        "model": server.model, "prompt": prompt, "max_tokens": tokens, "temperature": 0.0,
        "stream": True, **server.body,
    }  # fmt: skip
    listed = open_requests or OpenRequests()
    connection = _connected(server)
    listed.add(connection)
    try:
        sent = time.perf_counter()
        connection.request(
            "POST",
            server.path("completions"),
            json.dumps(body),
            {"Content-Type": "application/json"},
        )
        response = connection.getresponse()
        if response.status != 200:
            raise Refused(response.status, _refusal(server, response))
        return _streamed(server, response, sent)
    except TimeoutError:
        raise _silent(server) from None
    except (OSError, http.client.HTTPException) as error:
        raise MeasurementError(
            f"{server.address} ended a request before its answer was complete: {first_line(error)}"
        ) from None
    finally:
        listed.drop(connection)
        connection.close()


def models(server: Server) -> list[str]:
    """Names of the models that a server lists; none where it lists none.

    Raises:
        MeasurementError: it cannot be reached.
    """
    connection = _connected(server)
    try:
        connection.request("GET", server.path("models"))
        response = connection.getresponse()
        document = json.loads(response.read(_MOST_BODY))
        return [str(entry["id"]) for entry in document["data"]]
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError, RecursionError):
        return []
    finally:
        connection.close()


# ------------------------------------------------------------------------------- the stream


def _connected(server: Server) -> http.client.HTTPConnection:
    connection = server.connection()
    try:
        connection.connect()
    except (OSError, UnicodeError) as error:
        connection.close()
        cause = getattr(error, "strerror", None) or first_line(error)
        raise MeasurementError(
            f"{server.address} cannot be reached ({cause}): start the server, or give its address"
        ) from None
    return connection


def _streamed(server: Server, response: http.client.HTTPResponse, sent: float) -> Answer:
    """Read the events of a completion.

    Raises:
        MeasurementError: the answer is not a stream, or ends before the completion does.
    """
    chunks: list[float] = []
    usage: Mapping[str, Any] = {}
    finished = False
    for event, now in _events(server, response, sent):
        if event is None:
            finished = True
            break
        text, reason = _piece(server, event)
        if text or (text is not None and not reason):
            chunks.append(now)
        finished = finished or bool(reason)
        usage = event.get("usage") or usage
    if not finished:
        raise MeasurementError(
            f"{server.address} ended a stream after {len(chunks)} pieces without a finish_reason: "
            "see the server's log"
        )
    if not chunks:
        raise MeasurementError(f"{server.address} finished a completion without any text")
    return Answer(sent, tuple(chunks), _count(usage, "prompt"), _count(usage, "completion"))


def _events(
    server: Server, response: http.client.HTTPResponse, sent: float
) -> Iterator[tuple[dict[str, Any] | None, float]]:
    """The events of a stream and their arrival times; None for the end marker.

    Raises:
        MeasurementError: a line is not an event, or the request timed out.
    """
    while line := response.readline(_LONGEST_LINE):
        now = time.perf_counter()
        if now - sent > server.timeout_s:
            raise _silent(server)
        name, _, value = line.partition(b":")
        if name != b"data":
            if line.strip() and name not in (b"", b"event", b"id", b"retry"):
                raise _no_stream(server, line)
            continue
        value = value.strip()
        if value == b"[DONE]":
            yield None, now
            return
        try:
            event = json.loads(value)
        except (ValueError, RecursionError):
            event = None
        if not isinstance(event, dict):
            raise _no_stream(server, line)
        yield event, now


def _piece(server: Server, event: Mapping[str, Any]) -> tuple[str | None, str]:
    """Text and finish_reason of an event; the text is None where it holds no choice.

    Raises:
        MeasurementError: the server reports an error in the stream.
    """
    if event.get("error"):
        raise MeasurementError(f"{server.address} failed in a stream: {str(event['error'])[:200]}")
    choices = event.get("choices")
    if not isinstance(choices, list) or not choices:
        return None, ""
    choice = choices[0]
    if not isinstance(choice, dict) or not isinstance(choice.get("text", ""), str):
        raise _no_stream(server, json.dumps(choices).encode())
    return choice.get("text", ""), str(choice.get("finish_reason") or "")


def _count(usage: Any, side: str) -> int:
    value = usage.get(f"{side}_tokens") if isinstance(usage, Mapping) else None
    return value if isinstance(value, int) and value > 0 else 0


# ------------------------------------------------------------------------------- its errors


def _silent(server: Server) -> MeasurementError:
    return MeasurementError(
        f"{server.address} did not finish a request within {server.timeout_s:g} s: it may hang, or "
        "need a longer --timeout"
    )


def _no_stream(server: Server, line: bytes) -> MeasurementError:
    start = line[:60].decode("utf-8", "replace").strip()
    return MeasurementError(
        f"{server.address} sends no stream of completions but {start!r}: is it an "
        "OpenAI-compatible server?"
    )


def _refusal(server: Server, response: http.client.HTTPResponse) -> str:
    """The message of an error answer, in a sentence."""
    text = response.read(_MOST_BODY).decode("utf-8", "replace")
    try:
        document = json.loads(text)
        said = document.get("detail") or document.get("error") or document.get("message") or text
        said = said.get("message", said) if isinstance(said, dict) else said
    except (ValueError, AttributeError, RecursionError):
        said = text
    words = " ".join(str(said).split())[:200] or response.reason
    return f"{server.address} refused model {server.model!r} with HTTP {response.status}: {words}"

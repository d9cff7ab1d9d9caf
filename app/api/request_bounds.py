"""Limits on requests: their size, the bearer token, and the host name they may use."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.errors import document

if TYPE_CHECKING:
    from app.api.metrics import Metrics  # the dashboard imports this module without the extra api

#: Paths that need no token: whether the server is alive.
OPEN = ("/health",)
#: Key of the request's scope for the name of the token's owner; "" where none is required.
USER = "ridgeline.user"


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits that every request is checked against.

    body_bytes: largest JSON body.  upload_bytes: largest upload, all files together.
    token: bearer token that a request must carry, "" for none.
    hosts: host names that the server answers to, () for any.
    users: further tokens that are accepted, each with the name of its owner.
    """

    body_bytes: int = 10_000_000
    upload_bytes: int = 50_000_000
    token: str = ""
    hosts: tuple[str, ...] = ()
    users: Mapping[str, str] = field(default_factory=dict)

    @property
    def tokens(self) -> Mapping[str, str]:
        """All tokens, each with its owner."""
        return {**({self.token: "token"} if self.token else {}), **self.users}


@dataclass(frozen=True, slots=True)
class BoundedRequests:
    """Middleware that refuses requests that are too large, or lack a valid token or host name.

    metrics: counts the refusals.
    """

    app: ASGIApp
    bounds: Bounds
    metrics: Metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = {name.lower(): value for name, value in scope["headers"]}
        user = self._user(headers)
        refusal = self._refusal(scope["path"], headers, user)
        scope[USER] = user or ""
        if refusal is not None:
            status, code, sentence = refusal
            self.metrics.refusals.labels(code).inc()
            await _send(send, status, code, sentence)
            return
        most = self._most(headers)
        await self.app(scope, _bounded(receive, most), send)

    def _user(self, headers: dict[bytes, bytes]) -> str | None:
        """The owner of a request's token, "" if none is required, None for an invalid one."""
        sent, found = headers.get(b"authorization", b""), None
        # compares with all of them, in constant time
        for token, user in self.bounds.tokens.items():
            if secrets.compare_digest(sent, f"Bearer {token}".encode()):
                found = user
        return found if self.bounds.tokens else ""

    def _refusal(
        self, path: str, headers: dict[bytes, bytes], user: str | None
    ) -> tuple[int, str, str] | None:
        """Status, code and message of a refusal; None where the request is allowed."""
        host = headers.get(b"host", b"").decode("latin-1")
        name = host.rsplit(":", 1)[0] if not host.endswith("]") else host
        if self.bounds.hosts and name not in self.bounds.hosts:
            return 421, "wrong_host", f"{name[:60]!r} is not a name of this server"
        if user is None and path not in OPEN:
            return 401, "no_token", "send the token: Authorization: Bearer TOKEN"
        most, stated = self._most(headers), headers.get(b"content-length", b"0")
        if not stated.isdigit() or len(stated) > 15 or int(stated) > most:
            return 413, "too_large", _too_large(most)
        return None

    def _most(self, headers: dict[bytes, bytes]) -> int:
        sends_files = headers.get(b"content-type", b"").startswith(b"multipart/")
        return self.bounds.upload_bytes if sends_files else self.bounds.body_bytes


def _too_large(most: int) -> str:
    return f"the body is larger than {most:,} bytes: send less at once"


def _bounded(receive: Receive, most: int) -> Receive:
    """The request's content, up to a limit of bytes."""
    got = 0

    async def bounded() -> Message:
        nonlocal got
        message = await receive()
        got += len(message.get("body", b""))
        if got > most:
            raise HTTPException(413, _too_large(most))
        return message

    return bounded


async def _send(send: Send, status: int, code: str, sentence: str) -> None:
    body = json.dumps(document(code, sentence)).encode()
    headers: list[Any] = [(b"content-type", b"application/json")]
    headers.append((b"content-length", str(len(body)).encode()))
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})

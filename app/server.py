"""The server of the dashboard: `main.py` behind headers and a check of where a request comes from.

`streamlit run` finds `app` here.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import os
import re
import secrets
import sys
import tempfile
import threading
import webbrowser
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import streamlit as st
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.access_log import AccessLog
from app.jobs import server_queue
from app.rights import ACCESS_LOG, TOKEN
from genz_core.common.installation import pip_install_extra
from genz_core.errors import InvalidValue

if TYPE_CHECKING:
    from app.api.metrics import Metrics

_INLINE_SCRIPT = re.compile(rb"<script>(.*?)</script>", re.DOTALL)
_DEFAULT_PORTS = {"http": ":80", "https": ":443"}


def content_security_policy() -> str:
    """Everything from this server; styles and pictures also from the page itself.

    The scripts that Streamlit's own page holds are named by their hashes.
    """
    page = (Path(st.__file__).parent / "static" / "index.html").read_bytes()
    hashes = (hashlib.sha256(script).digest() for script in _INLINE_SCRIPT.findall(page))
    scripts = " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in hashes)
    return "; ".join(
        [
            "default-src 'self'",
            f"script-src 'self' {scripts}",
            "style-src 'self' 'unsafe-inline'",
            "img-src 'self' data: blob:",
            "font-src 'self' data:",
            "worker-src 'self' blob:",
            "object-src 'none'",
            "base-uri 'self'",
            "form-action 'self'",
            "frame-ancestors 'self'",
        ]
    )


class SecurityHeaders:
    """Middleware: headers on every answer that keep a page to its own server and out of frames."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self.headers = {
            "Content-Security-Policy": content_security_policy(),
            "X-Frame-Options": "SAMEORIGIN",
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "same-origin",
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(self.headers)
            await send(message)

        await self.app(scope, receive, send_with_headers)


class SameOrigin:
    """Middleware: requests that a page of another origin makes are refused.

    Streamlit would ask a server elsewhere for this machine's public address before it refuses one.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket") or is_same_origin(Headers(scope=scope)):
            await self.app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            refusal = PlainTextResponse("This server answers its own pages alone.", 403)
            await refusal(scope, receive, send)


def is_same_origin(headers: Headers) -> bool:
    """Whether a request names no origin, the host that it was sent to, or one that is allowed."""
    origin, host = headers.get("origin"), headers.get("host", "")
    if origin is None or origin in st.get_option("server.corsAllowedOrigins"):
        return True
    parts = urlsplit(origin)
    port = _DEFAULT_PORTS.get(parts.scheme, "")
    return parts.netloc.removesuffix(port) == host.removesuffix(port)


class Sessions:
    """Middleware: counts the sessions that are open."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self.app, self.metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "websocket":
            await self.app(scope, receive, send)
            return
        with self.metrics.sessions.track_inprogress():
            await self.app(scope, receive, send)


def counters(metrics: Metrics | None) -> Callable[[Request], Awaitable[Response]]:
    """The page /metrics: for requests with the token, or from this machine if there is no token."""

    async def shown(request: Request) -> Response:
        token = os.environ.get(TOKEN, "")
        sent = request.headers.get("authorization", "").encode("latin-1")
        here = request.client is not None and request.client.host in ("127.0.0.1", "::1")
        passed_on = "x-forwarded-for" in request.headers or "forwarded" in request.headers
        if token and not secrets.compare_digest(sent, f"Bearer {token}".encode()):
            return PlainTextResponse("Send the token: Authorization: Bearer TOKEN", 401)
        if not token and (passed_on or not here):
            return PlainTextResponse(f"Counters are for this machine, unless {TOKEN} is set.", 403)
        if metrics is None:
            return PlainTextResponse(f"Counters need a package: {pip_install_extra('api')}", 501)
        with contextlib.suppress(InvalidValue):  # a data folder that cannot be written
            metrics.jobs.set(len(server_queue().under_way))
        return Response(metrics.text(), media_type="text/plain; version=0.0.4")

    return shown


@asynccontextmanager
async def running(_: st.App) -> AsyncIterator[None]:
    """Keep temporary files in one folder, which goes with the server, and open a browser.

    A signal ends the process before Python would remove what sessions still hold.
    """
    with tempfile.TemporaryDirectory(prefix="ridgeline-", ignore_cleanup_errors=True) as folder:
        tempfile.tempdir = folder
        if not st.get_option("server.headless"):
            threading.Thread(target=webbrowser.open, args=(address(),), daemon=True).start()
        yield


def address() -> str:
    """Where a browser on this machine finds the dashboard."""
    host, port = st.get_option("browser.serverAddress"), st.get_option("server.port")
    return f"http://{host}:{port}/" + st.get_option("server.baseUrlPath").strip("/")


def middleware() -> tuple[list[Middleware], Metrics | None]:
    """What stands in front of every request, and what it counts with, None without the extra."""
    found = [Middleware(SecurityHeaders), Middleware(SameOrigin)]
    metrics = None
    if find_spec("prometheus_client") is not None:  # of the extra api
        from app.api.metrics import Counting, Metrics

        metrics = Metrics()
        counted = [Middleware(Counting, metrics=metrics), Middleware(Sessions, metrics=metrics)]
        found = [*counted, *found]
    if os.environ.get(ACCESS_LOG):
        found = [Middleware(AccessLog, write=partial(print, file=sys.stderr, flush=True)), *found]
    return found, metrics


_middleware, _metrics = middleware()
app = st.App(
    Path(__file__).with_name("main.py"),
    middleware=_middleware,
    routes=[Route("/metrics", counters(_metrics))],
    lifespan=running,
)

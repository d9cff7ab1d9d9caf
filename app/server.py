"""The server of the dashboard: `main.py` behind headers, a check of where a request comes from, and
the style of its pages.

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
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import streamlit as st
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.access_log import AccessLog
from app.dashboard import preload
from app.jobs import server_queue
from app.rights import ACCESS_LOG, TOKEN
from genz_core.common.installation import pip_install_extra
from genz_core.errors import InvalidValue

if TYPE_CHECKING:
    from app.api.metrics import Metrics

#: Streamlit's page: every address of a page answers with it, and its scripts draw the rest.
PAGE = Path(st.__file__).parent / "static" / "index.html"
#: What the theme of .streamlit/config.toml cannot say.
STYLE = Path(__file__).with_name("pages.css")
_INLINE_SCRIPT = re.compile(rb"<script>(.*?)</script>", re.DOTALL)
_DEFAULT_PORTS = {"http": ":80", "https": ":443"}
#: How long a thread computes while others wait for their turn [s]. A page waits for one after each
#: of its elements: at Python's 5 ms, one page that computes slows another one threefold.
_TURN_S = 0.0005


def content_security_policy() -> str:
    """Everything from this server; styles and pictures also from the page itself.

    The scripts that Streamlit's own page holds are named by their hashes.
    """
    scripts = _INLINE_SCRIPT.findall(PAGE.read_bytes())
    hashes = (hashlib.sha256(script).digest() for script in scripts)
    allowed = " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in hashes)
    return "; ".join(
        [
            "default-src 'self'",
            f"script-src 'self' {allowed}",
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


class StyledPage:
    """Middleware: Streamlit's page with `pages.css` in it, so that what the page draws first stands
    where it stays.

    The page is recognised by its ETag, which is made of a file's time and size, and by an address
    without the ending of another kind of file. It is sent uncompressed and whole, with an ETag of
    its own.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self.unstyled = FileResponse(PAGE, stat_result=PAGE.stat()).headers["ETag"]
        # last in the page: of two rules of equal weight this style's applies, not Streamlit's
        before, end, after = PAGE.read_bytes().rpartition(b"</body>")
        self.page = b"".join([before, b"<style>\n", STYLE.read_bytes(), b"</style>\n", end, after])
        self.etag = f'"{hashlib.sha256(self.page).hexdigest()[:32]}"'

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        replaced = False

        async def send_styled(message: Message) -> None:
            nonlocal replaced
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                page = PurePosixPath(scope["path"]).suffix in ("", ".html")
                replaced = page and headers.get("ETag") == self.unstyled
                if replaced:
                    await self.answer(scope, headers, send)
            if not replaced:
                await send(message)

        await self.app(scope, receive, send_styled)

    async def answer(self, scope: Scope, headers: MutableHeaders, send: Send) -> None:
        """Send the page, or that the browser's copy is current.  headers: of the unstyled page."""
        for name in ("Accept-Ranges", "Content-Encoding", "Content-Range", "Last-Modified"):
            del headers[name]
        headers.update({"Cache-Control": "no-cache", "ETag": self.etag})
        known = Headers(scope=scope).get("If-None-Match", "").split(",")
        current = not {"*", self.etag}.isdisjoint(tag.strip().removeprefix("W/") for tag in known)
        if current:
            del headers["Content-Length"]
        else:
            headers["Content-Length"] = str(len(self.page))
            headers["Content-Type"] = "text/html; charset=utf-8"
        start = {"type": "http.response.start", "status": 304 if current else 200}
        await send({**start, "headers": headers.raw})
        body = b"" if current or scope["method"] == "HEAD" else self.page
        await send({"type": "http.response.body", "body": body})


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
            refusal = PlainTextResponse("This server only answers requests of its own pages.", 403)
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
            return PlainTextResponse(
                f"Counters are only available on this machine, unless {TOKEN} is set.", 403
            )
        if metrics is None:
            return PlainTextResponse(f"Counters need a package: {pip_install_extra('api')}", 501)
        with contextlib.suppress(InvalidValue):  # a data folder that cannot be written
            metrics.jobs.set(len(server_queue().under_way))
        return Response(metrics.text(), media_type="text/plain; version=0.0.4")

    return shown


@asynccontextmanager
async def running(_: st.App) -> AsyncIterator[None]:
    """Give threads short turns, keep temporary files in one folder, which goes with the server,
    open a browser, and load what pages need.

    A signal ends the process before Python would remove what sessions still hold.
    """
    sys.setswitchinterval(_TURN_S)
    with tempfile.TemporaryDirectory(prefix="ridgeline-", ignore_cleanup_errors=True) as folder:
        tempfile.tempdir = folder
        if not st.get_option("server.headless"):
            threading.Thread(target=webbrowser.open, args=(address(),), daemon=True).start()
        preload.begin()
        yield


def address() -> str:
    """Where a browser on this machine finds the dashboard."""
    host, port = st.get_option("browser.serverAddress"), st.get_option("server.port")
    return f"http://{host}:{port}/" + st.get_option("server.baseUrlPath").strip("/")


def middleware() -> tuple[list[Middleware], Metrics | None]:
    """What stands in front of every request, and what it counts with, None without the extra."""
    found = [Middleware(SecurityHeaders), Middleware(SameOrigin), Middleware(StyledPage)]
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

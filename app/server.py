"""The server of the dashboard: `main.py` behind headers and a check of where a request comes from.

`streamlit run` finds `app` here.
"""

from __future__ import annotations

import base64
import hashlib
import re
import tempfile
import threading
import webbrowser
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import streamlit as st
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

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


app = st.App(
    Path(__file__).with_name("main.py"),
    middleware=[Middleware(SecurityHeaders), Middleware(SameOrigin)],
    lifespan=running,
)

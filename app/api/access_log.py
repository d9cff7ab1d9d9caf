"""A log line per request, or per session when it ends: when, who, what, how long."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.request_bounds import USER

_LONGEST_PATH = 200


@dataclass(frozen=True, slots=True)
class AccessLog:
    """Writes one JSON object per request with `write`, without query, header or body."""

    app: ASGIApp
    write: Callable[[str], object]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        began, status, size = time.perf_counter(), 500, 0

        async def noting(message: Message) -> None:
            nonlocal status, size
            if message["type"] == "http.response.start":
                status = message["status"]
            elif message["type"] == "websocket.accept":
                status = 101
            size += len(message.get("body") or message.get("bytes") or b"")
            await send(message)

        try:
            await self.app(scope, receive, noting)
        finally:
            line = {
                "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
                "client": (scope.get("client") or ("",))[0],
                "user": scope.get(USER, ""),
                "method": scope.get("method", "WEBSOCKET"),
                "path": scope["path"][:_LONGEST_PATH],
                "status": status,
                "bytes": size,
                "seconds": round(time.perf_counter() - began, 4),
            }
            self.write(json.dumps(line))

"""A server for programs that shuts down in bounded time."""

from collections.abc import Callable
from socket import socket

import uvicorn
from starlette.types import ASGIApp

from app.api.access_log import AccessLog
from app.api.workers import Workers

#: Seconds for sending short answers after a signal; long ones are cancelled at once.
_LAST_ANSWERS_S = 5
_MOST_CONNECTIONS = 256


class _Server(uvicorn.Server):
    """Cancels the work of processes before it waits for pending answers."""

    workers: Workers
    say: Callable[[str], object]

    async def shutdown(self, sockets: list[socket] | None = None) -> None:
        for ended in self.workers.stop():
            self.say(f"cancelled, because the server is shutting down: {ended}")
        await super().shutdown(sockets)


def serve(
    app: ASGIApp, workers: Workers, host: str, port: int, log: bool, say: Callable[[str], object]
) -> None:
    """Answer at an address until a signal arrives; returns within ten seconds after it.

    log: whether each request is logged.  say: writes a line.
    """
    served = AccessLog(app, say) if log else app
    server = _Server(
        uvicorn.Config(
            served, host=host, port=port, log_level="warning", server_header=False,
            limit_concurrency=_MOST_CONNECTIONS, timeout_graceful_shutdown=_LAST_ANSWERS_S,
        )
    )  # fmt: skip
    server.workers, server.say = workers, say
    workers.begin()
    server.run()

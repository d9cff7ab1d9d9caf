"""ridgeline mcp: the verbs as tools of an assistant (Model Context Protocol)."""

from pathlib import Path
from typing import Annotated

import typer

from app.commands.library.servers import (
    Log,
    LogOption,
    check_installed,
    collect_garbage,
    serve_at,
    users_at,
)
from genz_core.common.installation import pip_install_extra
from genz_core.limits import checked_duration


def mcp(
    http: Annotated[bool, typer.Option("--http", help="Listen on HTTP, at /mcp.")] = False,
    host: Annotated[str, typer.Option(help="With --http: address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="With --http: port.", min=1, max=65535)] = 8601,
    token: Annotated[
        str,
        typer.Option(envvar="RIDGELINE_API_TOKEN", help="With --http: bearer token."),
    ] = "",
    tokens: Annotated[
        Path | None,
        typer.Option(help='With --http: file of users\' tokens, one "NAME TOKEN" per line.'),
    ] = None,
    log: LogOption = Log.auto,
    seconds: Annotated[float, typer.Option(help="Time limit of one answer in seconds.")] = 60.0,
) -> None:
    """Serve tools to an AI assistant (MCP) over stdio, or over HTTP with --http."""
    check_installed("mcp", pip_install_extra("mcp"))

    collect_garbage()

    from app.api.answers import Answers
    from app.api.mcp_server import over_http, server
    from app.api.workers import Workers

    workers = Workers(limit_s=checked_duration("--seconds", seconds))
    made = server(Answers(workers))
    if not http:
        workers.begin()
        try:
            made.run("stdio")
        finally:
            workers.stop()
        return
    users = users_at(host, port, token, tokens)
    for name in ("uvicorn", "prometheus_client"):
        check_installed(name, pip_install_extra("mcp"))

    from app.api.request_bounds import Bounds

    served = over_http(made, host, Bounds(token=token, users=users))
    serve_at(host, port, log, served, workers)

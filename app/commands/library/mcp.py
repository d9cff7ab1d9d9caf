"""ridgeline mcp: the verbs as tools of an assistant (Model Context Protocol)."""

from __future__ import annotations

from typing import Annotated

import typer

from app.commands.library.listening import LOOPBACK, check_free


def register(cli: typer.Typer) -> None:
    cli.command("mcp", help="Be asked by an assistant (MCP): over stdio, or --http.")(mcp)


def mcp(
    http: Annotated[bool, typer.Option("--http", help="Listen on HTTP, at /mcp.")] = False,
    host: Annotated[str, typer.Option(help="With --http: address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="With --http: port.", min=1, max=65535)] = 8601,
    token: Annotated[
        str,
        typer.Option(envvar="RIDGELINE_API_TOKEN", help="With --http: that requests must bear."),
    ] = "",
    seconds: Annotated[float, typer.Option(help="Longest time of one answer.")] = 60.0,
) -> None:
    from importlib.util import find_spec

    from genz_core.errors import InvalidValue
    from genz_core.installing import pip_install_extra
    from genz_core.limits import checked_duration

    if find_spec("mcp") is None:
        raise InvalidValue(f"mcp is not installed; run: {pip_install_extra('mcp')}")
    from app.api.answers import Answers
    from app.api.mcp_server import server
    from app.api.workers import Workers

    made = server(Answers(Workers(limit_s=checked_duration("--seconds", seconds))))
    if not http:
        made.run("stdio")
        return
    check_free(host, port)
    if host not in LOOPBACK and not token:
        raise InvalidValue(f"all who reach {host} may ask: give --token")

    import uvicorn

    from app.api.doors import Bounds, Door

    app = Door(made.streamable_http_app(host=host), Bounds(token=token))
    uvicorn.run(app, host=host, port=port, log_level="warning", server_header=False)

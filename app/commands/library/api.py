"""ridgeline api: the command line's answers over HTTP, for programs."""

from pathlib import Path
from typing import Annotated

import typer

from app.commands.library.servers import (
    LOOPBACK,
    Log,
    LogOption,
    check_installed,
    collect_garbage,
    serve_at,
    users_at,
)
from genz_core.common.installation import pip_install_extra
from genz_core.errors import InvalidValue
from genz_core.limits import checked_duration

_HOSTS = ("localhost", "127.0.0.1", "[::1]")


def api(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on.", min=1, max=65535)] = 8600,
    token: Annotated[
        str,
        typer.Option(
            envvar="RIDGELINE_API_TOKEN",
            help="Bearer token; required if other machines can connect.",
        ),
    ] = "",
    tokens: Annotated[
        Path | None, typer.Option(help='File of users\' tokens, one "NAME TOKEN" per line.')
    ] = None,
    log: LogOption = Log.auto,
    seconds: Annotated[float, typer.Option(help="Time limit of one answer in seconds.")] = 60.0,
    at_once: Annotated[
        int,
        typer.Option(
            help="Simulations, sweeps and plans that run at the same time.", min=1, max=64
        ),
    ] = 2,
    body_mb: Annotated[float, typer.Option(help="Largest request body in MB.")] = 10.0,
    upload_mb: Annotated[float, typer.Option(help="Largest upload of one request in MB.")] = 50.0,
) -> None:
    """Serve the REST API: estimate, serve, plan ... for other programs."""
    for name in ("fastapi", "uvicorn", "prometheus_client"):
        check_installed(name, pip_install_extra("api"))
    for option, size in (("--body-mb", body_mb), ("--upload-mb", upload_mb)):
        if not 0.0 < size <= 1e4:
            raise InvalidValue(f"{option} = {size:g}: give a size above 0, up to 10,000")
    users = users_at(host, port, token, tokens)

    collect_garbage()

    from app.api.answers import Answers
    from app.api.request_bounds import Bounds
    from app.api.rest import application
    from app.api.workers import Workers

    workers = Workers(at_once, limit_s=checked_duration("--seconds", seconds))
    hosts = _HOSTS if host in LOOPBACK else ()
    bounds = Bounds(int(body_mb * 1e6), int(upload_mb * 1e6), token, hosts, users)
    served = application(bounds, Answers(workers))
    typer.echo(f"http://{host}:{port}/openapi.json describes all requests", err=True)
    serve_at(host, port, log, served, workers)

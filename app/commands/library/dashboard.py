"""ridgeline app: open the dashboard."""

from pathlib import Path
from typing import Annotated

import typer

from app.commands.library.servers import LOOPBACK, Log, LogOption, check_free, check_installed
from genz_core.common.installation import pip_install_extra


def app(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(help="Port to listen on; 0: a free one.", min=0, max=65535)
    ] = 8501,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Do not open a browser.")
    ] = False,
    shared: Annotated[
        bool,
        typer.Option(
            "--shared",
            help="Serve other users: each visitor's data stay private, kept runs are read-only, "
            "and nothing is measured on this machine.",
        ),
    ] = False,
    may_save: Annotated[
        bool,
        typer.Option(
            "--visitors-may-save",
            help="With --shared: visitors may change the systems, calibrations and kept runs of "
            "everyone.",
        ),
    ] = False,
    may_measure: Annotated[
        bool,
        typer.Option(
            "--visitors-may-measure", help="With --shared: visitors may run models on this machine."
        ),
    ] = False,
    login: Annotated[
        Path | None,
        typer.Option(
            help='File of secrets with a section "auth": visitors log in by OpenID Connect.',
        ),
    ] = None,
    log: LogOption = Log.auto,
    base_path: Annotated[
        str, typer.Option(help="Path of the dashboard behind a proxy, such as /ridgeline.")
    ] = "",
) -> None:
    """Open the dashboard in a browser, or serve it to others."""
    from app.commands.library.dashboard_server import (
        become_server,
        check_login,
        settings,
        variables,
        visitors_rights,
    )

    check_installed("streamlit", pip_install_extra("dashboard"))
    rights = visitors_rights(shared, may_save, may_measure, login is not None)
    check_free(host, port)
    if login:
        check_login(login)
    if host not in LOOPBACK and not shared:
        typer.echo(
            f"Warning: anyone who can reach {host} can save, delete and measure as you can; give "
            "--shared to separate visitors.",
            err=True,
        )
    become_server(
        settings(host, port, base_path, not no_browser, shared, login),
        variables(rights, log.written(shared)),
    )

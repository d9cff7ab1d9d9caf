"""ridgeline app: open the dashboard."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from app.commands.library.listening import EVERYWHERE, LOOPBACK, Log, LogOption, check_free


def register(cli: typer.Typer) -> None:
    cli.command("app", help="Open the dashboard in a browser, or serve it to others.")(app)


def app(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(help="Port to listen on; 0: a free one.", min=0, max=65535)
    ] = 8501,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Open no browser.")] = False,
    shared: Annotated[
        bool,
        typer.Option(
            "--shared",
            help="Serve others: what a visitor saves stays the visitor's own, kept runs are read "
            "only, and nothing is measured on this machine.",
        ),
    ] = False,
    may_save: Annotated[
        bool,
        typer.Option(
            "--visitors-may-save",
            help="With --shared: visitors change systems, calibrations and kept runs for all.",
        ),
    ] = False,
    may_measure: Annotated[
        bool,
        typer.Option(
            "--visitors-may-measure", help="With --shared: visitors run models on this machine."
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
    import os
    from importlib.util import find_spec

    from app.rights import ACCESS_LOG, VARIABLE, Rights
    from genz_core.errors import InvalidValue
    from genz_core.installing import pip_install
    from hardware_db.data_folder import users_folder

    if find_spec("streamlit") is None:
        raise InvalidValue(f"streamlit is not installed; run: {pip_install('streamlit>=1.60')}")
    if (may_save or may_measure) and not shared:
        option = "--visitors-may-save" if may_save else "--visitors-may-measure"
        raise InvalidValue(f"{option} is for others than you: give --shared with it")
    alone = not shared
    rights = Rights(shared, alone or may_save, alone or may_measure, login is not None)
    check_free(host, port)
    if login:
        check_login(login)
    if host not in LOOPBACK and alone:
        typer.echo(
            f"Warning: all who reach {host} may save, delete and measure as you do; give "
            "--shared to keep visitors apart.",
            err=True,
        )
    if log.written(shared):
        os.environ[ACCESS_LOG] = "1"
    if rights != Rights():
        os.environ[VARIABLE] = rights.words()
    os.environ["RIDGELINE_DATA"] = str(users_folder().absolute())
    settings = {
        "server.address": host,
        "server.port": port,
        "server.baseUrlPath": base_path.strip("/"),
        "server.headless": str(no_browser).lower(),
        "browser.serverAddress": "localhost" if host in (*EVERYWHERE, "::1") else host,
        **({"client.showErrorDetails": "none"} if shared else {}),
        **({"secrets.files": login.absolute()} if login else {}),
    }
    _become_server(settings)


def _become_server(options: Mapping[str, object]) -> NoReturn:
    """Run Streamlit with these options in place of this process; it asks no other server."""
    import os
    import sys

    import app
    from genz_core.installing import environment

    quiet = {
        "server.showEmailPrompt": "false",
        "server.fileWatcherType": "none",
        "browser.gatherUsageStats": "false",
    }
    entry = Path(app.__file__).with_name("server.py")
    flags = [f"--{name}={value}" for name, value in {**options, **quiet}.items()]
    os.chdir(entry.parent)  # where .streamlit/config.toml lies
    command = [sys.executable, "-m", "streamlit", "run", str(entry), *flags]
    os.execve(sys.executable, command, environment())


def check_login(secrets: Path) -> None:
    """Look for what a login needs, before anybody asks for one.

    Raises:
        InvalidValue: no such file, no section [auth] in it, or Authlib is not installed.
    """
    import tomllib
    from importlib.util import find_spec

    from genz_core.errors import InvalidValue
    from genz_core.installing import pip_install_extra

    try:
        auth = tomllib.loads(secrets.read_text(encoding="utf-8")).get("auth")
    except (OSError, ValueError) as error:
        raise InvalidValue(f"{secrets} cannot be read as a file of secrets: {error}") from None
    needed = ("redirect_uri", "cookie_secret", "client_id", "client_secret", "server_metadata_url")
    stated = auth if isinstance(auth, dict) else {}
    if missing := [name for name in needed if name not in stated]:
        raise InvalidValue(f"{secrets} has no {', '.join(missing)} in its section [auth]")
    if find_spec("authlib") is None:
        raise InvalidValue(f"a login needs Authlib; run: {pip_install_extra('auth')}")

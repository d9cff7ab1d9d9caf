"""ridgeline app: open the dashboard."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from app.commands.grouping import grouped
from app.commands.library.listening import EVERYWHERE, LOOPBACK, check_free

if TYPE_CHECKING:
    from app.rights import Rights


@dataclass(frozen=True)
class _Place:
    """Where the dashboard is."""

    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1"
    port: Annotated[
        int, typer.Option(help="Port to listen on; 0: a free one.", min=0, max=65535)
    ] = 8501
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Open no browser.")] = False


@dataclass(frozen=True)
class _Visitors:
    """Whom it serves, and what they may do."""

    shared: Annotated[
        bool,
        typer.Option(
            "--shared",
            help="Serve others: what a visitor saves stays the visitor's own, kept runs are read "
            "only, and nothing is measured on this machine.",
        ),
    ] = False
    may_save: Annotated[
        bool,
        typer.Option(
            "--visitors-may-save",
            help="With --shared: visitors change systems, calibrations and kept runs for all.",
        ),
    ] = False
    may_measure: Annotated[
        bool,
        typer.Option(
            "--visitors-may-measure", help="With --shared: visitors run models on this machine."
        ),
    ] = False
    login: Annotated[
        Path | None,
        typer.Option(
            help='File of secrets with a section "auth": visitors log in by OpenID Connect.',
        ),
    ] = None


def register(cli: typer.Typer) -> None:
    cli.command("app", help="Open the dashboard in a browser, or serve it to others.")(grouped(app))


def app(
    place: _Place,
    visitors: _Visitors,
    base_path: Annotated[
        str, typer.Option(help="Path of the dashboard behind a proxy, such as /ridgeline.")
    ] = "",
) -> None:
    import os
    from importlib.util import find_spec

    from app.rights import VARIABLE, Rights
    from genz_core.errors import InvalidValue
    from genz_core.installing import pip_install
    from hardware_db.data_folder import users_folder

    if find_spec("streamlit") is None:
        raise InvalidValue(f"streamlit is not installed; run: {pip_install('streamlit>=1.60')}")
    rights = _rights(visitors)
    check_free(place.host, place.port)
    if visitors.login:
        check_login(visitors.login)
    if place.host not in LOOPBACK and not rights.shared:
        typer.echo(
            f"Warning: all who reach {place.host} may save, delete and measure as you do; give "
            "--shared to keep visitors apart.",
            err=True,
        )
    if rights != Rights():
        os.environ[VARIABLE] = rights.words()
    os.environ["RIDGELINE_DATA"] = str(users_folder().absolute())
    _become_server(_settings(place, visitors, base_path))


def _rights(visitors: _Visitors) -> Rights:
    """What visitors may do.

    Raises:
        InvalidValue: a right of others where there are none.
    """
    from app.rights import Rights
    from genz_core.errors import InvalidValue

    alone = not visitors.shared
    if alone and (visitors.may_save or visitors.may_measure):
        option = "--visitors-may-save" if visitors.may_save else "--visitors-may-measure"
        raise InvalidValue(f"{option} is for others than you: give --shared with it")
    return Rights(
        visitors.shared,
        alone or visitors.may_save,
        alone or visitors.may_measure,
        visitors.login is not None,
    )


def _settings(place: _Place, visitors: _Visitors, base_path: str) -> dict[str, object]:
    """Options of Streamlit's server."""
    host = place.host
    return {
        "server.address": host,
        "server.port": place.port,
        "server.baseUrlPath": base_path.strip("/"),
        "server.headless": str(place.no_browser).lower(),
        "browser.serverAddress": "localhost" if host in (*EVERYWHERE, "::1") else host,
        **({"client.showErrorDetails": "none"} if visitors.shared else {}),
        **({"secrets.files": visitors.login.absolute()} if visitors.login else {}),
    }


def _become_server(options: Mapping[str, object]) -> NoReturn:
    """Run Streamlit with these options in place of this process; it asks no other server."""
    import os
    import sys

    import app

    quiet = {
        "server.showEmailPrompt": "false",
        "server.fileWatcherType": "none",
        "browser.gatherUsageStats": "false",
    }
    entry = Path(app.__file__).with_name("server.py")
    flags = [f"--{name}={value}" for name, value in {**options, **quiet}.items()]
    os.chdir(entry.parent)  # where .streamlit/config.toml lies
    os.execv(sys.executable, [sys.executable, "-m", "streamlit", "run", str(entry), *flags])


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

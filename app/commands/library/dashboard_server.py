"""The dashboard's server: its settings, and how this process is replaced by it."""

import os
import sys
import tomllib
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

import app
from app.commands.library.servers import EVERYWHERE
from app.rights import ACCESS_LOG, VARIABLE, Rights
from genz_core.common.installation import environment, pip_install_extra
from genz_core.errors import InvalidValue, file_problem
from hardware_db.data_folder import users_folder

_QUIET = {
    "server.showEmailPrompt": "false",
    "server.fileWatcherType": "none",
    "browser.gatherUsageStats": "false",
}
_OF_A_LOGIN = (
    "redirect_uri", "cookie_secret", "client_id", "client_secret", "server_metadata_url",
)  # fmt: skip


def visitors_rights(shared: bool, may_save: bool, may_measure: bool, login: bool) -> Rights:
    """The rights of visitors given by the options; a single user may do everything.

    Raises:
        InvalidValue: a right of visitors on a server that is not shared.
    """
    if (may_save or may_measure) and not shared:
        option = "--visitors-may-save" if may_save else "--visitors-may-measure"
        raise InvalidValue(
            f"{option} is for the visitors of a shared server: give --shared as well"
        )
    return Rights(shared, may_save or not shared, may_measure or not shared, login)


def check_login(secrets: Path) -> None:
    """Check the requirements of a login before the server starts.

    Raises:
        InvalidValue: no such file, no section [auth] in it, or Authlib is not installed.
    """
    try:
        auth = tomllib.loads(secrets.read_text(encoding="utf-8")).get("auth")
    except (OSError, ValueError) as error:
        raise InvalidValue(
            f"{secrets} cannot be read as a file of secrets: {file_problem(error)}"
        ) from None
    stated = auth if isinstance(auth, dict) else {}
    if missing := [name for name in _OF_A_LOGIN if name not in stated]:
        raise InvalidValue(f"{secrets} has no {', '.join(missing)} in its section [auth]")
    if find_spec("authlib") is None:
        raise InvalidValue(f"a login needs Authlib; run: {pip_install_extra('auth')}")


def settings(
    host: str, port: int, base_path: str, browser: bool, shared: bool, login: Path | None
) -> dict[str, object]:
    """Streamlit's settings by name.

    base_path: path behind a proxy.  browser: whether to open one.  login: the file of secrets.
    """
    return {
        "server.address": host,
        "server.port": port,
        "server.baseUrlPath": base_path.strip("/"),
        "server.headless": str(not browser).lower(),
        "browser.serverAddress": "localhost" if host in (*EVERYWHERE, "::1") else host,
        **({"client.showErrorDetails": "none"} if shared else {}),
        **({"secrets.files": login.absolute()} if login else {}),
        **_QUIET,
    }


def variables(rights: Rights, log: bool) -> dict[str, str]:
    """Environment variables that pass the options of `ridgeline app` to the server.

    log: whether it writes a line per request.
    """
    return {
        "RIDGELINE_DATA": str(users_folder().absolute()),
        # every run of a page is a thread, and glibc keeps what threads freed in arenas apart
        "MALLOC_ARENA_MAX": os.environ.get("MALLOC_ARENA_MAX", "2"),
        **({ACCESS_LOG: "1"} if log else {}),
        **({VARIABLE: rights.words()} if rights != Rights() else {}),
    }


def become_server(settings: Mapping[str, object], variables: Mapping[str, str]) -> NoReturn:
    """Replace this process by Streamlit with these settings; it contacts no other server."""
    entry = Path(app.__file__).with_name("server.py")
    flags = [f"--{name}={value}" for name, value in settings.items()]
    os.chdir(entry.parent)  # the folder of .streamlit/config.toml
    command = [sys.executable, "-m", "streamlit", "run", str(entry), *flags]
    os.execve(sys.executable, command, {**environment(), **variables})

"""Addresses, tokens and logs of the command line's servers."""

from __future__ import annotations

import errno
import gc
import socket
from collections.abc import Mapping
from enum import StrEnum
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from genz_core.errors import InvalidValue, file_problem

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from app.api.workers import Workers

LOOPBACK = ("localhost", "127.0.0.1", "::1")
EVERYWHERE = ("0.0.0.0", "::")

_SHORTEST_TOKEN = 16
#: Objects that a server makes until it searches them for garbage.
_OBJECTS = 50_000


class Log(StrEnum):
    """Whether a server writes a line per request to standard error; auto: if it serves others."""

    auto = "auto"
    on = "on"
    off = "off"

    def written(self, others: bool) -> bool:
        return others if self is Log.auto else self is Log.on


LogOption = Annotated[
    Log,
    typer.Option(
        help="Log each request on standard error; auto: if the dashboard is shared, or other "
        "machines can connect to the API."
    ),
]


def check_installed(name: str, command: str) -> None:
    """Refuse to continue without a package.  command: installs it.

    Raises:
        InvalidValue: it is not installed.
    """
    if find_spec(name) is None:
        raise InvalidValue(f"{name} is not installed; run: {command}")


def collect_garbage() -> None:
    """Search for garbage as a process that lasts must; a command that ends soon seldom does."""
    gc.set_threshold(_OBJECTS)


def users_at(host: str, port: int, token: str, tokens: Path | None) -> dict[str, str]:
    """The users' tokens of a server, after checking that it may listen at the address.

    Raises:
        InvalidValue: as `tokens_of`, `check_tokens` and `check_free`.
    """
    users = tokens_of(tokens)
    check_tokens(host, token, users)
    check_free(host, port)
    return users


def serve_at(host: str, port: int, log: Log, served: ASGIApp, workers: Workers) -> None:
    """Answer programs at an address until a signal arrives."""
    from app.api.serving import serve

    say = partial(typer.echo, err=True)
    serve(served, workers, host, port, log.written(host not in LOOPBACK), say)


def check_tokens(host: str, token: str, users: Mapping[str, str]) -> None:
    """Refuse to serve other machines without a token.

    Raises:
        InvalidValue: other machines can reach the address, and no token is required.
    """
    if host not in LOOPBACK and not token and not users:
        raise InvalidValue(
            f"anyone who can reach {host} may use it: give --token, or --tokens FILE with one per "
            f"user"
        )


def tokens_of(file: Path | None) -> dict[str, str]:
    """The tokens in a file, each with its user: one "NAME TOKEN" per line, # starts a comment.

    Raises:
        InvalidValue: no such file, a line of another form, a token that is too short or repeated.
    """
    if file is None:
        return {}
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise InvalidValue(
            f"{file} cannot be read as a file of tokens: {file_problem(error)}"
        ) from None
    found: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        here = f"line {number} of {file}"
        if len(words) != 2:
            raise InvalidValue(f"{here} has {len(words)} words: give a user's name and a token")
        name, token = words
        if len(token) < _SHORTEST_TOKEN or not token.isascii():
            raise InvalidValue(
                f"the token of {name!r}, {here}: give {_SHORTEST_TOKEN} or more ASCII characters, "
                "as `openssl rand -hex 32` makes them"
            )
        if token in found:
            raise InvalidValue(f"{found[token]!r} and {name!r} have the same token ({here})")
        found[token] = name
    if not found:
        raise InvalidValue(f"{file} has no token: give a user's name and a token per line")
    return found


def check_free(host: str, port: int) -> None:
    """Bind the address once, to check that the server can.

    Raises:
        InvalidValue: the port is taken, or the address does not belong to this machine.
    """
    foreign = f"{host!r} is not an address of this machine: give 127.0.0.1 or 0.0.0.0"
    if not host:  # the system treats it as every address
        raise InvalidValue(foreign)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except UnicodeError:  # a label that no host name can have
            raise InvalidValue(foreign) from None
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                message = f"port {port} of {host} is in use: give another with --port, 0 for any"
            elif error.errno == errno.EACCES:
                message = (
                    f"port {port} needs administrator rights: give a port above 1023 with --port"
                )
            else:
                message = foreign
            raise InvalidValue(message) from None

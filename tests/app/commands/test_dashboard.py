"""`ridgeline app`: what it refuses, in one sentence, before a server starts."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import Result

from genz_core.errors import InvalidValue

AUTH = """
[auth]
redirect_uri = "https://ridgeline.example.org/oauth2callback"
cookie_secret = "long and random"
client_id = "ridgeline"
client_secret = "of the provider"
server_metadata_url = "https://login.example.org/.well-known/openid-configuration"
"""


@pytest.fixture
def taken() -> Iterator[int]:
    """A port that is in use."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def refusal(result: Result) -> str:
    assert isinstance(result.exception, InvalidValue)
    return str(result.exception)


def test_a_port_in_use_is_a_sentence(ridgeline: Callable[..., Result], taken: int):
    message = refusal(ridgeline("app", "--port", taken))
    assert message == f"port {taken} of 127.0.0.1 is in use: give another with --port, 0 for any"


@pytest.mark.parametrize("host", ["nosuch.invalid", "192.0.2.1", "2001:db8::1", "", "a b", "a..b"])
def test_an_address_of_another_machine_is_a_sentence(ridgeline: Callable[..., Result], host: str):
    message = refusal(ridgeline("app", "--host", host, "--port", 0))
    assert message == f"{host!r} is not an address of this machine: give 127.0.0.1 or 0.0.0.0"


@pytest.mark.parametrize("option", ["--visitors-may-save", "--visitors-may-measure"])
def test_what_visitors_may_do_needs_a_shared_server(ridgeline: Callable[..., Result], option: str):
    assert refusal(ridgeline("app", option)).startswith(
        f"{option} is for the visitors of a shared server"
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "secrets.toml cannot be read as a file of secrets: no such file"),
        ("[auth", "cannot be read as a file of secrets"),
        ("", "has no redirect_uri, cookie_secret, client_id, client_secret, server_metadata_url"),
        (AUTH.replace("cookie_secret", "cookie"), "has no cookie_secret in its section"),
        ("auth = 1", "has no redirect_uri"),
    ],
)
def test_a_file_of_secrets_that_no_login_can_use_is_a_sentence(
    ridgeline: Callable[..., Result], tmp_path: Path, text: str | None, words: str
):
    secrets = tmp_path / "secrets.toml"
    if text is not None:
        secrets.write_text(text)
    assert words in refusal(ridgeline("app", "--port", 0, "--login", secrets))


def test_the_help_states_what_a_shared_server_is(printed: Callable[..., str]):
    page = " ".join(re.sub(r"[│╭╮╰╯─]", " ", printed("app", "--help")).split())
    for words in ("--shared", "--visitors-may-save", "--visitors-may-measure", "--login",
                  "--base-path", "nothing is measured on this machine"):  # fmt: skip
        assert words in page

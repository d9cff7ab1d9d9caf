"""MCP over streamable HTTP: a separate server process, called with the SDK's client.

Half of the scenarios are tested here, the others over REST in test_openapi_client.
"""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.request
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.app.api.services import service
from tests.app.test_one_answer import SERVED, STATIC, printed

MODEL = "meta-llama/Llama-3.1-8B"
TOKEN = "only-for-this-test"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory):
    with service(tmp_path_factory.mktemp("mcp"), "mcp", "--http") as url:
        yield f"{url}/mcp"


async def _asked(address: Any, *questions: tuple[str, dict[str, Any]]) -> list[Any]:
    async with Client(address) as client:
        return [await client.call_tool(tool, given) for tool, given in questions]


def asked(address: Any, *questions: tuple[str, dict[str, Any]]) -> list[Any]:
    answers = asyncio.run(_asked(address, *questions))
    assert not any(answer.is_error for answer in answers)
    return [json.loads(answer.content[0].text) for answer in answers]


def test_static_batches_are_those_of_the_command_line(address):
    answers = asked(address, *(("estimate", scenario) for scenario in STATIC[1::2]))
    for scenario, answer in zip(STATIC[1::2], answers, strict=True):
        command, (row,) = printed("estimate", scenario), answer["rows"]
        assert row["tpot_s"] and {name: command[name] for name in row} == row


def test_loads_are_those_of_the_command_line(address):
    answers = asked(address, *(("serve", scenario) for scenario in SERVED[1::2]))
    for scenario, answer in zip(SERVED[1::2], answers, strict=True):
        (command,), (row,) = printed("serve", scenario), answer["rows"]
        assert row["tpot_s"] and {name: command[name] for name in row} == row


@pytest.mark.slow
def test_long_questions_are_answered_too(address):
    (planned,) = asked(address, ("plan", {"model": MODEL, "systems": ["h100"], "rate": 4}))
    assert planned["plans"][0]["launch"]


def test_a_refusal_is_the_sentence_of_the_command_line(address):
    (answer,) = asyncio.run(_asked(address, ("estimate", {"model": "meta-llama/Lama-3.1-8B"})))
    assert answer.is_error and "near:" in answer.content[0].text


def test_another_hosts_name_is_refused(address):
    """A request under another host's name (DNS rebinding) is refused."""
    named = {"Host": "elsewhere.example", "Content-Type": "application/json"}
    sent = urllib.request.Request(address, b"{}", named)
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(sent, timeout=20)
    assert refused.value.code == 421


def test_a_token_is_asked_for(tmp_path):
    with service(tmp_path, "mcp", "--http", token=TOKEN) as url:
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(urllib.request.Request(f"{url}/mcp", b"{}"), timeout=20)
        assert refused.value.code == 401
        assert _with_token(f"{url}/mcp")["rows"][0]["batch"] == 4


def _with_token(address: str) -> Any:
    async def ask() -> Any:
        bearing = {"Authorization": f"Bearer {TOKEN}"}
        async with httpx2.AsyncClient(headers=bearing, timeout=60.0) as bearer:
            transport = streamable_http_client(address, http_client=bearer)
            return await _asked(transport, ("estimate", {"model": MODEL, "batch": 4}))

    (answer,) = asyncio.run(ask())
    return json.loads(answer.content[0].text)

"""A typed line has the same answer on the command line, in Python, over REST and MCP."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
import ridgeline
from mcp import Client
from starlette.testclient import TestClient
from typer.testing import CliRunner

from app.api.answers import Answers
from app.api.mcp_server import server
from app.api.rest import application
from app.cli import cli
from app.line.line_answer import command, readable
from app.line.line_parser import read
from app.line.unread import NotUnderstood
from app.line.verb import ASKED
from app.question.verbs import VERBS
from genz_core.errors import InvalidValue

SERVED = "llama 8b fp8 on h200 vllm 37 users 900/110"
PLANNED = "llama 8b on up to 2 h100 vllm 3/s 900/110 tpot<40ms pools=aggregated --no-simulate"


def run(*words: str) -> str:
    done = CliRunner().invoke(cli, list(words))
    assert done.exception is None, done.exception
    return done.stdout


def test_one_user_more_than_the_largest_number_misses_the_target():
    text = "how many users can 2 h100 serve llama 8b with tpot < 12ms vllm tp1 --no-simulate"
    line = readable(text)
    users = line.given["concurrency"]
    assert f"{users:,} users are the most" in line.notes[0]
    each = users // 2
    row = ridgeline.serve(
        "meta-llama/Llama-3.1-8B",
        system="h100",
        engine="vllm",
        concurrency=[each, 1.04 * each // 1],
    )
    assert row.tpot_s[0] < 0.012 < row.tpot_s[1]
    for wrong in ("how many users can 2 h100 serve llama 8b", f"{text} 64 users",
                  "how many users can h100 or h200 serve llama 8b tpot<12ms"):  # fmt: skip
        with pytest.raises(InvalidValue, match="the largest number of users"):
            readable(wrong)


@pytest.fixture(scope="module")
def api() -> Any:
    with TestClient(application(answers=Answers())) as client:
        yield client


@pytest.mark.slow
@pytest.mark.parametrize("line", [SERVED, PLANNED], ids=["serve", "plan"])
def test_a_line_is_answered_as_its_verb_and_the_same_everywhere(line: str, api: TestClient):
    typed = json.loads(run("ask", line, "--json"))
    ((_, verb, *words),) = [command(read(line))]
    assert typed["verb"] == verb and typed["understood"]
    answer = json.loads(run(verb, *words, "--json"))
    assert typed["answer"] == ({"rows": answer} if verb == "serve" else answer)
    sent = api.post("/ask", json={"line": line})
    assert sent.status_code == 200 and sent.json() == typed
    assert json.loads(json.dumps(ridgeline.ask(line).to_dict())) == typed

    async def told() -> Any:
        async with Client(server(Answers())) as client:
            return (await client.call_tool("ask", {"line": line})).structured_content

    found = asyncio.run(told())
    assert found["understood"] == typed["understood"] and found["given"] == typed["given"]
    assert found["answer"]


@pytest.mark.parametrize("load", ["batch 3", "simulate 2/s requests 20", "sensitivity batch 2",
                                  "economics 8 users", "5 users"])  # fmt: skip
def test_every_verb_of_a_line_prints_what_it_understood_and_an_answer(load: str):
    verb = load.split(maxsplit=1)[0] if load.split(maxsplit=1)[0] in ASKED else ""
    rest = load.removeprefix(verb)
    shown = run("ask", f"{verb} llama-3.1-8b h100 200/20 {rest}".strip())
    said, _, answer = shown.partition("\n\n")
    assert "Llama-3.1-8B" in said and "200 / 20 tokens" in said and "As a command:" in said
    assert len(answer.split()) > 10


def test_one_load_is_printed_one_figure_a_line():
    lines = [line.split() for line in run("ask", SERVED).splitlines()]
    assert ["figure", "value"] in lines and ["concurrency", "37"] in lines


def test_verbs_of_a_line_are_verbs():
    assert set(ASKED) < set(VERBS)


@pytest.mark.parametrize(
    ("line", "code"), [("llama 8b usrs", "not_understood"), ("h100 5 users", "invalid_value")]
)
def test_a_refusal_is_one_sentence_everywhere(line: str, code: str, api: TestClient):
    done = CliRunner().invoke(cli, ["ask", line])
    sent = api.post("/ask", json={"line": line})
    assert sent.status_code == 422
    assert sent.json()["error"]["code"] == code
    assert sent.json()["error"]["message"] == str(done.exception)
    with pytest.raises(Exception, match=r"usrs|needs a model"):
        ridgeline.ask(line)
    if code == "not_understood":
        assert "users" in sent.json()["error"]["near"]
        assert isinstance(done.exception, NotUnderstood)


@pytest.mark.parametrize(
    ("text", "lacks"), [("gemini on h100", True), ("llama 8b usrs", False), ("kimi k2 h100", False)]
)
def test_an_unknown_model_is_said_to_be_one(text: str, lacks: bool):
    with pytest.raises(NotUnderstood) as refused:
        readable(text)
    assert str(refused.value).endswith("; no known model is named") is lacks


def test_a_plan_without_a_load_is_of_one_user_and_says_so():
    line = readable("llama 8b tpot 25ms on 4 h100")
    assert line.given["concurrency"] == 1
    assert line.notes[-1].startswith("no load is stated, so one user is taken")

"""An assistant that uses the SDK's client gets the same answers as the command line."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.server.mcpserver import MCPServer

from app.api import bodies
from app.api.answers import Answers
from app.api.mcp_server import server
from app.api.workers import Workers
from genz_core.steps.overlap import OVERLAPS
from tests.app.commands.test_cli import run
from tests.app.test_one_answer import SERVED, STATIC, named, printed

ROOT = Path(__file__).parents[3]
MODEL = "meta-llama/Llama-3.1-8B"


@cache
def made() -> MCPServer:
    return server(Answers(Workers(1, waiting_s=120.0, limit_s=120.0)))


async def _asked(tool: str, given: dict[str, Any]) -> Any:
    async with Client(made()) as client:
        return await client.call_tool(tool, given)


def asked(tool: str, **given: Any) -> dict[str, Any]:
    answer = asyncio.run(_asked(tool, given))
    assert not answer.is_error, answer.content
    return json.loads(answer.content[0].text)


def refused(tool: str, **given: Any) -> str:
    answer = asyncio.run(_asked(tool, given))
    assert answer.is_error
    return answer.content[0].text


@pytest.mark.by_day(2)
@pytest.mark.parametrize("scenario", STATIC, ids=named)
def test_a_static_batch_is_that_of_the_command_line(scenario):
    (row,) = asked("estimate", **scenario)["rows"]
    command = printed("estimate", scenario)
    assert {name: command[name] for name in row} == row
    assert {"ttft_s", "tpot_s", "profile", "memory_bytes_per_device"} <= set(row)
    unmeasured = "no measured run had" in row["message"]
    assert ("tpot_low_s" in row, "tpot_s" in row.get("not_validated", "")) == (
        not unmeasured,
        unmeasured,
    )


@pytest.mark.by_day(2)
@pytest.mark.parametrize("scenario", SERVED, ids=named)
def test_a_load_is_that_of_the_command_line(scenario):
    (row,) = asked("serve", **scenario)["rows"]
    (command,) = printed("serve", scenario)
    assert {name: command[name] for name in row} == row


def listed_tools() -> list[Any]:
    async def tools() -> Any:
        async with Client(made()) as client:
            return (await client.list_tools()).tools

    return list(asyncio.run(tools()))


def test_every_verb_is_a_tool_and_says_what_it_takes():
    listed = {tool.name: tool for tool in listed_tools()}
    verbs = {*bodies.ASKED, *bodies.WITH_FILES, "import"}
    assert set(listed) == verbs | {"ask", "study", "models", "model", "systems", "system"}
    assert all(tool.description for tool in listed.values())
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    sentence = page.partition("the same verbs as tools: ")[2].partition(".")[0]
    assert sorted(re.split(r",\s+", sentence)) == sorted(listed)
    shown = listed["serve"].input_schema["properties"]
    assert shown["isl"]["default"] == 1024 and shown["isl"]["description"]
    assert shown["overlap"]["enum"] == list(OVERLAPS)
    assert shown["tp"]["anyOf"][0]["minimum"] == 1
    assert listed["guard"].input_schema["required"] == ["text"]


@pytest.mark.slow
def test_a_plan_comes_with_its_manifests_where_they_are_asked_for():
    given = {"system": ["h100"], "engine": "vllm", "rate": 4, "pools": "aggregated"}
    plan = asked("plan", model=MODEL, **given, simulate=False, deployment="helm")
    assert "servingEngineSpec" in plan["deployment"]["files"]["values.yaml"]
    assert "deployment" not in asked("plan", model=MODEL, **given, simulate=False)


@pytest.mark.slow
def test_answers_are_short():
    plan = asked("plan", model=MODEL, system=["h100"], rate=4, target="tpot < 20ms")
    assert plan["plans"][0]["launch"] and len(json.dumps(plan)) < 20_000
    swept = asked("sweep", model=MODEL, batch=list(range(1, 200)), tp=[1, 2])
    assert swept["count"] == 398 and 1 < len(swept["frontier"]) <= 20
    simulated = asked("simulate", model=MODEL, rate=4, requests=50, osl=64)
    assert simulated["requests"] == 50 and len(json.dumps(simulated)) < 4_000
    assert asked("systems", vendor="nvidia", find="h200")["names"]
    assert all(figure["source"] for figure in asked("system", name="h200")["figures"])
    assert asked("model", name=MODEL)["parameters"] > 8e9


@pytest.mark.slow
def test_a_report_is_sent_as_text():
    path = ROOT / "app" / "samples" / "sglang_llama-3.1-405b.jsonl"
    text = path.read_text()
    found = asked("import", text=text, name=path.name)
    assert found["count"] == len(json.loads(run("import", str(path), "--json")))
    given = {"model": "meta-llama/Llama-3.1-405B", "system": "h200", "tp": 8}
    compared = asked("compare", text=text, name=path.name, **given)
    assert compared["runs"]
    judged = asked("guard", text=text, baseline=text, tolerance=3, **given)
    assert judged["verdicts"] and "passed" in judged
    assert "give the text" in refused("guard", **given)


def test_a_text_of_json_is_a_text():
    """The SDK reads JSON in texts, since assistants write lists as such; a report is no list."""
    path = ROOT / "tests" / "fixtures" / "results" / "aiperf" / "aiperf_0.13_poisson.json"
    text = path.read_text(encoding="utf-8")
    compared = asked("compare", text=text, model="Qwen/Qwen3-0.6B", system="h100", rate=1)
    assert compared["runs"]
    given = {"model": MODEL, "system": "h100", "engine": "vllm"}
    lines = '{"timestamp": 0, "input_length": 100, "output_length": 3}'
    assert asked("simulate", **given, trace=lines)["requests"] == 1


def test_no_argument_of_a_tool_is_ignored_or_refused_in_the_words_of_a_library():
    assert "'search' is not a parameter" in refused("models", search="llama")
    assert "did you mean vendor" in refused("systems", vender="AMD")
    for tool, name in (("ask", "line"), ("model", "name"), ("study", "question")):
        said = refused(tool)
        assert f"{name}: this field is required" in said and "pydantic" not in said
    assert "find = 3: " in refused("models", find=3)


def test_what_an_assistant_reads_before_it_asks_is_short():
    """All tools are in an assistant's context from the start."""
    schemas = {tool.name: json.dumps(tool.input_schema) for tool in listed_tools()}
    assert sum(map(len, schemas.values())) < 260_000
    assert '"title"' not in schemas["estimate"]


def test_refusals_are_the_sentences_of_the_command_line():
    assert "near:" in refused("estimate", model="meta-llama/Lama-3.1-8B")
    assert "tp 3" in refused("estimate", model=MODEL, tp=3)
    assert "give one of" in refused("serve", model=MODEL)
    assert "batch = 'abc'" in refused("estimate", model=MODEL, batch="abc")
    assert "did you mean batch" in refused("estimate", model=MODEL, bacth=4)


def test_other_names_typed_numbers_and_lists_in_texts_are_understood():
    """Assistants write lists as JSON in a text, and names of other engines' options."""
    rows = asked("estimate", model=MODEL, batch="[1, 8]", tensor_parallel_size=2, isl="2k")["rows"]
    assert rows == asked("estimate", model=MODEL, batch=[1, 8], tp=2, isl=2000)["rows"]


def test_answers_of_deciding_verbs_are_short():
    account = asked("economics", model=MODEL, system="h100", concurrency=64, price=2.5)
    assert account and len(json.dumps(account)) < 8_000
    day = asked("scale", model=MODEL, system="h100", rate=4, requests=60)
    assert day["following"]["requests"] == 60 and len(json.dumps(day)) < 16_000
    answers = asked("sensitivity", model=MODEL, system="h100", batch=16)
    assert {"bandwidth", "peak"} <= set(answers["resources"]) and len(json.dumps(answers)) < 8_000


@pytest.mark.by_day(2)
@pytest.mark.parametrize("path", ["/etc/passwd", "./config.json", "~/config.json", "own.yaml"])
def test_no_file_of_the_machine_can_be_named(path, tmp_path, monkeypatch):
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    (tmp_path / "own.yaml").write_text("id: own\n")
    monkeypatch.chdir(tmp_path)
    assert "unknown model" in refused("estimate", model=path)
    assert "unknown system" in refused("estimate", model=MODEL, system=path)
    assert "unknown model" in refused("model", name=path)
    assert "unknown system" in refused("system", name=path)
    assert refused("import", text=path)


@pytest.mark.slow
def test_it_is_asked_over_stdio():
    async def over_stdio() -> Any:
        paths = f"{ROOT}:{ROOT / 'app' / 'python'}"
        started = StdioServerParameters(
            command=sys.executable, args=["-m", "app.cli", "mcp"], env={"PYTHONPATH": paths}
        )
        async with Client(started) as client:
            return await client.call_tool("estimate", {"model": MODEL, "batch": 4})

    answer = asyncio.run(over_stdio())
    (row,) = json.loads(answer.content[0].text)["rows"]
    assert row["batch"] == 4 and row["status"] == "ok"

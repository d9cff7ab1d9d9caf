"""An assistant asks by the SDK's own client, and is answered as the command line answers."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters

from app.api.answers import Answers
from app.api.mcp_server import server
from app.api.workers import Workers
from tests.app.commands.test_cli import run
from tests.app.test_one_answer import SERVED, STATIC, named, options

ROOT = Path(__file__).parents[3]
MODEL = "meta-llama/Llama-3.1-8B"
ANSWERS = Answers(Workers(1, waiting_s=120.0, limit_s=120.0))


async def _asked(tool: str, given: dict[str, Any]) -> Any:
    async with Client(server(ANSWERS)) as client:
        return await client.call_tool(tool, given)


def asked(tool: str, **given: Any) -> dict[str, Any]:
    answer = asyncio.run(_asked(tool, given))
    assert not answer.is_error, answer.content
    return json.loads(answer.content[0].text)


def refused(tool: str, **given: Any) -> str:
    answer = asyncio.run(_asked(tool, given))
    assert answer.is_error
    return answer.content[0].text


@pytest.mark.parametrize("scenario", STATIC, ids=named)
def test_a_static_batch_is_that_of_the_command_line(scenario):
    keywords = {name: value for name, value in scenario.items() if name != "model"}
    (row,) = asked("estimate", **scenario)["rows"]
    command = json.loads(run("estimate", scenario["model"], *options(keywords), "--json"))
    assert {name: command[name] for name in row} == row
    assert {"ttft_s", "tpot_s", "tpot_low_s", "profile", "memory_bytes_per_device"} <= set(row)


@pytest.mark.parametrize("scenario", SERVED, ids=named)
def test_a_load_is_that_of_the_command_line(scenario):
    keywords = {k: v for k, v in scenario.items() if k not in ("model", "batch")}
    keywords["concurrency"] = scenario["batch"]
    (row,) = asked("serve", model=scenario["model"], **keywords)["rows"]
    (command,) = json.loads(run("serve", scenario["model"], *options(keywords), "--json"))
    assert {name: command[name] for name in row} == row


def test_every_verb_is_a_tool_and_says_what_it_takes():
    async def tools() -> Any:
        async with Client(server(ANSWERS)) as client:
            return (await client.list_tools()).tools

    listed = {tool.name: tool for tool in asyncio.run(tools())}
    verbs = {"estimate", "serve", "simulate", "sweep", "plan", "compare", "import"}
    assert set(listed) == verbs | {"models", "model", "systems", "system"}
    assert all(tool.description for tool in listed.values())
    assert "concurrency" in listed["serve"].input_schema["properties"]


def test_a_plan_comes_with_its_manifests_where_they_are_asked_for():
    given = {"systems": ["h100"], "engine": "vllm", "rate": 4, "kind": "aggregated"}
    plan = asked("plan", model=MODEL, **given, simulate=False, deployment="helm")
    assert "servingEngineSpec" in plan["deployment"]["files"]["values.yaml"]
    assert "deployment" not in asked("plan", model=MODEL, **given, simulate=False)


def test_answers_are_short():
    plan = asked("plan", model=MODEL, systems=["h100"], rate=4, target="tpot < 20ms")
    assert plan["plans"][0]["launch"] and len(json.dumps(plan)) < 20_000
    swept = asked("sweep", model=MODEL, batch=list(range(1, 200)), tp=[1, 2])
    assert swept["count"] == 398 and 1 < len(swept["frontier"]) <= 20
    simulated = asked("simulate", model=MODEL, rate=4, requests=50, osl=64)
    assert simulated["requests"] == 50 and len(json.dumps(simulated)) < 4_000
    assert asked("systems", vendor="nvidia", find="h200")["names"]
    assert all(figure["source"] for figure in asked("system", name="h200")["figures"])
    assert asked("model", name=MODEL)["parameters"] > 8e9


def test_a_report_is_sent_as_text():
    path = ROOT / "app" / "samples" / "sglang_llama-3.1-405b.jsonl"
    text = path.read_text()
    found = asked("import", text=text, name=path.name)
    assert found["count"] == len(json.loads(run("import", str(path), "--json")))
    given = {"model": "meta-llama/Llama-3.1-405B", "system": "h200", "tp": 8}
    compared = asked("compare", text=text, name=path.name, **given)
    assert compared["runs"]


def test_refusals_are_the_sentences_of_the_command_line():
    assert "near:" in refused("estimate", model="meta-llama/Lama-3.1-8B")
    assert "tp 3" in refused("estimate", model=MODEL, tp=3)
    assert "one of them" in refused("serve", model=MODEL)
    assert "'abc'" in refused("estimate", model=MODEL, batch="abc")


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

"""Studies and uneven experts: REST and MCP return the rows that the command prints."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import ridgeline
import yaml
from mcp import Client
from starlette.testclient import TestClient

from app.api.answers import Answers
from app.api.mcp_server import server
from tests.app.commands.test_cli import run

SAMPLES = Path(__file__).parents[3] / "app" / "samples" / "studies"
STUDY = SAMPLES / "hbm4.yaml"
MOE = {"model": "Qwen/Qwen3-235B-A22B", "system": "h200", "tp": 8, "ep": 8, "batch": 256}


def tool(name: str, given: dict[str, Any]) -> dict[str, Any]:
    async def asked() -> Any:
        async with Client(server(Answers())) as client:
            return (await client.call_tool(name, given)).content[0].text

    return dict(json.loads(asyncio.run(asked())))


def test_a_study_has_the_same_rows_everywhere(api: TestClient) -> None:
    rows = json.loads(run("study", str(STUDY), "--json"))["rows"]
    document = yaml.safe_load(STUDY.read_text())
    assert json.loads(json.dumps(list(ridgeline.study(STUDY).rows))) == rows
    assert api.post("/study", json=document).json()["rows"] == rows
    told = tool("study", document)
    assert told["count"] == len(rows)
    assert [row["tpot_s"] for row in told["rows"]] == [row["tpot_s"] for row in rows]


def test_uneven_experts_cost_the_same_everywhere(api: TestClient) -> None:
    file = SAMPLES / "experts.json"
    words = [w for name, value in MOE.items() if name != "model" for w in (f"--{name}", str(value))]
    rows = json.loads(run("routing", MOE["model"], "--statistics", str(file), *words, "--json"))  # type: ignore[arg-type]
    counts = json.loads(file.read_text())
    asked = {name: value for name, value in MOE.items() if name != "model"}
    of_python = ridgeline.routing(MOE["model"], counts, **asked)  # type: ignore[arg-type]
    assert [row["gain"] for row in of_python] == pytest.approx([row["gain"] for row in rows])
    for statistics in (counts, file.read_text()):
        sent = api.post("/routing", json={**MOE, "statistics": statistics}).json()
        assert sent["rows"] == rows


@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        ("study", {"question": {"model": "no-such-model"}}, "no-such-model"),
        ("study", {"question": {"model": MOE["model"]}, "chips": [{"gb": 3}]}, "a name each"),
        ("study", {"question": {"model": "/etc/passwd"}}, "unknown model"),
        ("routing", {**MOE, "statistics": [[1, 2]]}, "2 experts"),
        ("routing", {**MOE, "statistics": {"loads": []}}, "logical_count"),
        (
            "routing",
            {**MOE, "statistics": [[1, 2], [3]]},
            "not lists of numbers with equal lengths",
        ),
        ("routing", {**MOE, "ep": 1, "statistics": [[1] * 128]}, "ep of 2 or more"),
    ],
)
def test_invalid_studies_and_routings_are_refused_in_a_sentence(
    api: TestClient, path: str, body: Any, said: str
) -> None:
    answer = api.post(f"/{path}", json=body)
    assert answer.status_code == 422
    assert said in answer.json()["error"]["message"]

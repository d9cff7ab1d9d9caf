"""A new parameter is one declaration and the physics that reads it; everything else follows.

A copy of the packages, made of links to their files, declares one more parameter, and a program
uses it at every interface.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
PACKAGES = ("app", "docs", "genz_core", "hardware_db", "model_registry", "profilers")
BEFORE = "    kv_tokens: float = parameter(\n"
DECLARATION = """    kv_window: int = parameter(
        "whole", 0, "Tokens of the cache that a step attends to; 0: all.", least=0, most=1_000_000,
        group=ENGINE, aliases=("sliding_window",),
    )
"""
READ = "    if np.any(ratio != 1.0):\n"
PHYSICS = "    isl = np.minimum(isl, question.kv_window or isl)\n"
PROGRAM = """
import asyncio, inspect, json, sys
from pathlib import Path
from typer.testing import CliRunner
import ridgeline
from app.api import bodies, verbs
from app.api.answers import Answers
from app.api.mcp_server import server
from app.api.rest import application
from app.cli import cli
from app.question.query import ask
from app.question.question import Question
from app.scenario import points_file, points_row
from app.scenario.setup import Setup, setup_from
from app.scenario.local_files import sources
sys.path.insert(0, "docs/hooks")
import parameters as page

model = "meta-llama/Llama-3.1-8B"
given = {"isl": 8192, "batch": 8, "kv_window": 1024}
schema = application(answers=Answers()).openapi()["components"]["schemas"]["EstimateBody"]
tools = {tool.name: tool for tool in asyncio.run(server(Answers()).list_tools())}
run = lambda *words: CliRunner().invoke(cli, list(words), catch_exceptions=False).stdout
words = ("--isl=8192", "--batch=8", "--kv-window", "1Ki", "--json")
command = json.loads(run("estimate", model, *words))
row = {"model": model, "system": "h100", "isl": "8192", "osl": "256", "batch": "8"}
(priced,) = points_file.price([{**row, "kv_window": "1024"}])
body = bodies.ASKED["estimate"].model_validate({"model": model, "isl": 8192, "batch": 8,
                                           "sliding_window": "1Ki"})
try:
    ridgeline.estimate(model, kv_window=-1)
    refused = ""
except ValueError as error:
    refused = str(error)
print(json.dumps({
    "python": inspect.signature(ridgeline.estimate).parameters["kv_window"].default,
    "help": "attends to" in ridgeline.estimate.__doc__,
    "rest": schema["properties"]["kv_window"],
    "mcp": tools["serve"].input_schema["properties"]["kv_window"]["description"],
    "command": "--kv-window" in run("serve", "--help"),
    "column": "kv_window" in points_row.KNOWN,
    "link": setup_from(Setup(Question(kv_window=64)).changed()).scenario.kv_window,
    "key": hash(Question(kv_window=64)) != hash(Question()),
    "page": "`kv_window`" in page.parameters_page(""),
    "refused": refused,
    "whole": ridgeline.estimate(model, isl=8192, batch=8).tpot_s,
    "seconds": [ridgeline.estimate(model, **given).tpot_s, command["tpot_s"],
                verbs.estimate(body)["rows"][0]["tpot_s"]],
    "first": [float(priced["ttft_s"]), command["ttft_s"]],
}))
"""


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The packages with one more parameter, and one line that reads it."""
    place = tmp_path_factory.mktemp("copy")
    for package in PACKAGES:
        linked(ROOT / package, place / package, {"app", "question", "scenario", "docs"})
    change(place / "app/question/deployment.py", BEFORE, DECLARATION + BEFORE)
    change(place / "app/scenario/scenario.py", READ, PHYSICS + READ)
    return place


def linked(source: Path, target: Path, opened: set[str]) -> None:
    """Link to the files of a folder; the named folders are created, with links in them."""
    if source.name not in opened:
        target.symlink_to(source)
        return
    target.mkdir()
    for inner in source.iterdir():
        if inner.name != "__pycache__":
            linked(inner, target / inner.name, opened)


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1
    path.unlink()
    path.write_text(text.replace(old, new), encoding="utf-8")


@pytest.fixture(scope="module")
def seen(copy: Path) -> dict[str, Any]:
    """What a program gets for the new parameter."""
    pytest.importorskip("fastapi")
    pytest.importorskip("mcp")
    paths = os.pathsep.join([str(copy), str(copy / "app" / "python")])
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=copy, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": paths, "RIDGELINE_DATA": str(copy / "data")},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.slow
def test_every_interface_has_the_new_parameter(seen: dict[str, Any]):
    assert seen["python"] == 0 and seen["help"]
    assert seen["rest"]["default"] == 0 and seen["rest"]["description"].startswith("Tokens of the")
    assert seen["rest"]["anyOf"][0] == {"type": "integer", "minimum": 0, "maximum": 1_000_000}
    assert "sliding_window" in seen["mcp"]
    assert seen["command"] and seen["column"] and seen["page"] and seen["key"]
    assert seen["link"] == 64
    assert seen["refused"] == "kv_window = -1: give a whole number from 0 to 1,000,000"


def test_the_line_that_reads_it_changes_the_figure_everywhere(seen: dict[str, Any]):
    one, *others = seen["seconds"]
    assert one < seen["whole"] and all(other == one for other in others)
    cell, printed = seen["first"]
    assert cell == pytest.approx(printed, rel=1e-4)

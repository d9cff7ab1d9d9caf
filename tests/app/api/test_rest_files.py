"""Files that are sent to REST are read, compared and judged as on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from app.cli import cli
from tests.app.commands.test_cli import run
from tests.app.test_one_answer import options

SAMPLES = Path(__file__).parents[3] / "app" / "samples"


@pytest.mark.parametrize("name", ["h100_qwen1.5-0.5b.json.gz", "sglang_llama-3.1-405b.jsonl"])
def test_an_imported_file_is_read_as_on_the_command_line(api, name):
    with (SAMPLES / name).open("rb") as file:
        answer = api.post("/import", files={"files": (name, file)})
    assert answer.json() == json.loads(run("import", str(SAMPLES / name), "--json"))


def test_reports_are_compared_as_on_the_command_line(api):
    name, model = "h100_qwen1.5-0.5b.json.gz", "Qwen/Qwen1.5-0.5B"
    with (SAMPLES / name).open("rb") as file:
        asked = json.dumps({"model": model})
        answer = api.post("/compare", files={"files": (name, file)}, data={"asked": asked})
    command = run("compare", str(SAMPLES / name), "--model", model, "--json")
    assert answer.json() == json.loads(command)


@pytest.mark.slow
def test_results_of_a_benchmark_are_compared_as_on_the_command_line(api):
    path = SAMPLES / "sglang_llama-3.1-405b.jsonl"
    given = {"model": "meta-llama/Llama-3.1-405B", "system": "h200", "tp": 8, "weights": "fp8"}
    files = {"files": (path.name, path.read_bytes())}
    answer = api.post("/compare", files=files, data={"asked": json.dumps(given)})
    command = run("compare", str(path), *options(given), "--json")
    assert answer.json() == json.loads(command)


def test_results_of_a_benchmark_are_judged_as_on_the_command_line(api, tmp_path):
    path = SAMPLES / "sglang_llama-3.1-405b.jsonl"
    given = {"model": "meta-llama/Llama-3.1-405B", "system": "h200", "tp": 8, "weights": "fp8"}
    files = [
        ("files", (path.name, path.read_bytes())),
        ("baseline", (path.name, path.read_bytes())),
    ]
    said = {"asked": json.dumps({**given, "level": 90, "tolerance": 3})}
    answer = api.post("/guard", files=files, data=said).json()
    words = [*options(given), "--level", "90", "--tolerance", "3", "--baseline", str(path)]
    command = json.loads(guarded("guard", str(path), *words, "--json"))
    assert answer == command and answer["verdicts"]
    answer = api.post("/guard", files=files[:1], data={"asked": json.dumps({"modle": "x"})})
    assert "did you mean model" in answer.json()["error"]["message"]


def guarded(*words: str) -> str:
    """The output of a command, for a result that passes (0) or fails (1)."""
    done = CliRunner().invoke(cli, list(words))
    assert done.exit_code in (0, 1), done.output
    return done.stdout


def test_operators_of_a_report_are_grouped_by_shape_as_on_the_command_line(api):
    name = "h100_qwen1.5-0.5b.json.gz"
    with (SAMPLES / name).open("rb") as file:
        answer = api.post("/import", files={"files": (name, file)}, data={"by_shape": "true"})
    assert answer.json() == json.loads(run("import", str(SAMPLES / name), "--by-shape", "--json"))

"""docs/features.md: every test and command that it names is there."""

from __future__ import annotations

import re
from pathlib import Path

import typer

from app.cli import cli
from tests.rules import for_every

ROOT = Path(__file__).parents[2]
ROWS = [
    [cell.strip() for cell in line.strip("| ").split(" | ")]
    for line in (ROOT / "docs" / "features.md").read_text(encoding="utf-8").splitlines()
    if line.startswith("| ") and not line.startswith("| feature")
]
COMMANDS = typer.main.get_command(cli)
#: What stands where a command would: Python, an address, a folder.
OTHERS = ("ridgeline", "import ridgeline", "GET ", "docs/")


def options(command: object) -> set[str]:
    found = {word for one in getattr(command, "params", ()) for word in one.opts}
    for inner in getattr(command, "commands", {}).values():
        found |= options(inner)
    return found


def test_the_list_is_whole() -> None:
    assert len(ROWS) >= 40 and all(len(row) == 3 for row in ROWS)


@for_every(ROWS)
def test_the_tests_of_a_feature_are_there(row: list[str]) -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::(\*|\w+)`", row[2])
    assert named
    for file, name in named:
        text = (ROOT / file).read_text(encoding="utf-8")
        assert "def test_" in text if name == "*" else f"def {name}(" in text, f"{file}::{name}"


@for_every(ROWS)
def test_the_commands_of_a_feature_are_there(row: list[str]) -> None:
    for said in re.findall(r"`([^`]+)`", row[1]):
        if said.startswith(OTHERS):
            continue
        command, known = COMMANDS, options(COMMANDS)
        for word in said.split():
            if word.startswith("--"):
                assert word in known, said
            elif word in getattr(command, "commands", {}):
                command = command.commands[word]  # type: ignore[attr-defined]
                known = options(command)
            else:
                assert not hasattr(command, "commands"), f"{said!r} is no command"

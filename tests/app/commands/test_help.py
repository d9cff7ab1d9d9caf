"""Help of the commands, as it is printed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import rich.markup
import typer.main

from app.cli import cli
from app.question.question import STANDARD
from tests.app.commands.test_cli import run


def sentences(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, str]]:
    """Every help text with its command or option."""
    yield " ".join(path), command.help or ""
    for option in command.params:
        yield f"{' '.join(path)} --{option.name}", getattr(option, "help", "") or ""
    for name, one in getattr(command, "commands", {}).items():
        yield from sentences(one, (*path, name))


SENTENCES = dict(sentences(typer.main.get_command(cli)))


def test_no_help_loses_words_in_brackets_to_markup():
    """Square brackets in a help text are taken for markup and would not be printed."""
    lost = [of for of, text in SENTENCES.items() if rich.markup.render(text).plain != text]
    assert len(SENTENCES) > 300
    assert lost == []


@pytest.mark.parametrize("command", ["serve", "simulate", "plan"])
def test_the_ratio_of_lengths_is_printed_whole(command: str):
    printed = run(command, "--help").replace("│", " ").split()
    assert "between this share of isl and osl and the full values; 1: equal." in " ".join(printed)


@pytest.mark.parametrize("command", ["compare", "guard", "watch"])
def test_what_a_file_states_has_no_default_in_the_help(command: str):
    options = {one.name: one for one in typer.main.get_command(cli).commands[command].params}  # type: ignore[attr-defined]
    assert not any(options[name].show_default for name in ("system", "tp", "isl", "osl"))
    assert options["lora_adapters"].show_default == "1"


@pytest.mark.parametrize("command", ["endpoint", "serving", "own-server"])
def test_a_measured_load_has_the_lengths_of_every_question_or_says_why_not(command: str):
    measure: Any = typer.main.get_command(cli).commands["measure"].commands[command]  # type: ignore[attr-defined]
    options = {one.name: one for one in measure.params}
    lengths = [str(options[name].show_default).replace(",", "") for name in ("isl", "osl")]
    declared = [str(STANDARD.isl), str(STANDARD.osl)]
    assert lengths == declared or "are short by default" in measure.help

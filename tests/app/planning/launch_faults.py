"""Launch lines held against the options of their programs, which a table documents."""

import csv
import json
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from app.planning import launch_options

_TABLE = Path(launch_options.__file__).parent / "launch_options.csv"
_READ: Mapping[str, Callable[[str], Any]] = {
    "int": int, "float": float, "json": json.loads, "text": str,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Option:
    """An option of a program: its type ("none", "int", "float", "json", "text"), its choices, and
    the version and source that document it.
    """

    name: str
    takes: str
    choices: tuple[str, ...]
    version: str
    source: str

    def fault(self, value: str) -> str:
        """Why a value is invalid for this option; "" where it is valid."""
        try:
            _READ[self.takes](value)
        except ValueError:
            return f"{self.name} takes {self.takes}, not {value!r}"
        if self.choices and value not in self.choices:
            return f"{self.name} takes {', '.join(self.choices)}, not {value!r}"
        return ""


@cache
def known_options() -> Mapping[str, Mapping[str, Option]]:
    """The options of every program in launch lines, by program and name."""
    found: dict[str, dict[str, Option]] = {}
    with _TABLE.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            choices = tuple(filter(None, row["choices"].split("|")))
            option = Option(row["option"], row["value"], choices, row["version"], row["source"])
            found.setdefault(row["program"], {})[option.name] = option
    return found


def program_of(line: str) -> str:
    """The program that a line starts, the longest known match; "" where none is known."""
    starts = [program for program in known_options() if line.startswith(f"{program} ")]
    return max(starts, key=len, default="")


def faults(line: str) -> list[str]:
    """Sentences on the parts of a launch line that its program does not know."""
    program = program_of(line)
    if not program:
        return [f"no options are known of {line.split(maxsplit=1)[0]}"]
    known, found = known_options()[program], []
    words = shlex.split(line.removeprefix(program))
    while words:
        word = words.pop(0)
        if not word.startswith("-"):
            continue
        if word not in known:
            found.append(f"{program} has no option {word}")
            continue
        if known[word].takes != "none":
            fault = known[word].fault(words.pop(0)) if words else f"{word} has no value"
            found += [fault] if fault else []
    return found

"""Options that launch lines may contain, the values they take, and proxies in front of servers."""

import csv
import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

_TABLE = Path(__file__).parent / "launch_options.csv"
_FRONT = 8000
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


def filled(settings: Any, values: Mapping[str, Any]) -> Any:
    """Settings of a file, with each placeholder ("{value}") replaced by its value."""
    if isinstance(settings, Mapping):
        return {name: filled(value, values) for name, value in settings.items()}
    if isinstance(settings, str) and settings.startswith("{"):
        return values[settings.strip("{}")]
    return settings


def in_front(
    flags: Mapping[str, Any], ports: Mapping[str, Sequence[int]]
) -> tuple[list[str], list[str], dict[str, str]]:
    """The proxy or router in front of servers: its line, notes and files; empty for a single
    server.

    ports: of the servers, by role ("" for replicas).
    """
    if sum(map(len, ports.values())) < 2:
        return [], [], {}
    if "prefill" not in ports:
        return [], [
            f"on port {_FRONT} a router that sends each request to the least loaded replica"
        ], {}  # fmt: skip
    if "front_line" not in flags:
        return [], [str(flags["front"])], {}
    servers = {
        role: [flags["front_server"][role].format(port=port) for port in numbers]
        for role, numbers in ports.items()
    }
    words = {role: " ".join(addresses) for role, addresses in servers.items()}
    line = flags["front_line"].format(port=_FRONT, **words)
    notes = ["localhost stands for the host of each server"]
    if "front_file" not in flags:
        return [line], notes, {}
    return [line], notes, {flags["front_file"]: _front_file(servers)}


def _front_file(servers: Mapping[str, Sequence[str]]) -> str:
    """TensorRT-LLM's list of servers.

    Source: https://github.com/NVIDIA/TensorRT-LLM/blob/0434b982fa3837dcab9dbef20e5335959eb19af3/docs/source/features/disagg-serving.md
    """
    document = {
        "hostname": "localhost",
        "port": _FRONT,
        "backend": "pytorch",
        "context_servers": _instances(servers["prefill"]),
        "generation_servers": _instances(servers["decode"]),
    }
    return yaml.safe_dump(document, sort_keys=False)


def _instances(addresses: Sequence[str]) -> dict[str, Any]:
    return {"num_instances": len(addresses), "urls": list(addresses)}

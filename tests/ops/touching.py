"""Which tests run through a line, and how long each takes: one run under coverage says both."""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from coverage import CoverageData


@dataclass(frozen=True)
class Touching:
    """Tests by file and line, and the seconds that each takes without a fault."""

    by_line: dict[str, dict[int, frozenset[str]]]
    seconds: dict[str, float]

    def tests(self, path: str, statement: range, limit_s: float) -> list[str]:
        """The tests that run through a statement, quickest first, of `limit_s` seconds together.

        What runs at import (a constant, a default) has those of its whole file.
        """
        lines = self.by_line.get(path, {})
        found = frozenset().union(*(lines.get(line, frozenset()) for line in statement))
        found = found or frozenset().union(*lines.values())
        chosen, spent_s = [], 0.0
        for test in sorted(found, key=lambda name: (self.seconds[name], name)):
            spent_s += self.seconds[test]
            if chosen and spent_s > limit_s:
                break
            chosen.append(test)
        return chosen


def touching(tree: Path, package: str, tests: str, kept: Path) -> Touching:
    """What the tests of a folder touch of a package; from the files of an earlier run, if there."""
    data, times = kept / "coverage", kept / "times.xml"
    if not (data.exists() and times.exists()):
        cover = (f"--cov={package}", "--cov-context=test", "--cov-report=", f"--junitxml={times}")
        command = (sys.executable, "-m", "pytest", "-qx", "-n0", "-p", "no:cacheprovider")
        own = {"PYTHONPATH": f"{tree}:{tree}/app/python", "OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            [*command, "--benchmark-disable", *cover, tests],
            cwd=tree, env={**os.environ, **own, "COVERAGE_FILE": str(data)},
            check=False, capture_output=True, text=True,
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(f"tests fail without a fault: {done.stdout[-2000:]}")
    seconds = dict(_seconds(times))
    return Touching(_by_line(data, package, seconds), seconds)


def _seconds(times: Path) -> Iterator[tuple[str, float]]:
    for case in ET.parse(times).iter("testcase"):
        file = case.get("classname", "").replace(".", "/") + ".py"
        yield f"{file}::{case.get('name')}", float(case.get("time", "0"))


def _by_line(
    data: Path, package: str, seconds: dict[str, float]
) -> dict[str, dict[int, frozenset[str]]]:
    """Tests of each line; all of a file's where its fixture ran the line, for others share it."""
    read = CoverageData(str(data))
    read.read()
    of_file = defaultdict(set)
    for test in seconds:
        of_file[test.partition("::")[0]].add(test)
    found: dict[str, dict[int, frozenset[str]]] = {}
    for path in read.measured_files():
        name = f"{package}/{path.partition(f'/{package}/')[2]}"  # in whatever tree it ran
        found[name] = {
            line: tests
            for line, contexts in read.contexts_by_lineno(path).items()
            if (tests := frozenset(_tests(contexts, of_file)))
        }
    return found


def _tests(contexts: list[str], of_file: dict[str, set[str]]) -> Iterator[str]:
    for context in contexts:
        test, _, phase = context.rpartition("|")
        file = test.partition("::")[0]
        if phase == "setup":
            yield from of_file[file]
        elif test in of_file[file]:
            yield test

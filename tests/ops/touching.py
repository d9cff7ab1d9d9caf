"""The tests that execute a line, and the time of each, from one run under coverage."""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from coverage import CoverageData


@dataclass(frozen=True)
class Touching:
    """Tests by file and line, the seconds that each takes without a fault, and how many lines
    each test file executes.
    """

    by_line: dict[str, dict[int, frozenset[str]]]
    seconds: dict[str, float]
    breadth: dict[str, int]

    def rounds(self, path: str, statement: range, limit_s: float) -> list[list[str]]:
        """The tests that execute a statement, in the order in which to run them.

        First those of the test file that executes the fewest other lines, which is quick and
        usually decides; then the next two; then all others, quickest first, of `limit_s` seconds
        together.  A statement that runs at import (a constant, a default) has the tests of its
        whole file.
        """
        lines = self.by_line.get(path, {})
        found = frozenset().union(*(lines.get(line, frozenset()) for line in statement))
        found = found or frozenset().union(*lines.values())
        by_file = defaultdict(list)
        for test in sorted(found, key=lambda name: (self.seconds[name], name)):
            by_file[_file(test)].append(test)
        narrow = sorted(by_file, key=lambda file: (self.breadth[file], file))
        rest = sorted((t for f in narrow[3:] for t in by_file[f]), key=self.seconds.__getitem__)
        rounds = [by_file[file] for file in narrow[:1]]
        rounds += [[test for file in narrow[1:3] for test in by_file[file]], rest]
        return [kept for tests in rounds if (kept := self._within(tests, limit_s))]

    def _within(self, tests: list[str], limit_s: float) -> list[str]:
        spent_s = accumulate(self.seconds[test] for test in tests)
        return [test for test, s in zip(tests, spent_s, strict=True) if s <= limit_s] or tests[:1]


def touching(tree: Path, package: str, tests: str, kept: Path) -> Touching:
    """The lines of a package that a folder's tests execute; from the files of an earlier run, if
    any.
    """
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
    by_line = _by_line(data, package, seconds)
    breadth = Counter(
        file
        for lines in by_line.values()
        for tests in lines.values()
        for file in {_file(test) for test in tests}
    )
    return Touching(by_line, seconds, breadth)


def _file(test: str) -> str:
    return test.partition("::")[0]


def _seconds(times: Path) -> Iterator[tuple[str, float]]:
    for case in ET.parse(times).iter("testcase"):
        file = case.get("classname", "").replace(".", "/") + ".py"
        yield f"{file}::{case.get('name')}", float(case.get("time", "0"))


def _by_line(
    data: Path, package: str, seconds: dict[str, float]
) -> dict[str, dict[int, frozenset[str]]]:
    """Tests of each line; all of a file's if its fixture executed the line, because others share
    it.
    """
    read = CoverageData(str(data))
    read.read()
    of_file = defaultdict(set)
    for test in seconds:
        of_file[_file(test)].add(test)
    found: dict[str, dict[int, frozenset[str]]] = {}
    for path in read.measured_files():
        name = f"{package}/{path.partition(f'/{package}/')[2]}"  # in whichever tree it ran
        found[name] = {
            line: tests
            for line, contexts in read.contexts_by_lineno(path).items()
            if (tests := frozenset(_tests(contexts, of_file)))
        }
    return found


def _tests(contexts: list[str], of_file: dict[str, set[str]]) -> Iterator[str]:
    for context in contexts:
        test, _, phase = context.rpartition("|")
        file = _file(test)
        if phase == "setup":
            yield from of_file[file]
        elif test in of_file[file]:
            yield test

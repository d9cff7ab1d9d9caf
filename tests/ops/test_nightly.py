"""Tests that do not run by default are run by a script or a documented command.

`.ci/nightly` runs in a folder of its own, where the README's command is only a substitute for
pytest.
"""

import os
import re
import shlex
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PYTEST = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["pytest"]
OPTIONS = PYTEST["ini_options"]
MARKERS = {line.partition(":")[0] for line in OPTIONS["markers"]}
USUAL = OPTIONS["addopts"][OPTIONS["addopts"].index("-m") + 1]
SCRIPT = (ROOT / ".ci" / "nightly").read_text(encoding="utf-8")
RUN = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")

#: A substitute for pytest: prints its arguments, fails for benchmarks, counts like pytest.
RECORDER = """#!/bin/sh
echo "asked: $* seed=$RIDGELINE_SEED draws=$RIDGELINE_DRAWS"
case "$*" in
  *"-m benchmark"*) echo "1 failed, 2 passed in 3.00s"; exit 1 ;;
  *) echo "4 passed in 5.00s" ;;
esac
"""


def selected(expression: str, *markers: str) -> bool:
    """Whether `-m expression` runs a test with exactly these markers."""
    return bool(eval(expression, {}, {name: name in markers for name in MARKERS}))


def selections(text: str) -> list[str]:
    """The expressions after pytest's -m in a script or in the commands of a document."""
    commands = text.replace("\\\n", " ").replace("$tests", "pytest").splitlines()
    found = []
    for line in commands:
        if re.search(r"\bpytest .*-m ", line) and not line.lstrip().startswith("#"):
            words = shlex.split(line.strip(), comments=True)
            found += [words[at + 1] for at, word in enumerate(words) if word == "-m"]
    return [expression for expression in found if expression != "pytest"]


LEFT_OUT = sorted(name for name in MARKERS if not selected(USUAL, name))


def test_the_usual_run_leaves_out_what_is_slow_or_needs_a_browser_a_quiet_machine_or_a_gpu():
    assert LEFT_OUT == ["benchmark", "browser", "gpu", "slow"]
    assert selected(USUAL) and selected(USUAL, "draws")


@pytest.mark.parametrize("marker", LEFT_OUT)
def test_what_the_usual_run_leaves_out_is_run_by_a_script_and_has_a_documented_command(marker: str):
    for text in (RUN if marker == "browser" else SCRIPT, CONTRIBUTING):
        assert any(selected(expression, marker) for expression in selections(text)), marker


def test_ci_run_leaves_to_the_night_only_what_is_slow_or_needs_a_quiet_machine_or_a_gpu():
    run = [USUAL, *selections(RUN)]
    for markers in ([], ["draws"], ["browser"], ["browser", "draws"]):
        assert sum(selected(expression, *markers) for expression in run) == 1, markers


@pytest.mark.parametrize("also", sorted(MARKERS - {"benchmark", "gpu", "slow"}))
def test_a_slow_test_in_a_browser_or_of_random_cases_runs_at_night_too(also: str):
    assert any(selected(expression, "slow", also) for expression in selections(SCRIPT))


def test_every_number_of_examples_is_multiplied_at_night():
    written = re.compile(r"\bmax_examples=\d")
    own = [p for p in (ROOT / "tests").rglob("*.py") if written.search(p.read_text("utf-8"))]
    assert not own, "max_examples=cases(...) of tests/draws.py"


@pytest.fixture
def night(tmp_path: Path) -> subprocess.CompletedProcess[str]:
    """A nightly run in which the benchmarks fail."""
    (tmp_path / ".ci").mkdir()
    for name in ("nightly", "setup.sh"):
        shutil.copy(ROOT / ".ci" / name, tmp_path / ".ci" / name)
    readme = "python3 -m venv --help && true && .venv/bin/pytest\n"
    (tmp_path / "README.md").write_text(readme, encoding="utf-8")
    program = tmp_path / ".venv" / "bin" / "pytest"
    program.parent.mkdir(parents=True)
    program.write_text(RECORDER, encoding="utf-8")
    program.chmod(0o755)
    given = {"RIDGELINE_CHROMIUM": "none", "RIDGELINE_SEED": "7", "RIDGELINE_DRAWS": "3"}
    return subprocess.run(
        [tmp_path / ".ci" / "nightly"], env=os.environ | given, check=False, text=True,
        capture_output=True, timeout=60,
    )  # fmt: skip


def test_a_part_that_fails_stops_no_other_but_fails_the_night(night):
    rows = re.findall(r"^(\S+ \S+|\S+) +(\w+) +\d+:\d\d min  (.*)$", night.stdout, re.MULTILINE)
    assert ("slow tests", "passed", "4 passed") in rows
    assert ("long draws", "passed", "4 passed") in rows
    assert ("benchmarks", "failed", "1 failed, 2 passed") in rows
    assert re.search(r"^GPU tests +(passed|not run)", night.stdout, re.MULTILINE)
    assert night.returncode == 1


def test_the_draws_have_the_seed_that_is_printed_and_the_other_parts_none(night):
    asked = [line for line in night.stdout.splitlines() if line.startswith("asked: ")]
    drawn = [line for line in asked if "-m draws" in line]
    assert [line.endswith("seed=7 draws=3") for line in drawn] == [True]
    assert all(line.endswith("seed= draws=") for line in asked if line not in drawn)
    again = "RIDGELINE_SEED=7 RIDGELINE_DRAWS=3 .venv/bin/pytest -m draws"
    assert night.stdout.rstrip().endswith(again)

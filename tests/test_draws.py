"""The cases of a test that run by day: no parameter lacks a value that there is a case for."""

import os
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest

from tests.draws import turns

ROOT = Path(__file__).parents[1]
STACKED = """
import pytest

@pytest.mark.by_day(4)
@pytest.mark.parametrize("engine", ["vllm", "sglang"])
@pytest.mark.parametrize("kind", [["a"], ["b"], pytest.param(["c"], marks=pytest.mark.slow)])
@pytest.mark.parametrize(("model", "devices"), [("dense", 1), ("dense", 2), ("experts", 1)])
def test_stacked(engine, kind, model, devices):
    pass
"""


@pytest.mark.parametrize("sizes", [(2, 7), (7, 2), (4, 4), (2, 2, 5), (3, 4, 6), (1, 9), (4, 4, 4)])
def test_every_value_has_its_turn_where_there_are_as_many_cases(sizes: tuple[int, ...]):
    every = list(product(*map(range, sizes)))
    for number in range(max(sizes), len(every) + 1):
        chosen = [every[place] for place in turns(every, number)]
        assert len(set(chosen)) == number
        for axis, size in enumerate(sizes):
            assert {case[axis] for case in chosen} == set(range(size)), (number, axis)


@pytest.mark.parametrize("number", range(1, 7))
def test_fewer_cases_than_values_have_no_value_twice(number: int):
    every = list(product(range(6), range(6)))
    chosen = [every[place] for place in turns(every, number)]
    for axis in range(2):
        assert len({case[axis] for case in chosen}) == number


def test_fewer_cases_than_requested_are_all_taken():
    assert turns([("a",), ("b",)], 5) == [0, 1] and turns([], 2) == []


def test_a_test_of_stacked_parameters_has_each_value_of_the_day_by_day(tmp_path: Path):
    (tmp_path / "test_stacked.py").write_text(STACKED)
    command = [sys.executable, "-m", "pytest", "-q", "--collect-only", "-m", "not slow"]
    done = subprocess.run(
        [*command, "-p", "tests.conftest", "-p", "no:cacheprovider", "--rootdir", str(tmp_path),
         "-c", "/dev/null", str(tmp_path)],
        cwd=ROOT, check=False, capture_output=True, text=True,
        env={name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"},
    )  # fmt: skip
    names = [
        line.partition("[")[2].rstrip("]") for line in done.stdout.splitlines() if "::" in line
    ]
    assert len(names) == 4, done.stdout + done.stderr
    models, devices, kinds, engines = zip(*(name.split("-") for name in names), strict=True)
    assert set(models) == {"dense", "experts"} and set(devices) == {"1", "2"}
    assert set(kinds) == {"kind0", "kind1"} and set(engines) == {"vllm", "sglang"}

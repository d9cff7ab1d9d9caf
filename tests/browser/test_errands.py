"""The five errands in a browser: the right answer, within the touches that each may take."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from tests.browser import errands
from tests.browser.errands import Errand
from tests.browser.journeys import Walk
from tests.draws import seed

pytestmark = [pytest.mark.browser, pytest.mark.draws]

OF_QUESTIONS = {
    "cheapest": errands.cheapest, "three systems": errands.three_systems,
    "own devices": errands.own_devices,
}  # fmt: skip
OF_FILES = {"trace": errands.traced, "benchmark": errands.benchmarked}
NIGHTLY = range(20)


def is_right(read: Any, answer: Any, near: float) -> bool:
    """Whether what was read is the answer: numbers to the digits that pages show, and each word of
    the answer in what was read."""
    if isinstance(answer, dict):
        return all(is_right(read.get(name), value, near) for name, value in answer.items())
    if isinstance(answer, (tuple, list)) and isinstance(read, str):
        return all(word in read for word in answer)
    if isinstance(answer, (tuple, list)):
        return all(is_right(one, other, near) for one, other in zip(read, answer, strict=True))
    if answer is None or read is None:
        return read is answer
    return abs(read - answer) <= near * abs(answer)


def walked(errand: Errand, page: Any, way: str) -> None:
    walk = Walk(page, patience_ms=90_000)
    read = (errand.line if way == "line" else errand.form)(walk)
    assert walk.clicks <= errand.most[way == "line"], walk.steps
    answer = errand.answer_of_line() if way == "line" else errand.answer()
    assert is_right(read, answer, errand.near), (errand.question, read, answer)


@pytest.mark.by_day(3)
@pytest.mark.parametrize("at", NIGHTLY)
@pytest.mark.parametrize("way", ["form", "line"])
@pytest.mark.parametrize("name", OF_QUESTIONS)
def test_an_errand_ends_with_the_right_answer(open_page, name: str, way: str, at: int):
    errand = OF_QUESTIONS[name](random.Random(seed(at)))
    walked(errand, open_page(), way)


@pytest.mark.by_day(2)
@pytest.mark.parametrize("at", NIGHTLY)
@pytest.mark.parametrize("name", OF_FILES)
def test_a_file_is_answered_with_its_own_sums(open_page, tmp_path: Path, name: str, at: int):
    errand = OF_FILES[name](random.Random(seed(at)), tmp_path)
    walked(errand, open_page(), "form")


def test_answers_are_compared_to_the_digits_of_pages():
    assert is_right((0.123, "2 × h200: TP2"), (0.12344, ("2 × h200", "TP2")), 0.006)
    assert not is_right((0.13,), (0.123,), 0.006) and not is_right(None, 1.0, 0.006)
    assert is_right({"a": None}, {"a": None}, 0.0) and not is_right({"a": 1.0}, {"a": None}, 0.0)

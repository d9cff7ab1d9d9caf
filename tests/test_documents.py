"""The Python of the documents runs and gives what they print."""

import doctest
import re
from pathlib import Path
from types import ModuleType

import pytest
import ridgeline
import ridgeline._decide
import ridgeline._library
import ridgeline._measurements
import ridgeline._predict

import genz_core.latency.measured_operators
import genz_core.latency.profile
from tests.figures import SENTENCES, SLOW_SENTENCES, Sentence
from tests.rules import for_every

ROOT = Path(__file__).parents[1]
OPTIONS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


@pytest.mark.parametrize("document", ["README.md", "docs/python.md", "docs/cache-tiers.md"])
def test_the_examples_of_a_document_print_what_it_says(
    document: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(ROOT)
    done = doctest.testfile(str(ROOT / document), module_relative=False, optionflags=OPTIONS)
    assert done.attempted > 3 and not done.failed


@pytest.mark.parametrize(
    "module",
    [
        ridgeline,
        ridgeline._library,
        ridgeline._predict,
        ridgeline._decide,
        ridgeline._measurements,
        genz_core.latency.measured_operators,
        genz_core.latency.profile,
    ],
    ids=lambda module: module.__name__,
)
def test_the_examples_of_a_module_print_what_they_say(module: ModuleType):
    done = doctest.testmod(module, optionflags=OPTIONS)
    assert done.attempted and not done.failed


def test_every_public_name_of_the_module_is_documented_in_its_page():
    page = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    assert set(ridgeline.__all__) == {
        "ask", "availability", "chakra", "compare", "economics", "engine", "estimate", "export",
        "fleet", "guard", "model", "models", "module", "modules", "ops", "plan", "read_report",
        "routing", "scale", "schema", "sensitivity", "serve", "simulate", "study", "sweep",
        "system", "systems", "tune", "watch",
    }  # fmt: skip
    for name in ridgeline.__all__:
        assert f"`{name}(" in page, name
        assert getattr(ridgeline, name).__doc__.strip()


@for_every(
    [
        "README.md",
        "CONTRIBUTING.md",
        *sorted(str(p.relative_to(ROOT)) for p in (ROOT / "docs").glob("*.md")),
    ]
)
def test_every_file_that_a_document_names_is_there(document: str):
    """A path starts at the root or at a package."""
    packages = r"(?:app|genz_core|hardware_db|model_registry|profilers|tests|docs)/"
    text = (ROOT / document).read_text(encoding="utf-8")
    for path in re.findall(rf"`({packages}[\w./-]+)`", text):
        assert (ROOT / path).exists(), f"{document} names {path}, which is not there"


WHERE = [
    row
    for row in (ROOT / "docs" / "where.md").read_text(encoding="utf-8").splitlines()
    if row.startswith("| ") and "`" in row
]


@for_every(WHERE)
def test_a_question_of_where_is_answered_by_files_that_are_there(row: str):
    """A name without a folder stands beside a file named before it, or below its package."""
    folders = {ROOT}
    for name in re.findall(r"`([\w./*-]+\.\w+)`", row):
        places = [folder for folder in folders if any(folder.glob(name))]
        assert places, f"{name} is neither at the root nor beside what precedes it: {row}"
        for folder in places:
            found = next(folder.glob(name)).parent
            folders |= {found, *found.parents} - set(ROOT.parents)


def test_where_answers_the_questions_of_a_new_engineer_within_two_files():
    questions = [row.split("|")[1:3] for row in WHERE]
    short = [question for question, first in questions if first.count("`") <= 4]
    assert len(set(short)) >= 20
    assert len({question for question, _ in questions}) == len(questions)


RENEW = "run `python -m tests.figures --write`"


@for_every(SENTENCES)
def test_every_figure_of_a_sentence_is_that_of_today(sentence: Sentence):
    assert list(sentence.found().groups()) == sentence.shown(), RENEW


@pytest.mark.slow
@for_every(SLOW_SENTENCES)
def test_every_figure_of_a_sentence_on_long_runs_is_that_of_today(sentence: Sentence):
    assert list(sentence.found().groups()) == sentence.shown(), RENEW

"""One word per concept: public names compared with the glossary, and names of files."""

import inspect
import re
import subprocess
from pathlib import Path

import pytest
import ridgeline

from app.answers.columns import COLUMNS
from app.question.parameters import PARAMETERS
from app.question.verbs import VERBS

ROOT = Path(__file__).resolve().parents[1]
GLOSSARY = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
SECTION = GLOSSARY.split("## Names of parameters and columns")[1].split("\n## ")[0]
#: {concept: (its words, the names that are not used)}, of the glossary's table.
CONCEPTS = {
    cells[1].strip(): (re.findall(r"`(\w+)`", cells[2]), re.findall(r"`(\w+)`", cells[3]))
    for cells in (line.split("|") for line in SECTION.splitlines())
    if len(cells) == 5 and "`" in cells[2]
}
#: Names that users write or read.
PUBLIC = {
    *PARAMETERS,
    *COLUMNS,
    *VERBS,
    *(
        name
        for verb in ridgeline.__all__
        for name in inspect.signature(getattr(ridgeline, verb)).parameters
    ),
}  # fmt: skip
#: Participles that are established terms (queueing, bin packing, gated layers), as names of files.
TERMS = {
    "aggregated", "alternating", "bailing", "boosting", "compressed", "disaggregated",
    "distributed", "drafting", "factorised", "gated", "grouping", "loading", "lowering", "packing",
    "pricing", "queueing", "ranking", "routing", "scaling", "serving", "shared", "sharing",
    "tracing",
}  # fmt: skip


@pytest.mark.parametrize("concept", CONCEPTS)
def test_a_concept_has_one_word_among_public_names(concept: str):
    words, others = CONCEPTS[concept]
    assert set(words) <= PUBLIC
    for other in others:
        whole = re.compile(rf"(^|_){other}(_|$)")
        assert not [name for name in PUBLIC if whole.search(name)], other


def test_the_glossary_lists_its_words_once():
    words = [word for used, _ in CONCEPTS.values() for word in used]
    others = [other for _, unused in CONCEPTS.values() for other in unused]
    assert len(words) == len(set(words)) and len(others) == len(set(others))
    assert not set(words) & set(others)
    terms = re.findall(r"^- \*\*([^*]+)\*\*", GLOSSARY, re.MULTILINE)
    assert terms == sorted(terms, key=str.casefold)


def test_no_file_is_named_by_a_bare_participle():
    """A file is named after what it holds: `upload_parsing`, not `reading`."""
    listed = subprocess.run(
        ["git", "ls-files", "*.py"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    stems = {Path(name).stem for name in listed.stdout.split() if not name.startswith("tests/")}
    bare = {stem for stem in stems if re.fullmatch(r"_?[a-z]+(ed|ing)", stem)}
    assert bare <= TERMS, sorted(bare - TERMS)
    assert bare >= TERMS, f"renamed, strike from TERMS: {sorted(TERMS - bare)}"

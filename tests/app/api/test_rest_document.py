"""REST's own description: every verb and address, every example answered."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from app.api import bodies
from app.api.examples import EXAMPLES
from app.question.verbs import VERBS
from tests.app.api.asking import asked

ROOT = Path(__file__).parents[3]


@pytest.mark.by_day(3)
@pytest.mark.parametrize("verb", EXAMPLES)
def test_every_example_of_the_document_is_answered(api, verb):
    for body in EXAMPLES[verb].values():
        assert asked(api, verb, **body)


def test_the_document_describes_every_verb(api):
    document = api.get("/openapi.json").json()
    assert document["openapi"].startswith("3.")
    verbs = {*bodies.ASKED, *bodies.WITH_FILES, "import"}
    assert {f"/{verb}" for verb in verbs} | {"/models", "/systems"} <= set(document["paths"])
    assert verbs >= set(VERBS) - {"calibrate", "predictor"}
    for verb in EXAMPLES:
        question = document["paths"][f"/{verb}"]["post"]["requestBody"]["content"]
        assert question["application/json"]["examples"]


def test_the_page_of_the_documentation_lists_every_address_and_status(api):
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"`(?:GET |POST )?(/[a-zA-Z/.]+)`", page))
    paths = api.get("/openapi.json").json()["paths"]
    addresses = set(paths)
    statuses = {int(status) for status in re.findall(r"^\| (\d{3}) \|", page, re.MULTILINE)}
    described = {int(status) for one in paths["/estimate"].values() for status in one["responses"]}
    assert statuses == {*described, 405} - {200}  # no method of an address answers with 405
    assert addresses == {re.sub("NAME", "{name}", address) for address in listed} - {
        "/openapi.json"
    }

"""Untrusted YAML text: bounded, without anchors, objects or duplicate keys."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

import hardware_db
from genz_core.errors import RidgelineError
from hardware_db import yaml_document
from tests.hardware_db.system_documents import BOARD, refused


def test_plain_text_is_the_mapping_that_it_states():
    assert yaml_document.parse(yaml.safe_dump(BOARD)) == BOARD


def test_a_few_lines_that_expand_to_gigabytes_are_refused():
    lines = ["a0: &a0 [lol, lol, lol]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 12)]
    assert "anchors or aliases" in refused("\n".join(lines))


def test_objects_are_not_built():
    assert "valid YAML" in refused("id: !!python/object/apply:os.system ['true']")


def test_size_depth_and_entries_are_bounded():
    assert "larger than 256 KiB" in refused("id: " + "x" * yaml_document.MAX_BYTES)
    assert "nests deeper" in refused("id: " + "[" * 1000 + "]" * 1000)
    assert "entries" in refused("id: [" + "1, " * yaml_document.MAX_NODES + "1]")


def test_a_key_twice_is_refused_with_its_line():
    assert "'id' is given twice (line 2" in refused("id: a\nid: b\n")


@pytest.mark.parametrize(
    "text, words",
    [
        ("", "must be a mapping of keys to values, not nothing"),
        ("- 1\n- 2", "not a list"),
        ("42", "not a number"),
        ("just words", "not a text"),
        ("id: [1, 2", "is not valid YAML"),
        ("\tid: x", "is not valid YAML"),
        ("1: x", "key 1 is not text"),
        ("id: 2026-13-45", "month must be in 1..12"),
        ("id: a\n---\nid: b", "is not valid YAML"),
        ("id: \x00", "is not valid YAML"),
    ],
)
def test_text_that_is_no_mapping_is_refused_with_the_reason(text, words):
    assert words in refused(text)


@given(st.text(max_size=300))
def test_any_text_is_answered_by_one_sentence(text):
    with pytest.raises(RidgelineError) as caught:
        hardware_db.load_yaml(text)
    assert str(caught.value).startswith("the YAML") and "\n" not in str(caught.value)


# ------------------------------------------------------------------------------- overlay


def test_mappings_merge_and_other_values_are_replaced():
    base = {"a": 1, "b": {"c": 2, "d": 3}, "e": [1, 2]}
    merged = yaml_document.overlay(base, {"b": {"c": 9}, "e": [3], "f": 4})
    assert merged == {"a": 1, "b": {"c": 9, "d": 3}, "e": [3], "f": 4}
    assert base["b"] == {"c": 2, "d": 3}, "the base stays"


def test_null_takes_a_key_away_and_a_sourced_number_is_replaced_whole():
    base = {"a": {"value": 1, "source": "x"}, "b": 2}
    assert yaml_document.overlay(base, {"a": {"value": 5}, "b": None}) == {"a": {"value": 5}}

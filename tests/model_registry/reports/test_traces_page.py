"""The page of traces: figures of models that trace, and the reason for those that do not."""

import json
from pathlib import Path

import pytest

from model_registry.reports import traces_page
from model_registry.reports.traces_page import MARKER, configs, markdown, trace_result
from tests.model_registry.tracing_cases import tiny

pytestmark = pytest.mark.usefixtures("transformers")
PAGE = Path(__file__).parents[3] / "docs" / "tracing.md"
DIFF = {**tiny("llama"), "model_type": "diffllama"}


def test_a_trace_is_compared_with_a_builder_and_never_with_itself() -> None:
    assert trace_result("built", tiny("llama")).builder == "0.000 %"
    assert trace_result("traced", DIFF).builder == ""


def test_the_table_has_a_row_for_each_config_and_a_line_of_counts() -> None:
    refused = trace_result("unknown", {**tiny("llama"), "model_type": "imaginary"})
    lines = markdown([trace_result("built", tiny("llama")), refused]).splitlines()
    assert lines[0].startswith("1 of 2 configs trace; the others are refused with the reason.")
    assert lines[-2].startswith("| built | llama | 0.000 B | 0.000 B | ")
    assert lines[-2].endswith(" | 0.000 % |")
    assert lines[-1] == f"| unknown | imaginary | refused: {refused.refusal} | | | | |"


def test_paths_are_traced_in_place_of_what_ships(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(tiny("llama")))
    assert list(configs([str(path)])) == [("mine", tiny("llama"))]


def test_the_table_is_written_behind_its_marker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page, path = tmp_path / "page.md", tmp_path / "mine.json"
    page.write_text(f"# Head\n\n{MARKER}\n\nan older table\n")
    path.write_text(json.dumps(tiny("llama")))
    monkeypatch.setattr("sys.argv", ["traces_page", "--write", str(page), str(path)])
    traces_page.main()
    text = page.read_text()
    assert text.startswith(f"# Head\n\n{MARKER}\n\n1 of 1 configs trace")
    assert "| mine | llama |" in text and "older" not in text


def test_the_document_has_the_marker() -> None:
    assert PAGE.read_text(encoding="utf-8").count(MARKER) == 1

"""Exported charts: with a footer, in colours for paper, as vectors."""

import re

import pandas as pd
import pytest

from app.charts import breakdown, style
from app.dashboard import export
from app.question.question import Question
from app.scenario.intervals import Ranged
from app.scenario.setup import Setup

PARTS = {"compute": 3e-3, "memory": 2e-3, "overhead": 1e-3}
SETUP = Setup(Question(engine="vllm", engine_version="0.9.0", batch=64, weights="fp8", tp=4))


def figure(look: style.Look):
    return breakdown.waterfall(PARTS, Ranged(6e-3), "Decode step by cause", look)


def test_a_footer_names_model_system_engine_load_and_day():
    words = export.footer_words(SETUP)
    for part in ("Llama-3.1-8B", "h100-sxm5-80gb", "vllm 0.9.0", "fp8 weights", "batch 64, 1,024"):
        assert part in words
    assert re.search(r"\d{4}-\d\d-\d\d$", words)


def test_a_saved_table_starts_with_model_system_and_engine():
    table = pd.DataFrame({"ttft_s": [0.1], "engine": ["sglang"]})
    saved = export.names_first(table, SETUP)
    assert list(saved.columns) == ["model", "system", "engine", "ttft_s"]
    row = saved.iloc[0]
    assert row["model"].endswith("Llama-3.1-8B") and row["system"] == "h100-sxm5-80gb"
    assert row["engine"] == "sglang"  # the row's own
    assert list(export.names_first(table).columns) == ["engine", "ttft_s"]


def test_a_footer_leaves_the_chart_on_the_page_as_it_is():
    chart = figure(style.LIGHT)
    before = str(chart.document())
    signed = export.with_footer(chart, export.footer_words(SETUP))
    assert str(chart.document()) == before
    assert signed.layout["height"] > chart.layout["height"]
    assert "Llama-3.1-8B" in signed.layout["legend2"]["title"]["text"]


@pytest.mark.slow
@pytest.mark.skipif(not export.can_draw(), reason="no kaleido, or no browser to draw with")
def test_exports_are_vectors_in_the_colours_of_paper_with_the_footer():
    signed = export.with_footer(figure(style.DARK), export.footer_words(SETUP))
    drawn = export.image(signed, "svg").decode()
    assert "Llama-3.1-8B" in drawn and "vllm 0.9.0" in drawn
    assert "rgb(255, 255, 255)" in drawn and "rgb(17, 22, 29)" not in drawn
    assert export.image(signed, "pdf").startswith(b"%PDF")


def test_the_menu_of_exports_speaks_of_files_that_it_offers_and_else_of_what_they_need(monkeypatch):
    """It once listed SVG, PDF and PNG where no button offered them."""
    words = export._files_words.__wrapped__
    monkeypatch.setattr(export, "can_draw", lambda: True)
    assert "use print colours" in words()
    monkeypatch.setattr(export, "can_draw", lambda: False)
    monkeypatch.setattr(export.importlib.util, "find_spec", lambda name: None)
    assert "-m pip install" in words() and "kaleido" in words()
    monkeypatch.setenv("RIDGELINE_RIGHTS", "shared")
    assert "pip install" not in words() and "`export`" in words()


def test_a_saved_file_has_one_type_whatever_the_operating_system_knows_of_its_ending(monkeypatch):
    saved: dict[str, str] = {}

    def save(label: str, data: object, file: str, mime: str, **_: object) -> None:
        saved[file] = mime

    monkeypatch.setattr(export.st, "download_button", save)
    for file in ("plan.md", "plan.yaml", "launch.sh", "table.csv"):
        export.save_button("Save", "", file)
    assert saved == dict.fromkeys(saved, "application/octet-stream") and len(saved) == 4

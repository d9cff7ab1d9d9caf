"""The texts of the pages: each that a page draws is there, and each that is there is drawn."""

import re
from pathlib import Path

from app.dashboard.page_texts import page_text, page_texts

APP = Path(__file__).parents[3] / "app"


def test_every_text_is_drawn_and_every_drawn_text_exists():
    sources = "".join(path.read_text(encoding="utf-8") for path in APP.rglob("*.py"))
    drawn = re.findall(r"""\bpage_text\(\s*["']([^"']+)["']""", sources)
    assert set(drawn) == set(page_texts())


def test_a_text_writes_numbers_in_the_units_of_columns():
    row = {"prefill_s": 0.02, "wait_s": 0.03}
    said = "TTFT is 20.0 ms for prefill and 30.0 ms of waiting (60 %)."
    assert page_text("causes of TTFT", row=row, share=0.6) == said

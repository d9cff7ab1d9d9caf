"""The style of the pages: loaded once per page, before the content that it positions."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from streamlit.testing.v1 import AppTest

from app.dashboard import page_style


def _page() -> None:
    import streamlit as st

    from app.dashboard import page_style

    page_style.show()
    st.text("below")


def test_a_new_page_waits_for_its_style_and_a_rerun_does_not(monkeypatch: pytest.MonkeyPatch):
    waited: list[float] = []
    monkeypatch.setattr(page_style, "AHEAD_S", 0.25)
    monkeypatch.setattr(page_style, "time", SimpleNamespace(sleep=waited.append))
    page = AppTest.from_function(_page).run()
    assert not page.exception and page.text[0].value == "below"
    assert waited == [0.25]
    page.run()
    assert waited == [0.25]


def test_the_style_holds_the_places_of_what_is_on_its_way():
    style = page_style.STYLE.read_text(encoding="utf-8")
    assert 'data-testid="stSkeleton"' in style and style.count("{") == style.count("}")

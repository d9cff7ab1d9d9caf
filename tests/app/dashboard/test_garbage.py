"""Garbage collections of the server skip objects that survived one, but not for ever; widgets that
are not drawn any more hold nothing.
"""

import gc
from collections.abc import Iterator

import pytest
from streamlit.testing.v1 import AppTest

from app.dashboard import garbage


@pytest.fixture(autouse=True)
def thawed() -> Iterator[None]:
    frozen = gc.get_freeze_count()
    yield
    if not frozen:
        gc.unfreeze()


def collected(survivors: garbage.Survivors, generation: int = 2) -> int:
    """Objects that later collections skip, after a collection of the given generation."""
    for phase in ("start", "stop"):
        survivors(phase, {"generation": generation})
    return gc.get_freeze_count()


def test_what_a_walk_of_everything_leaves_is_skipped_by_the_next():
    gc.unfreeze()
    survivors = garbage.Survivors()
    assert collected(survivors, generation=1) == 0
    frozen = collected(survivors)
    survivors.rests_until_s = float("inf")
    assert collected(survivors) == frozen > 10_000


def test_objects_made_since_a_long_collection_are_skipped(monkeypatch: pytest.MonkeyPatch):
    survivors = garbage.Survivors()
    before = collected(survivors)
    survivors.rests_until_s = float("inf")
    made = [[number] for number in range(10_000)]
    monkeypatch.setattr(garbage, "_LONG_S", 0.0)
    assert collected(survivors) - before > 9_000 and made


def test_survivors_of_a_short_collection_are_collected_by_the_next():
    survivors = garbage.Survivors()
    before = collected(survivors)
    survivors.rests_until_s = float("inf")
    made = [[number] for number in range(10_000)]
    assert collected(survivors) <= before and made


def test_after_a_rest_everything_is_walked_again():
    survivors = garbage.Survivors()
    assert collected(survivors) > 10_000
    survivors.rests_until_s = 0.0
    assert collected(survivors) == 0
    assert collected(survivors) > 10_000


def test_the_rest_is_long_beside_the_walk(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(garbage, "_REST", 1e9)
    survivors = garbage.Survivors()
    survivors("start", {"generation": 2})
    sum(range(100_000))  # the walk takes some time
    survivors("stop", {"generation": 2})
    frozen = gc.get_freeze_count()
    # threads of other tests may let go of some objects meanwhile
    assert collected(survivors) == pytest.approx(frozen, rel=1e-3) and frozen > 10_000


def test_a_process_has_one_callback_however_many_pages_ask():
    garbage.freeze_survivors()
    before = len(gc.callbacks)
    garbage.freeze_survivors()
    assert len(gc.callbacks) == before


def _changing_page() -> None:
    """A page with one button, another one after each click."""
    import streamlit as st

    from app.dashboard import garbage

    garbage.forget_widgets()
    number = st.session_state.setdefault("number", 0)
    st.text_input("Always", key="always")
    st.button(f"Button {number}", on_click=st.session_state.update, kwargs={"number": number + 1})


def test_widgets_that_are_not_drawn_any_more_are_forgotten():
    app = AppTest.from_function(_changing_page).run()
    app.text_input[0].set_value("typed")
    for number in range(1, 5):
        app.button[0].click().run()
        assert app.button[0].label == f"Button {number}"
    assert app.text_input[0].value == "typed" == app.session_state["always"]
    kept = app.session_state._state._state._new_widget_state.widget_metadata
    assert len(kept) == 3  # the box, the button, and the one of the run before

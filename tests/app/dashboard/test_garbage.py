"""Collections of the server: what a long one leaves is skipped by the next, and not for ever."""

import gc
from collections.abc import Iterator

import pytest

from app.dashboard import garbage


@pytest.fixture(autouse=True)
def thawed() -> Iterator[None]:
    frozen = gc.get_freeze_count()
    yield
    if not frozen:
        gc.unfreeze()


def collected(survivors: garbage.Survivors, generation: int = 2) -> int:
    """Objects that later collections skip, after one of a generation."""
    for phase in ("start", "stop"):
        survivors(phase, {"generation": generation})
    return gc.get_freeze_count()


def test_what_a_long_collection_leaves_is_skipped_by_the_next(monkeypatch: pytest.MonkeyPatch):
    gc.unfreeze()
    monkeypatch.setattr(garbage, "_LONG_S", -1.0)
    assert collected(garbage.Survivors()) > 10_000


def test_after_a_short_or_young_collection_nothing_is_skipped(monkeypatch: pytest.MonkeyPatch):
    gc.unfreeze()
    monkeypatch.setattr(garbage, "_LONG_S", 1e9)
    assert collected(garbage.Survivors()) == 0
    monkeypatch.setattr(garbage, "_LONG_S", -1.0)
    assert collected(garbage.Survivors(), generation=1) == 0


def test_from_time_to_time_everything_is_looked_through_again(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(garbage, "_LONG_S", -1.0)
    survivors = garbage.Survivors()
    assert collected(survivors) > 10_000
    monkeypatch.setattr(garbage, "_AGAIN_S", -1.0)
    assert collected(survivors) == 0
    monkeypatch.setattr(garbage, "_AGAIN_S", 1e9)
    assert collected(survivors) > 10_000


def test_a_process_has_one_callback_however_many_pages_ask():
    garbage.freeze_survivors()
    before = len(gc.callbacks)
    garbage.freeze_survivors()
    assert len(gc.callbacks) == before

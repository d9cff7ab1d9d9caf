"""Garbage collections of the server skip objects that survived one, but not for ever."""

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


def test_what_was_made_since_is_skipped_after_a_long_collection(monkeypatch: pytest.MonkeyPatch):
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

"""A cache of traces and derived modules for the whole session, and an empty one per test."""

from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session", autouse=True)
def shared_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The cache folder of every test that does not take `own_cache`."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RIDGELINE_CACHE", str(folder))
        yield folder


@pytest.fixture(scope="session")
def transformers() -> None:
    """Skips if PyTorch or Transformers is not installed; imported when a test runs, not when
    tests are collected.
    """
    pytest.importorskip("torch")
    pytest.importorskip("transformers", minversion="5.0")


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder for one test."""
    folder = tmp_path / "cache"
    folder.mkdir()
    monkeypatch.setenv("RIDGELINE_CACHE", str(folder))
    return folder

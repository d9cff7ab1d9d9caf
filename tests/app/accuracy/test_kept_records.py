"""Measured points with their predictions on disk: read again, made again for another edition."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.accuracy import kept_records, measured_points
from app.accuracy.tables import Columns
from genz_core.common.progress import Cancelled
from hardware_db import user_files
from hardware_db.data_folder import as_shipped, data_folders


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty cache, and two measured rows."""
    rows = measured_points.measured_rows("published")[:2]
    monkeypatch.setenv("RIDGELINE_CACHE", str(tmp_path))
    monkeypatch.setattr(measured_points, "measured_rows", lambda name: rows)
    return tmp_path / "accuracy"


def same(one: Columns | None, other: Columns) -> bool:
    """Whether columns have the same names, kinds and values."""
    return (
        one is not None
        and list(one) == list(other)
        and all(
            one[name].dtype == other[name].dtype and (one[name] == other[name]).all()
            for name in one
        )
    )


def test_what_was_priced_is_read_again(folder: Path):
    assert kept_records.read("batch points") is None
    told: list[str] = []
    made = kept_records.records("batch points", lambda share, what: told.append(what))
    assert len(made["id"]) == 2 and all(made["label"]) and all(made["predicted_s"] > 0.0)
    assert told[-1] == "2 of 2 measured runs"
    assert same(kept_records.read("batch points"), made)
    told.clear()
    assert same(kept_records.records("batch points", lambda share, what: told.append(what)), made)
    assert not told


def test_equal_texts_of_a_column_are_read_as_one_object(folder: Path):
    kept_records.records("batch points")
    texts = (kept_records.read("batch points") or {})["source"]
    assert len({id(text) for text in texts}) == len(set(texts)) < len(texts)


def test_another_edition_and_a_damaged_file_are_priced_anew(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    made = kept_records.records("batch points")
    (file,) = folder.iterdir()
    file.write_text("[{")
    assert kept_records.read("batch points") is None
    assert same(kept_records.records("batch points"), made)
    monkeypatch.setattr(kept_records, "edition", lambda: "next")
    assert kept_records.read("batch points") is None
    kept_records.records("batch points")
    assert [path.name for path in folder.iterdir()] == ["records-batch points-next.json"]


def test_the_edition_changes_with_a_file_of_the_program(monkeypatch: pytest.MonkeyPatch, tmp_path):
    class Package:
        __path__ = (str(tmp_path),)

    monkeypatch.setattr(kept_records, "_PACKAGES", (Package,))
    found = []
    for text in ("a: 1", "a: 2"):
        (tmp_path / "constants.yaml").write_text(text)
        kept_records.edition.cache_clear()
        found.append(kept_records.edition())
    kept_records.edition.cache_clear()
    assert found[0] != found[1]


def test_the_users_own_files_change_nothing_that_ships(own_data: Path):
    user_files.write_system({"include": "h100-sxm5-80gb", "id": "ours", "name": "Ours"})
    assert data_folders()
    with as_shipped():
        assert not data_folders()
    assert data_folders()


def test_a_cancelled_pricing_keeps_nothing(folder: Path):
    with pytest.raises(Cancelled):
        kept_records.records("batch points", cancelled=lambda: True)
    assert not folder.exists()


def test_records_are_there_where_nothing_can_be_written(folder: Path):
    folder.write_text("a file in place of the folder")
    assert len(kept_records.records("batch points")["id"]) == 2

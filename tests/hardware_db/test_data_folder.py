"""The user's data folder: its place, and a stamp that changes with its files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hardware_db import data_folder


def test_the_data_folder_is_the_one_of_the_platform(monkeypatch, tmp_path):
    monkeypatch.delenv("RIDGELINE_DATA", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setattr(data_folder.sys, "platform", "linux")
    assert data_folder.data_folder() == tmp_path / "ridgeline"
    monkeypatch.delenv("XDG_DATA_HOME")
    assert data_folder.data_folder() == Path.home() / ".local" / "share" / "ridgeline"
    monkeypatch.setattr(data_folder.sys, "platform", "darwin")
    assert data_folder.data_folder() == Path.home() / "Library/Application Support/ridgeline"
    monkeypatch.setattr(data_folder.sys, "platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "local"))
    assert data_folder.data_folder() == tmp_path / "local" / "ridgeline"


@pytest.mark.parametrize(
    "name", ["systems/a.yaml", "profiles/a.yaml", "engines/a.yaml", "recipes.csv"]
)
def test_the_stamp_changes_with_every_file_that_is_read(tmp_path, monkeypatch, name):
    monkeypatch.setenv("RIDGELINE_DATA", str(tmp_path))
    empty = data_folder.stamp()
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("x")
    written = data_folder.stamp()
    os.utime(path, ns=(1, 1))
    touched = data_folder.stamp()
    path.unlink()
    assert len({empty, written, touched}) == 3 and data_folder.stamp() == empty


def test_other_files_of_the_folder_do_not_change_the_stamp(tmp_path, monkeypatch):
    monkeypatch.setenv("RIDGELINE_DATA", str(tmp_path))
    before = data_folder.stamp()
    (tmp_path / "runs.sqlite").write_text("x")
    assert data_folder.stamp() == before

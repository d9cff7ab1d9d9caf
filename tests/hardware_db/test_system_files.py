"""Systems of the user, read from the data folder like shipped ones."""

import json
import os
from pathlib import Path

import pytest

import hardware_db
from genz_core.errors import InvalidValue, UnknownSystem
from hardware_db import system_files
from tests.hardware_db.system_documents import BOARD
from tests.rules import for_every

FACT = BOARD["memory_gb"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder for the user's systems."""
    monkeypatch.setenv("RIDGELINE_DATA", str(tmp_path))
    systems = tmp_path / "systems"
    systems.mkdir()
    return systems


def write(folder: Path, data: dict, name: str = "") -> Path:
    path = folder / f"{name or data['id']}.yaml"
    path.write_text(json.dumps(data), encoding="utf-8")  # JSON is YAML
    return path


def test_a_file_in_the_data_folder_is_a_system(folder):
    write(folder, BOARD | {"aliases": ["Thunder 9"]})
    assert "my-card" in hardware_db.names()
    assert hardware_db.load("my-card").name == "My card"
    assert hardware_db.load("THUNDER-9").slug == "my-card"


def test_a_changed_file_is_read_anew(folder):
    write(folder, BOARD)
    assert hardware_db.load("my-card").memory_bytes == 24e9
    path = write(folder, BOARD | {"memory_gb": FACT | {"value": 48}})
    later = path.stat().st_mtime_ns + 1_000_000
    os.utime(path, ns=(later, later))
    assert hardware_db.load("my-card").memory_bytes == 48e9
    path.unlink()
    with pytest.raises(UnknownSystem):
        hardware_db.load("my-card")


def test_it_may_stand_in_for_a_shipped_system_of_its_name(folder):
    shipped = hardware_db.load("l4").memory_bytes
    write(folder, BOARD | {"id": "l4", "name": "My L4"})
    assert hardware_db.load("l4").name == "My L4"
    assert hardware_db.load("l4").memory_bytes != shipped


def test_an_alias_does_not_take_the_name_of_a_shipped_system(folder):
    write(folder, BOARD | {"aliases": ["l4", "h100"]})
    assert hardware_db.load("l4").slug == "l4"
    assert hardware_db.load("h100").slug == "h100-sxm5-80gb"


def test_a_broken_file_says_so_and_harms_no_other(folder):
    (folder / "broken.yaml").write_text("id: [", encoding="utf-8")
    (folder / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    (folder / "huge.yaml").write_bytes(b"#" * (1 << 20))
    assert hardware_db.load("h100").slug == "h100-sxm5-80gb"
    with pytest.warns(hardware_db.LeftOutWarning):
        assert not {"broken", "binary", "huge"} & set(hardware_db.names())
    for name, words in (
        ("broken", "broken.yaml is not valid YAML"),
        ("binary", "not UTF-8"),
        ("huge", "larger than 256 KiB"),
    ):
        with pytest.raises(InvalidValue, match=words):
            hardware_db.load(name)


def test_the_file_name_must_be_the_id(folder):
    write(folder, BOARD, name="other")
    with pytest.raises(InvalidValue, match=r"name the file my-card\.yaml"):
        hardware_db.load("other")


def test_a_file_anywhere_is_loaded_by_its_path(tmp_path):
    path = write(tmp_path, BOARD, name="anywhere")
    assert hardware_db.load(path).slug == "my-card"
    with pytest.raises(UnknownSystem):
        hardware_db.load(str(path))
    with pytest.raises(InvalidValue, match=r"missing\.yaml: no such file"):
        hardware_db.load(tmp_path / "missing.yaml")
    with pytest.raises(InvalidValue, match=r"\.yaml: no such file"):
        hardware_db.load(tmp_path / ".yaml")


def test_without_a_data_folder_there_are_the_shipped_systems(monkeypatch, tmp_path):
    monkeypatch.setenv("RIDGELINE_DATA", str(tmp_path / "nothing"))
    assert hardware_db.names() == sorted(system_files.shipped())


@for_every(system_files.shipped())
def test_the_names_of_a_shipped_system_are_found_without_reading_the_rest_of_it(slug):
    record = system_files.read(system_files.shipped()[slug])
    found = system_files._named(system_files.shipped()[slug], 0)
    assert found.slug == record.id == slug
    assert found.names == (record.id, record.name, *record.aliases)


@pytest.mark.parametrize(
    ("changes", "device_of"),
    [
        ({"name": "H100 on a slow switch", "links": {}}, "h100-sxm5-80gb"),
        ({"tdp_w": {"value": 500, "source": "s", "kind": "assumed", "note": "capped"}}, ""),
        ({"include": "h800-sxm5-80gb"}, "h100-sxm5-80gb"),
        ({"include": "h200-sxm-141gb"}, "h200-sxm-141gb"),
    ],
)
def test_a_system_has_the_device_of_the_one_that_it_includes_unless_it_changes_it(
    changes, device_of
):
    document = {"include": "h100-sxm5-80gb", "id": "mine", "name": "Mine"} | changes
    document["sources"] = {"s": {"title": "my own figures"}}
    assert system_files.complete(document, "mine").system().device_of == device_of

"""Systems, engines and profiles that are written to the data folder are read back from it."""

from __future__ import annotations

from dataclasses import asdict, replace

import pytest

import hardware_db
from genz_core.errors import MeasurementError
from hardware_db import profile_schema, user_files
from hardware_db.profiles import measured_profiles
from tests.hardware_db.system_documents import BOARD


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """An empty data folder for the user."""
    monkeypatch.setenv("RIDGELINE_DATA", str(tmp_path))
    return tmp_path


def test_a_system_is_loaded_by_the_id_that_it_was_written_under(folder):
    assert user_files.write_system(BOARD) == folder / "systems" / "my-card.yaml"
    assert hardware_db.load("my-card") == hardware_db.load(BOARD)


def test_an_engine_stands_in_for_a_shipped_one_of_its_id(folder):
    record = hardware_db.engine_facts("hf")
    document = record.model_dump(mode="json", exclude_none=True)
    document["host_step_us"]["value"] = 123.0
    user_files.write_engine(document)
    assert hardware_db.load_engine("hf").host_step_s == pytest.approx(123e-6)
    assert hardware_db.load_engine("vllm") == hardware_db.load_engine("vllm", own=False)


def test_a_profile_comes_before_the_shipped_one_of_a_device():
    shipped = measured_profiles()[0]
    key = next(key for key in shipped.parameters if key[0] == "gemm")
    slower = replace(shipped.parameters[key], launch_s=2 * shipped.parameters[key].launch_s)
    own = replace(shipped, name="mine", parameters={key: slower}, fits={key: shipped.fits[key]})
    path = user_files.write_profile(own, "Written by a test.")
    assert path.read_text().startswith("# Written by a test.")
    written = profile_schema.read(path, "measured").parameters[key]
    assert asdict(written) == pytest.approx(asdict(slower), rel=1e-4)
    constants = hardware_db.load(shipped.systems[0]).latency.constants(*key)
    assert constants.launch_s == pytest.approx(slower.launch_s, rel=1e-4)


def test_a_folder_that_cannot_be_written_is_one_sentence(folder, monkeypatch):
    (folder / "taken").write_text("a file")
    monkeypatch.setenv("RIDGELINE_DATA", str(folder / "taken"))
    with pytest.raises(MeasurementError, match="cannot write"):
        user_files.write_system(BOARD)

"""Files are written completely or not at all."""

from __future__ import annotations

import pytest

from genz_core.errors import InvalidValue, MeasurementError
from hardware_db.whole_file import write_whole


def test_a_file_appears_at_the_end_in_a_folder_that_is_made(tmp_path):
    path = tmp_path / "new" / "file.txt"
    with write_whole(path) as draft:
        draft.write_text("half")
        assert not path.exists()
        draft.write_text("whole")
    assert path.read_text() == "whole"
    assert list(path.parent.iterdir()) == [path]


def test_an_error_leaves_the_old_file_and_no_draft(tmp_path):
    path = tmp_path / "file.txt"
    path.write_text("old")
    with pytest.raises(ZeroDivisionError), write_whole(path) as draft:
        draft.write_text("new")
        raise ZeroDivisionError
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("error", [InvalidValue, MeasurementError])
def test_a_file_system_that_refuses_is_the_error_of_the_caller(tmp_path, error):
    (tmp_path / "file").write_text("no folder")
    with (
        pytest.raises(error, match=r"cannot write .*name\.txt"),
        write_whole(tmp_path / "file" / "name.txt", error),
    ):
        pytest.fail("there is no place for a draft")

"""The data folder of running servers: two of them on one folder, and what a session leaves."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from hardware_db import user_files
from tests.dashboards import served
from tests.ops.visitor import visit

OWN = {"include": "h100-sxm5-80gb", "id": "ours", "name": "Ours"}


def test_two_servers_on_one_folder_see_each_others_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("RIDGELINE_DATA", str(tmp_path / "data"))
    logs = [tmp_path / name for name in ("one", "two")]
    for folder in logs:
        folder.mkdir()
    with (
        served(logs[0]) as one,
        served(logs[1], "--shared") as two,
        visit(one.url) as first,
        visit(two.url) as second,
    ):
        assert "ours" not in first.open().options("System") + second.open().options("System")
        user_files.write_system(OWN)
        assert "ours" in first.open().options("System")
        assert "ours" in second.open().options("System")


def test_a_data_folder_is_looked_for_where_the_command_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("RIDGELINE_DATA", str(tmp_path / "data"))
    user_files.write_system(OWN)
    own = {"RIDGELINE_DATA": "data"}
    with served(tmp_path, environment=own) as server, visit(server.url) as session:
        assert "ours" in session.open().options("System")


def test_a_server_that_ends_leaves_no_folder_of_a_visitor(tmp_path: Path):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    own = {"TMPDIR": str(temporary)}
    with (
        served(tmp_path, "--shared", environment=own) as server,
        visit(server.url) as session,
    ):
        session.open()
        assert len(list(temporary.rglob("ridgeline-visitor-*"))) == 1
    assert not list(temporary.rglob("ridgeline-*"))


def test_the_folder_of_a_session_goes_when_the_session_is_forgotten(tmp_path: Path):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    own = {"TMPDIR": str(temporary), "STREAMLIT_SERVER_DISCONNECTED_SESSION_TTL": "1"}

    def folders() -> set[Path]:
        return set(temporary.rglob("ridgeline-visitor-*"))

    with served(tmp_path, "--shared", environment=own) as server:
        with visit(server.url) as session:
            session.open()
            (first,) = folders()
        deadline = time.monotonic() + 150  # what ended is garbage some seconds later
        while first in folders():
            assert time.monotonic() < deadline
            time.sleep(1.0)
            with visit(server.url) as session:  # the server tidies up when sessions come and go
                session.open()

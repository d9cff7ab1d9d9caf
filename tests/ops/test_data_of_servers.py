"""The data folder of running servers: two servers on one folder, and what a session leaves."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from hardware_db import user_files
from tests.dashboards import served
from tests.ops.visitor import visit

OWN = {"include": "h100-sxm5-80gb", "id": "ours", "name": "Ours"}


@pytest.mark.slow
def test_two_servers_on_one_folder_see_each_others_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """One gets the folder as a path relative to the working folder.

    Neither leaves a visitor's folder when it ends, and the shared one, although open to all, prints
    no warning.
    """
    monkeypatch.setenv("RIDGELINE_DATA", str(tmp_path / "data"))
    temporary, other = tmp_path / "temporary", tmp_path / "two"
    for folder in (temporary, other):
        folder.mkdir()
    kept_in = {"TMPDIR": str(temporary)}
    with (
        served(tmp_path, environment={"RIDGELINE_DATA": "data"}) as one,
        served(other, "--host", "0.0.0.0", "--shared", environment=kept_in) as two,
        visit(one.url) as first,
        visit(two.url) as second,
    ):
        assert "ours" not in first.open().options("System") + second.open().options("System")
        user_files.write_system(OWN)
        assert "ours" in first.open().options("System")
        assert "ours" in second.open().options("System")
        assert len(list(temporary.rglob("ridgeline-visitor-*"))) == 1
        assert "Warning" not in two.log.read_text()
    assert not list(temporary.rglob("ridgeline-*"))


@pytest.mark.slow
def test_the_folder_of_a_session_goes_when_the_session_is_forgotten(tmp_path: Path):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    own = {"TMPDIR": str(temporary), "STREAMLIT_SERVER_DISCONNECTED_SESSION_TTL": "1"}

    def folders() -> set[Path]:
        while True:
            try:
                return set(temporary.rglob("ridgeline-visitor-*"))
            except FileNotFoundError:  # one disappeared while it was being read
                continue

    with served(tmp_path, "--shared", environment=own) as server:
        with visit(server.url) as session:
            session.open()
            (first,) = folders()
        deadline = time.monotonic() + 150  # ended sessions are collected some seconds later
        while first in folders():
            assert time.monotonic() < deadline
            time.sleep(1.0)
            with visit(server.url) as session:  # the server cleans up when sessions start and end
                session.open()

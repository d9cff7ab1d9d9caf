"""A queue of jobs for each test, whose jobs end with it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.jobs import Queue


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[Queue]:
    queue = Queue(tmp_path / "jobs")
    yield queue
    for job in queue.under_way:
        job.end()

"""One application for all tests of the API, with its processes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from app.api.answers import Answers
from app.api.rest import application
from app.api.workers import Workers


@pytest.fixture(scope="session")
def api() -> Iterator[TestClient]:
    answers = Answers(Workers(1, waiting_s=120.0, limit_s=120.0))
    with TestClient(application(answers=answers), raise_server_exceptions=False) as client:
        yield client

"""Questions to REST that are answered or refused."""

from __future__ import annotations

from typing import Any

from starlette.testclient import TestClient

MODEL = "meta-llama/Llama-3.1-8B"


def asked(api: TestClient, verb: str, **body: Any) -> Any:
    answer = api.post(f"/{verb}", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def refused(api: TestClient, verb: str, **body: Any) -> dict[str, Any]:
    answer = api.post(f"/{verb}", json=body)
    assert answer.status_code == 422, answer.text
    return answer.json()["error"]

"""Any request body gets an answer or a one-sentence refusal, never a server error."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from starlette.testclient import TestClient

from app.api import bodies
from app.api.examples import EXAMPLES
from tests.draws import cases, seed

COUNT = cases(250)
#: Verbs with slow answers get fewer cases.
TURNS = (
    ("estimate",) * 12 + ("serve",) * 6 + ("sweep", "simulate", "plan", "economics", "sensitivity")
)
HOSTILE: list[Any] = [
    None, True, False, "", " ", "\x00", "é" * 50, "x" * 5000, "../../etc/passwd", "/etc/passwd",
    "file:///etc/passwd", "hf:org/name", "https://localhost/x", "a.yaml", "{", "{}", "=1+1",
    "1e9", "1:64", "64:1", "tpot < 1", "tpot <", "fp8", "int4", "mtp", "draft_model", "nan",
    0, -1, 1, 2, 3, 7, 64, 1.5, -0.5, 0.5, 1e-300, 1e300, 1e18, 2**31, 2**53, 2**63, 2**64, 10**30,
    [], [1], [0], [-1], [1, 2, 3], [1] * 5, [1.5], [[1]], [[1, 2]], [[-1, 1e300]], ["a"], [None],
    [True], {}, {"from": 1, "to": 4}, {"from": 1, "to": 1e18}, {"from": 4, "to": 1, "step": -1},
    {"from": 1, "to": 64, "step": "x2"}, {"a": 1}, {"h100": -1}, {"from": "x", "to": []},
]  # fmt: skip


def mutated(verb: str, draw: random.Random) -> bytes:
    """A good body with some fields replaced, dropped, added or its bytes damaged."""
    body = dict(draw.choice(list(EXAMPLES[verb].values())))
    if verb == "plan":
        body |= {"simulate": False, "devices": "1:2"}
    if verb == "simulate":
        body |= {} if "trace" in body else {"requests": 20}
    fields = list(bodies.ASKED[verb].model_fields)
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        way = draw.random()
        if way < 0.08:
            body.pop(draw.choice(list(body)), None)
        elif way < 0.14:
            body[draw.choice(fields) + draw.choice(("x", "_", ""))] = draw.choice(HOSTILE)
        else:
            body[draw.choice(fields)] = draw.choice(HOSTILE)
    content = json.dumps(body).encode()
    if draw.random() < 0.1:
        at = draw.randrange(len(content))
        content = content[:at] + bytes([draw.randrange(256)]) + content[at + draw.randrange(9) :]
    return content


@pytest.mark.draws
def test_no_body_breaks_the_server(api: TestClient):
    draw = random.Random(seed(18))
    seen: dict[int, int] = {}
    for _ in range(COUNT):
        verb = draw.choice(TURNS)
        content = mutated(verb, draw)
        answer = api.post(f"/{verb}", content=content, headers={"content-type": "application/json"})
        told = f"{verb} {content[:600]!r}: {answer.status_code} {answer.text[:300]}"
        assert answer.status_code == 200 or 400 <= answer.status_code < 500, told
        seen[answer.status_code] = seen.get(answer.status_code, 0) + 1
        if answer.status_code != 200:
            error = answer.json()["error"]
            assert error["message"].strip() and "\n" not in error["message"], told
            assert "Traceback" not in error["message"], told
    assert seen[422] > COUNT / 3, seen


@pytest.mark.draws
def test_no_upload_breaks_the_server(api: TestClient):
    draw = random.Random(seed(4))
    for at in range(cases(20)):
        content = draw.randbytes(draw.randrange(3000))
        name = draw.choice(["a.json", "../../x", "", "a" * 500, "x.sqlite", "é.csv"])
        answer = api.post("/import", files={"files": (name, content)})
        assert 400 <= answer.status_code < 500 and answer.json()["error"]["message"], at
        asked = json.dumps({"model": draw.choice(HOSTILE), "tp": draw.choice(HOSTILE)})
        answer = api.post("/compare", files={"files": ("r", content)}, data={"asked": asked})
        assert 400 <= answer.status_code < 500 and answer.json()["error"]["message"], at

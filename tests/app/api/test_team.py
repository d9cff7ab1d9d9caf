"""A shared server: access, logging, refusals and shutdown."""

from __future__ import annotations

import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from typer.testing import Result

from app.api.answers import Answers
from app.api.errors import Stopping
from app.api.request_bounds import Bounds
from app.api.rest import application
from app.api.workers import Workers
from app.commands.library.servers import tokens_of
from app.question.parameters import PARAMETERS
from genz_core.errors import InvalidValue
from tests.app.api.services import started

MODEL = "meta-llama/Llama-3.1-8B"
ANN, BOB = "ann-has-this-token", "bob-has-another-one"
LONG = {"model": MODEL, "system": "h100", "rate": 5, "requests": 100_000}


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    file = tmp_path / "tokens"
    file.write_text(f"# of the team\nann {ANN}\nbob {BOB}  # until spring\n\n")
    return file


def sent(url: str, body: dict[str, Any] | None = None, token: str = "") -> tuple[int, Any]:
    """Status and document of an answer."""
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
    data = json.dumps(body).encode() if body else None
    asked = urllib.request.Request(url, data, headers)
    try:
        with urllib.request.urlopen(asked, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


@pytest.mark.parametrize("command", [("api",), ("mcp", "--http")])
def test_an_open_address_without_a_token_is_refused(
    command: tuple[str, ...], ridgeline: Callable[..., Result]
):
    said = str(ridgeline(*command, "--host", "0.0.0.0").exception)
    assert "anyone who can reach 0.0.0.0 may use it: give --token" in said


def test_every_user_has_a_token_and_every_request_a_line(tmp_path: Path, tokens: Path):
    """Neither a token, nor a query, nor a body is in the log; a refused request is."""
    words = ("api", "--tokens", str(tokens), "--log", "on")
    with started(tmp_path, *words) as (url, _):
        asked = {"model": MODEL, "system": "h100"}
        assert [sent(f"{url}/estimate", asked, token)[0] for token in (ANN, BOB)] == [200, 200]
        assert sent(f"{url}/systems?find=h100", token=f"{ANN}x")[0] == 401
        assert sent(f"{url}/health")[0] == 200
    written = (tmp_path / "log").read_text()
    lines = [json.loads(line) for line in written.splitlines() if line.startswith("{")]
    assert [(line["user"], line["path"], line["status"]) for line in lines] == [
        ("ann", "/estimate", 200), ("bob", "/estimate", 200), ("", "/systems", 401),
        ("", "/health", 200),
    ]  # fmt: skip
    assert all(line["seconds"] >= 0 and line["bytes"] > 10 for line in lines)
    assert not [text for text in (ANN, BOB, "find", MODEL) if text in written]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ann", "has 1 words"),
        ("ann short", "16 or more"),
        (f"ann {ANN}\nbob {ANN}", "'ann' and 'bob' have the same token"),
        ("# nobody", "has no token"),
    ],
)
def test_a_file_of_tokens_that_cannot_be_is_a_sentence(tmp_path: Path, text: str, words: str):
    file = tmp_path / "tokens"
    file.write_text(text)
    with pytest.raises(InvalidValue, match=words):
        tokens_of(file)
    with pytest.raises(InvalidValue, match="cannot be read as a file of tokens"):
        tokens_of(tmp_path)


@pytest.mark.slow
def test_a_server_that_ends_cancels_its_work_and_names_it(tmp_path: Path):
    """Both the client and the log are told, within ten seconds."""
    heard: list[tuple[int, Any]] = []
    with started(tmp_path, "api") as (url, process):
        asking = threading.Thread(
            target=lambda: heard.append(sent(f"{url}/simulate", {**LONG, "osl": 1000}))
        )
        asking.start()
        time.sleep(4.0)  # the work has started
        assert not heard
        began = time.monotonic()
        process.terminate()
        process.wait(timeout=10.0)
        assert time.monotonic() - began < 10.0
        asking.join(timeout=5.0)
    ((status, said),) = heard
    assert status == 503 and json.loads(said)["error"]["code"] == "stopping"
    assert f"simulate of {MODEL} is cancelled" in said
    assert f"cancelled, because the server is shutting down: simulate of {MODEL}, after" in (
        (tmp_path / "log").read_text()
    )


def test_work_whose_process_has_not_started_is_named_too():
    """A new process takes a second to import what it needs; the server may end meanwhile."""
    workers, said = Workers(1), []

    def ask() -> None:
        with pytest.raises(Stopping) as refusal:
            workers.call(time.sleep, 60.0, "plan of a model")
        said.append(str(refusal.value))

    asking = threading.Thread(target=ask)
    asking.start()
    while not workers._busy:
        time.sleep(0.001)
    (ended,) = workers.stop()
    asking.join(timeout=10.0)
    assert ended.startswith("plan of a model, after")
    assert said == [
        "the server is shutting down; plan of a model is cancelled: ask again when it is back"
    ]


@pytest.mark.slow
def test_what_takes_too_long_is_504_and_what_finds_no_process_says_when_to_ask_again():
    workers = Workers(1, waiting_s=0.01, limit_s=0.3)
    with TestClient(application(answers=Answers(workers))) as client:
        body = {"model": MODEL, "batch": [1, 2]}
        client.post("/sweep", json=body)  # a worker process exists
        slow = client.post("/simulate", json=LONG)
        assert slow.status_code == 504 and slow.json()["error"]["code"] == "exhausted"
        taken = workers._free.get()
        busy = client.post("/sweep", json={**body, "isl": 77})
        workers._free.put(taken)
    assert busy.status_code == 429 and busy.headers["Retry-After"] == "1"


def test_the_schema_states_every_refusal_that_is_sent():
    client = TestClient(application(Bounds(token=ANN)), headers={"Authorization": f"Bearer {ANN}"})
    document = client.get("/openapi.json").json()
    for path, methods in document["paths"].items():
        for operation in methods.values():
            known = {"400", "401", "404", "413", "421", "422", "429", "503", "504"}
            assert known <= set(operation["responses"]), path
    broken = client.post("/import", content=b"x", headers={"Content-Type": "multipart/form-data"})
    assert broken.status_code == 400 and broken.json()["error"]["message"]
    assert client.get("/nowhere").status_code == 404
    assert client.get("/estimate").headers["Allow"] == "POST"


def test_every_number_has_a_limit():
    numbers = [one for one in PARAMETERS.values() if one.numeric]
    assert len(numbers) > 30
    for one in numbers:
        assert abs(one.most) <= 2**53 and abs(one.least) <= 2**53, one.name
        with pytest.raises(InvalidValue, match=one.name):
            one.checked(1e18)


@pytest.mark.by_day(1)
@pytest.mark.parametrize(
    ("verb", "more", "words"),
    [
        ("simulate", {"trace": "arrival_s,input_tokens,output_tokens\n1e300,10,20\n"}, "1e300"),
        ("plan", {"trace": ""}, "trace"),
        ("simulate", {"rate": 1, "lengths": [[1e18, 10]]}, "isl = 1000000000000000000"),
        ("economics", {"concurrency": 1, "price": 1e30}, "price = 1e+30"),
        ("serve", {"concurrency": "1e18"}, "concurrency = 1e18"),
        ("sweep", {"batch": {"from": 1, "to": 1e18, "step": 1}}, "is not a range"),
    ],
)
def test_sizes_that_no_number_of_the_question_states_have_a_limit(
    verb: str, more: dict[str, Any], words: str
):
    with TestClient(application(answers=Answers(Workers(1, waiting_s=60.0)))) as client:
        answer = client.post(f"/{verb}", json={"model": MODEL, "system": "h100", **more})
    assert answer.status_code == 422 and words in answer.json()["error"]["message"]


@pytest.mark.slow
def test_mcp_has_health_and_counters(tmp_path: Path, tokens: Path):
    with started(tmp_path, "mcp", "--http", "--tokens", str(tokens)) as (url, _):
        status, said = sent(f"{url}/health")
        assert status == 200 and json.loads(said)["status"] == "ok"
        assert sent(f"{url}/metrics")[0] == 401
        status, said = sent(f"{url}/metrics", token=ANN)
        assert status == 200 and 'ridgeline_requests_total{status="200",verb="health"} 1.0' in said
        assert 'ridgeline_refusals_total{code="no_token"} 1.0' in said

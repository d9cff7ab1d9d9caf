"""What a server of REST bounds: tokens, hosts, sizes, time and memory; and what it counts."""

from __future__ import annotations

import json
import os
import time

import pytest
from starlette.testclient import TestClient

from app.api.answers import Answers
from app.api.errors import Exhausted, TooLong, Unavailable
from app.api.request_bounds import Bounds
from app.api.rest import application
from app.api.workers import Workers
from tests.app.api.asking import MODEL, asked, refused


def test_a_token_is_asked_of_all_but_health():
    client = TestClient(application(Bounds(token="secret")))
    assert client.get("/health").json()["status"] == "ok"
    assert client.get("/systems/h200").status_code == 401
    assert client.get("/metrics").status_code == 401
    answer = client.post("/estimate", json={}, headers={"Authorization": "Bearer wrong"})
    assert answer.status_code == 401 and "token" in answer.json()["error"]["message"]
    good = {"Authorization": "Bearer secret"}
    assert client.get("/systems/h200", headers=good).status_code == 200
    counted = client.get("/metrics", headers=good).text
    assert 'ridgeline_requests_total{status="401",verb="other"} 3.0' in counted
    assert 'ridgeline_refusals_total{code="no_token"} 3.0' in counted


def test_another_hosts_name_is_refused():
    client = TestClient(application(Bounds(hosts=("localhost",))))
    assert client.get("/health").status_code == 421
    assert client.get("/health", headers={"host": "localhost:8600"}).status_code == 200


def test_a_body_that_is_too_large_is_refused_stated_or_not():
    client = TestClient(application(Bounds(body_bytes=1000, upload_bytes=2000)))
    large = json.dumps({"model": "m" * 1500}).encode()
    json_ = {"content-type": "application/json"}
    assert client.post("/estimate", content=large, headers=json_).status_code == 413
    parts = iter([large[:800], large[800:]])
    answer = client.post("/estimate", content=parts, headers=json_)
    assert answer.status_code == 413 and "larger than 1,000" in answer.json()["error"]["message"]
    answer = client.post("/import", files={"files": ("a.json", b"x" * 3000)})
    assert answer.status_code == 413


@pytest.mark.slow
def test_what_takes_too_long_is_ended_and_the_next_is_answered():
    workers = Workers(1, limit_s=0.05)
    with TestClient(application(answers=Answers(workers))) as client:
        body = {"model": MODEL, "batch": [1, 2]}
        error = client.post("/sweep", json=body).json()["error"]
        assert error["code"] == "exhausted" and "0.05 s" in error["message"]
        workers.limit_s = 120.0
        assert len(client.post("/sweep", json=body).json()["rows"]) == 2


@pytest.mark.slow
def test_a_process_that_cannot_start_says_so_and_does_not_speak_of_the_question():
    """A process that ended at start was once reported as out of memory."""
    workers = Workers(1, memory_bytes=8 << 20)  # less than importing NumPy needs
    with TestClient(application(answers=Answers(workers))) as client:
        body = {"model": MODEL, "batch": [1, 2]}
        answer = client.post("/sweep", json=body)
        error = answer.json()["error"]
        assert answer.status_code == 503 and error["code"] == "unavailable"
        assert "can start" in error["message"] and "request less" not in error["message"]
        workers.memory_bytes = 4 << 30
        assert len(client.post("/sweep", json=body).json()["rows"]) == 2


@pytest.mark.slow
def test_work_that_ends_its_process_is_not_said_to_be_too_slow():
    with pytest.raises(Exhausted, match="ended before it was complete"):
        Workers(1).call(os._exit, 3)
    with pytest.raises(Exhausted, match="more memory than 1 GiB"):
        Workers(1, memory_bytes=1 << 30).call(bytes, 2 << 30)


@pytest.mark.slow
def test_a_request_waits_little_for_a_process_that_starts_and_the_next_one_finds_it():
    workers = Workers(1, starting_s=0.0)
    with pytest.raises(Unavailable, match="still starting, after 0 s"):
        workers.call(len, "abc")
    workers.starting_s = 120.0
    assert workers.call(len, "abc") == 3
    workers.close()


@pytest.mark.slow
def test_a_server_starts_its_processes_before_they_are_needed_and_replaces_one_that_it_ends():
    workers = Workers(1, limit_s=0.2, starting_s=120.0)
    workers.begin()
    (first,) = workers._free.queue
    with pytest.raises(TooLong):
        workers.call(time.sleep, 60.0)
    (second,) = workers._free.queue
    assert first and second and first is not second
    assert workers.call(len, "abc") == 3
    workers.close()


def test_metrics_count_requests_refusals_and_kept_answers(api):
    body = {"model": MODEL, "batch": 77}
    asked(api, "estimate", **body)
    asked(api, "estimate", **body)
    refused(api, "estimate", model="nobody/nothing")
    text = api.get("/metrics").text
    assert 'ridgeline_requests_total{status="200",verb="estimate"}' in text
    assert 'ridgeline_kept_answers_total{verb="estimate"}' in text
    assert 'ridgeline_refusals_total{code="unknown_model"}' in text

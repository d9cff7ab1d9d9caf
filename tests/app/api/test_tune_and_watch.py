"""POST /tune and /watch answer what the command line prints, and start nothing."""

from __future__ import annotations

import json

import pytest

from app.question.pairs import pairs
from genz_core.errors import InvalidValue
from tests.app.watching.simulated_pages import in_turn, looks

MODEL = "meta-llama/Llama-3.1-8B"
GIVEN = {"model": MODEL, "system": "h100", "engine": "vllm"}


def test_a_program_asks_what_to_run_next_until_it_is_told_to_stop(api):
    body = {**GIVEN, "concurrency": 16, "osl": 64, "max_num_seqs": [4, 8, 16], "measured": []}
    first = api.post("/tune", json=body).json()
    assert first["next"]["setting"] == {"max_num_seqs": 16} and not first["stop"]
    told = {"setting": first["next"]["setting"], "figures": {"output_tokens_per_s": 1300}}
    second = api.post("/tune", json={**body, "measured": [told]}).json()
    assert second["best"]["number"] == 1 and "better than run 1" in second["stop"]
    dry = api.post("/tune", json={**body, "dry_run": True}).json()
    assert dry["best"]["setting"] == {"max_num_seqs": 16}


def test_a_body_names_no_command(api):
    body = {**GIVEN, "concurrency": 4, "max_num_seqs": [2, 4], "server": "touch /tmp/file"}
    answer = api.post("/tune", json=body)
    assert answer.status_code == 422 and "server" in answer.text


def test_a_recording_that_is_sent_is_watched(api):
    calm = {**GIVEN, "rate": 4.0, "osl": 64}
    served = in_turn([(calm, 180, 1.0), ({**calm, "isl": 6000}, 180, 1.0)])
    text = "\n".join(one.line() for one in looks(served, "vllm", 360.0, 10.0))
    files = [("files", ("looks.jsonl", text.encode()))]
    asked = {"asked": json.dumps({**GIVEN, "window": 30})}
    found = api.post("/watch", files=files, data=asked).json()
    assert [e["cause"] for e in found["events"] if e["kind"] == "alarm"][:1] == ["lengths"]
    refused = api.post("/watch", files=files, data={"asked": "{}"}).json()
    assert "name the model" in refused["error"]["message"]
    wrong = [("files", ("looks.jsonl", b"nothing"))]
    refused = api.post("/watch", files=wrong, data=asked).json()
    assert "not a sample of a page" in refused["error"]["message"]


def test_pairs_are_read_and_refused():
    assert pairs("system=h100 --tp=2 target='tpot < 20ms'") == {
        "system": "h100", "tp": "2", "target": "tpot < 20ms",
    }  # fmt: skip
    for text in ("h100", "tp=1 tp=2", "a='", "tp="):
        with pytest.raises(InvalidValue):
            pairs(text)

"""What REST cannot answer is refused in the sentences of Python; no text opens a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import ridgeline

from app.api import bodies
from app.api.errors import in_a_request
from app.question.verbs import VERBS
from genz_core.errors import RidgelineError
from tests.app.api.asking import MODEL, asked, refused


def test_what_means_nothing_to_a_verb_or_a_load_is_refused_by_name(api):
    said = refused(api, "serve", model=MODEL, concurrency=4, cp=2)["message"]
    assert said == "cp does not apply to serve: leave it out"
    said = refused(api, "estimate", model=MODEL, batch=4, turns=3)["message"]
    assert said.startswith("turns does not apply to a static batch: give a concurrency or a rate")


def test_a_trace_is_a_text_and_no_path(api):
    said = refused(api, "simulate", model=MODEL, trace="/etc/passwd")["message"]
    assert said.startswith(
        "trace = '/etc/passwd': give the text of a trace, not the name of a file"
    )


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/models?pattern=x", "'pattern' is not a parameter of /models: there are find"),
        ("/systems?vendors=amd", "'vendors' is not a parameter of /systems: did you mean vendor?"),
        ("/systems/h100?find=x", "'find' is not a parameter of /systems/h100: it has none"),
    ],
)
def test_an_unknown_query_parameter_is_refused_by_name(api, path, words):
    answer = api.get(path)
    assert answer.status_code == 422 and answer.json()["error"]["message"] == words


WRONG: list[dict[str, Any]] = [
    {"model": "meta-llama/Lama-3.1-8B"},
    {"model": MODEL, "system": "h1000"},
    {"model": MODEL, "tp": 3},
    {"model": MODEL, "batch": 0},
    {"model": MODEL, "isl": 1.5},
    {"model": MODEL, "weights": "fp7"},
    {"model": MODEL, "batch": 4096, "isl": 100_000},
    {"model": MODEL, "overlap": "all"},
]


@pytest.mark.parametrize("body", WRONG, ids=lambda body: list(body.items())[-1][0])
def test_a_refusal_is_the_sentence_of_python(api, body):
    keywords = {name: value for name, value in body.items() if name != "model"}
    with pytest.raises(RidgelineError) as said, in_a_request():  # advises what a request can give
        ridgeline.estimate(body["model"], **keywords)
    error = refused(api, "estimate", **body)
    assert error["message"] == str(said.value) and error["code"] == said.value.code


def test_a_field_that_is_misspelled_is_named_with_its_neighbours(api):
    error = refused(api, "estimate", model=MODEL, bacth=4)
    assert error["message"] == "'bacth' is not a parameter: did you mean batch?"
    assert error["near"] == ["batch"] and error["code"] == "unknown_parameter"


#: Bodies that cannot be read, and ones that can be and are no question.
UNREADABLE = [b"{", b"\xff\xfe", b"[" * 10_000, b'{"batch": ' + b"9" * 5000 + b"}"]
BROKEN = [*UNREADABLE, b"", b"[]", b'{"model": 1e999}', b'{"model": "\\ud800"}']


@pytest.mark.parametrize("body", BROKEN, ids=lambda body: repr(body[:12]))
def test_what_is_no_body_is_refused_in_a_sentence(api, body):
    answer = api.post("/estimate", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == (400 if body in UNREADABLE else 422)
    assert answer.json()["error"]["message"]


def test_operators_of_a_load_are_refused_by_what_makes_it_one(api):
    given = {"model": MODEL, "operators": True}
    for load in ("concurrency", "rate"):
        said = refused(api, "estimate", **given, **{load: 2})["message"]
        assert said == f"operators are those of a static batch: leave out {load}"
    assert "numbers, not lists" in refused(api, "estimate", **given, batch=[1, 2])["message"]


def paths(tmp_path: Path) -> list[str]:
    config, system = tmp_path / "config.json", tmp_path / "own.yaml"
    config.write_text(json.dumps({"model_type": "llama"}))
    system.write_text("id: own\n")
    return [str(config), str(tmp_path), str(system), f"file://{config}", "~/config.json", ".", "/"]


def least(verb: str) -> dict[str, Any]:
    """What a question of a verb must give beside a model and a system."""
    if verb == "routing":
        return {"model": "mistralai/Mixtral-8x7B-v0.1", "statistics": [[1] * 8],
                "tp": 2, "ep": 2}  # fmt: skip
    return {} if verb != "fleet" and VERBS[verb].default_load else {"rate": 1}


def body_of(verb: str, question: dict[str, Any]) -> dict[str, Any]:
    """The body that asks a question, a fleet's with its only model and machine."""
    if verb != "fleet":
        return question
    of_model = {name: given for name, given in question.items() if name != "system"}
    machine = {"system": question.get("system", "h100"), "devices": 1}
    return {"machines": [machine], "models": [{"name": "only", **of_model}]}


@pytest.mark.by_day(3)
@pytest.mark.parametrize("verb", bodies.ASKED)
def test_no_text_of_a_body_opens_a_file(api, verb, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    load = least(verb)
    for path in paths(tmp_path):
        system = {"plan": "systems", "ops": "model"}.get(verb, "system")  # plan's older name
        for name in ("model", system):
            error = refused(api, verb, **body_of(verb, {"model": MODEL, **load, name: path}))
            assert error["code"] in ("unknown_model", "unknown_system"), error
    if verb not in ("sweep", "ops", "routing"):
        drafts = {"speculation": "draft_model", "draft_model": paths(tmp_path)[0]}
        drafts["acceptance"] = "0.7"
        body = body_of(verb, {"model": MODEL, **load, **drafts})
        answer = api.post(f"/{verb}", json=body)
        assert "unknown" in answer.text and answer.status_code in (200, 422)
    if verb in ("simulate", "plan"):
        error = refused(api, verb, model=MODEL, trace=paths(tmp_path)[0])
        assert "trace" in error["message"]
    (tmp_path / "axes.yaml").write_text(f"model: {MODEL}\nsystem: h100\nbatch: [1, 2]\n")
    body = body_of(verb, {**load, "model": "axes.yaml"})
    assert refused(api, verb, **body)["code"] == "unknown_model"


def test_more_rows_than_one_answer_holds_are_refused(api):
    error = refused(api, "estimate", model=MODEL, batch=[1] * (bodies.MOST_ROWS + 1))
    assert "1,000" in error["message"]
    axis = list(range(1, 1001))
    error = refused(api, "sweep", model=MODEL, batch=axis, isl=axis)
    assert "1,000,000 rows" in error["message"]


def test_intervals_of_another_length_than_the_loads_are_refused_as_in_python(api):
    given = {"concurrency": [1, 32, 256], "recv_interval": [1, 1]}
    with pytest.raises(RidgelineError) as said:
        ridgeline.serve(MODEL, **given)
    assert refused(api, "serve", model=MODEL, **given)["message"] == str(said.value)
    given["recv_interval"] = [1, 2, 4]
    assert len(asked(api, "serve", model=MODEL, **given)["rows"]) == 3


def test_a_fleet_is_refused_in_the_sentence_of_the_command_line(api):
    machines, models = [{"system": "h100", "cout": 2}], [{"model": MODEL, "rate": 1}]
    said = refused(api, "fleet", machines=machines, models=models)["message"]
    assert said.startswith("machine 'h100' of the fleet: 'cout' is not a key of a machine: did you")

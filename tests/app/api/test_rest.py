"""REST answers what the command line prints, to the digit, and refuses in its sentences."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
import ridgeline
from starlette.testclient import TestClient
from typer.testing import CliRunner

from app.api import bodies
from app.api.answers import Answers
from app.api.errors import Exhausted, in_a_request
from app.api.examples import EXAMPLES
from app.api.request_bounds import Bounds
from app.api.rest import application
from app.api.workers import Workers
from app.cli import cli
from app.question.verbs import VERBS
from genz_core.errors import RidgelineError
from tests.app.commands.test_cli import run
from tests.app.test_one_answer import SERVED, STATIC, named, options

ROOT = Path(__file__).parents[3]

SAMPLES = Path(__file__).parents[3] / "app" / "samples"
MODEL = "meta-llama/Llama-3.1-8B"


def asked(api: TestClient, verb: str, **body: Any) -> Any:
    answer = api.post(f"/{verb}", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def refused(api: TestClient, verb: str, **body: Any) -> dict[str, Any]:
    answer = api.post(f"/{verb}", json=body)
    assert answer.status_code == 422, answer.text
    return answer.json()["error"]


@pytest.mark.parametrize("scenario", STATIC, ids=named)
def test_a_static_batch_is_that_of_the_command_line(api, scenario):
    keywords = {name: value for name, value in scenario.items() if name != "model"}
    (row,) = asked(api, "estimate", **scenario, operators=True)["rows"]
    assert row == json.loads(run("estimate", scenario["model"], *options(keywords), "--json"))


@pytest.mark.parametrize("scenario", SERVED, ids=named)
def test_a_load_is_that_of_the_command_line(api, scenario):
    keywords = {k: v for k, v in scenario.items() if k not in ("model", "batch")}
    keywords["concurrency"] = scenario["batch"]
    rows = asked(api, "serve", model=scenario["model"], **keywords)["rows"]
    assert rows == json.loads(run("serve", scenario["model"], *options(keywords), "--json"))


def test_a_simulation_is_that_of_the_command_line(api):
    given = {"system": "h100", "engine": "vllm", "rate": 8, "requests": 60, "osl": 64, "seed": 3}
    answer = asked(api, "simulate", model=MODEL, **given)
    assert answer == json.loads(run("simulate", MODEL, *options(given), "--json"))


def test_a_trace_is_sent_as_text(api, tmp_path):
    text = "arrival_s,input_tokens,output_tokens\n0,500,20\n0.1,900,30\n0.15,100,10\n"
    path = tmp_path / "trace"
    path.write_text(text)
    answer = asked(api, "simulate", model=MODEL, trace=text)
    command = json.loads(run("simulate", MODEL, "--trace", str(path), "--json"))
    assert answer == command and answer["requests"] == 3


def test_a_sweep_is_that_of_the_command_line(api):
    given = {"system": "h100", "batch": [1, 8, 64], "isl": [128, 4096], "osl": [128],
             "tp": [1, 3], "pp": [1], "ep": [1]}  # fmt: skip
    words = {n: v if n == "system" else ",".join(map(str, v)) for n, v in given.items()}
    rows = asked(api, "sweep", model=MODEL, **given)["rows"]
    assert rows == json.loads(run("sweep", MODEL, *options(words), "--json"))


def test_a_sweep_over_names_is_that_of_python(api):
    axes = {"system": ["h100", "h200"], "concurrency": {"from": 1, "to": 16, "step": "x2"}}
    rows = asked(api, "sweep", model=MODEL, **axes)["rows"]
    found = ridgeline.sweep(MODEL, **axes).rows
    assert len(rows) == 10
    for ours, theirs in zip(rows, found, strict=True):
        assert ours == {k: None if v != v else v for k, v in theirs.items()}


def test_a_plan_is_that_of_the_command_line(api):
    given = {"system": "h100", "rate": 4, "target": "tpot < 20ms", "top": 2}
    answer = asked(api, "plan", model=MODEL, simulate=False, **given)
    command = json.loads(run("plan", MODEL, *options(given), "--no-simulate", "--json"))
    assert answer == command and answer["plans"]


@pytest.mark.parametrize("name", ["h100_qwen1.5-0.5b.json.gz", "sglang_llama-3.1-405b.jsonl"])
def test_an_imported_file_is_read_as_on_the_command_line(api, name):
    with (SAMPLES / name).open("rb") as file:
        answer = api.post("/import", files={"files": (name, file)})
    assert answer.json() == json.loads(run("import", str(SAMPLES / name), "--json"))


def test_reports_are_compared_as_on_the_command_line(api):
    name, model = "h100_qwen1.5-0.5b.json.gz", "Qwen/Qwen1.5-0.5B"
    with (SAMPLES / name).open("rb") as file:
        asked = json.dumps({"model": model})
        answer = api.post("/compare", files={"files": (name, file)}, data={"asked": asked})
    command = run("compare", str(SAMPLES / name), "--model", model, "--json")
    assert answer.json() == json.loads(command)


@pytest.mark.slow
def test_results_of_a_benchmark_are_compared_as_on_the_command_line(api):
    path = SAMPLES / "sglang_llama-3.1-405b.jsonl"
    given = {"model": "meta-llama/Llama-3.1-405B", "system": "h200", "tp": 8, "weights": "fp8"}
    files = {"files": (path.name, path.read_bytes())}
    answer = api.post("/compare", files=files, data={"asked": json.dumps(given)})
    command = run("compare", str(path), *options(given), "--json")
    assert answer.json() == json.loads(command)


def test_results_of_a_benchmark_are_judged_as_on_the_command_line(api, tmp_path):
    path = SAMPLES / "sglang_llama-3.1-405b.jsonl"
    given = {"model": "meta-llama/Llama-3.1-405B", "system": "h200", "tp": 8, "weights": "fp8"}
    files = [
        ("files", (path.name, path.read_bytes())),
        ("baseline", (path.name, path.read_bytes())),
    ]
    said = {"asked": json.dumps({**given, "level": 90, "tolerance": 3})}
    answer = api.post("/guard", files=files, data=said).json()
    words = [*options(given), "--level", "90", "--tolerance", "3", "--baseline", str(path)]
    command = json.loads(guarded("guard", str(path), *words, "--json"))
    assert answer == command and answer["verdicts"]
    answer = api.post("/guard", files=files[:1], data={"asked": json.dumps({"modle": "x"})})
    assert "did you mean model" in answer.json()["error"]["message"]


def guarded(*words: str) -> str:
    """The output of a command, for a result that passes (0) or fails (1)."""
    done = CliRunner().invoke(cli, list(words))
    assert done.exit_code in (0, 1), done.output
    return done.stdout


@pytest.mark.by_day(1)
@pytest.mark.parametrize(
    ("verb", "given"),
    [
        ("sensitivity", {"system": "h100", "batch": 16, "change": 20, "target": "tpot < 10ms"}),
        ("sensitivity", {"system": "h100", "concurrency": 16}),
        ("economics", {"system": "h100", "concurrency": 64, "price": 2.5, "capex": 30000}),
        ("scale", {"system": "h100", "rate": 4, "requests": 100, "policy": "keda"}),
        ("availability", {"system": "h100", "rate": 20, "requests": 100, "share": 90}),
    ],
)
def test_what_decides_is_that_of_the_command_line(api, verb, given):
    answer = asked(api, verb, model=MODEL, **given)
    own = ["--no-kept-runs"] if verb == "economics" else []
    assert answer == json.loads(run(verb, MODEL, *options(given), *own, "--json"))


def test_models_and_systems_are_those_of_the_command_line(api):
    assert api.get("/models", params={"find": "qwen3"}).json()["rows"] == json.loads(
        run("models", "--find", "qwen3", "--json")
    )
    assert api.get(f"/models/{MODEL}").json() == json.loads(run("models", MODEL, "--json"))
    assert api.get("/systems", params={"vendor": "amd"}).json()["rows"] == json.loads(
        run("systems", "--vendor", "amd", "--json")
    )
    assert api.get("/systems/h200").json() == json.loads(run("systems", "h200", "--json"))


def test_a_plan_is_answered_with_the_files_of_the_command_line(api, tmp_path):
    given = {"system": "h100", "engine": "vllm", "rate": 4, "pools": "aggregated"}
    body = {"simulate": False, "deployment": "kubernetes"}
    answer = asked(api, "plan", model=MODEL, **given, **body)
    words = [*options(given), "--no-simulate", "--deployment", "kubernetes"]
    run("plan", MODEL, *words, "--output", str(tmp_path))
    files = {file.name: file.read_text() for file in tmp_path.iterdir()}
    assert answer["deployment"]["files"] == files and answer["deployment"]["notes"]
    reason = refused(api, "plan", model=MODEL, rate=4, deployment="swarm")
    assert "kubernetes, helm, dynamo, llm-d" in reason["message"]
    none = asked(api, "plan", model=MODEL, **given, **body, target="tpot < 1us")
    assert none["deployment"] is None


# ------------------------------------------------------------------------------- names


def test_other_names_of_a_parameter_mean_the_same(api):
    own = {"max_num_seqs": 8, "shared_tokens": 100, "concurrency": 16}
    other = {"max_running_requests": 8, "shared_prompt": 100, "concurrency": 16}
    assert asked(api, "serve", model=MODEL, **own) == asked(api, "serve", model=MODEL, **other)
    said = refused(api, "serve", model=MODEL, concurrency=1, isl=5, input_len=5)["message"]
    assert said == "isl is given twice, once as input_len: give it once"


def test_numbers_may_be_typed(api):
    """As on the command line: "4Ki" tokens, and one batch a row."""
    typed = asked(api, "estimate", model=MODEL, isl="4Ki", batch="1,8,1e1")["rows"]
    assert typed == asked(api, "estimate", model=MODEL, isl=4096, batch=[1, 8, 10])["rows"]
    listed = asked(api, "estimate", model=MODEL, isl=4096, batch=["1", 8, "1e1"])["rows"]
    assert listed == typed
    said = refused(api, "estimate", model=MODEL, isl="4 thousand")["message"]
    assert said.startswith("isl = 4 thousand: give a whole number from 1 to 100,000,000")


def test_what_means_nothing_to_a_verb_or_a_load_is_refused_by_name(api):
    said = refused(api, "serve", model=MODEL, concurrency=4, cp=2)["message"]
    assert said == "cp does not apply to serve: leave it out"
    said = refused(api, "estimate", model=MODEL, batch=4, turns=3)["message"]
    assert said.startswith("turns does not apply to a static batch: give a concurrency or a rate")


@pytest.mark.by_day(3)
@pytest.mark.parametrize("verb", EXAMPLES)
def test_every_example_of_the_document_is_answered(api, verb):
    for body in EXAMPLES[verb].values():
        assert asked(api, verb, **body)


def test_the_document_describes_every_verb(api):
    document = api.get("/openapi.json").json()
    assert document["openapi"].startswith("3.")
    verbs = {*bodies.ASKED, *bodies.WITH_FILES, "import"}
    assert {f"/{verb}" for verb in verbs} | {"/models", "/systems"} <= set(document["paths"])
    assert verbs >= set(VERBS) - {"calibrate", "predictor"}
    for verb in EXAMPLES:
        question = document["paths"][f"/{verb}"]["post"]["requestBody"]["content"]
        assert question["application/json"]["examples"]


def test_the_page_of_the_documentation_lists_every_address(api):
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"`(?:GET |POST )?(/[a-zA-Z/.]+)`", page))
    addresses = set(api.get("/openapi.json").json()["paths"])
    assert addresses == {re.sub("NAME", "{name}", address) for address in listed} - {
        "/openapi.json"
    }


# ------------------------------------------------------------------------------- refusals

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


BROKEN = [
    b"", b"[]", b"{", b'{"model": 1e999}', b"\xff\xfe", b"[" * 10_000,
    b'{"batch": ' + b"9" * 5000 + b"}", b'{"model": "\\ud800"}',
]  # fmt: skip


@pytest.mark.parametrize("body", BROKEN, ids=lambda body: repr(body[:12]))
def test_what_is_no_body_is_refused_in_a_sentence(api, body):
    answer = api.post("/estimate", content=body, headers={"content-type": "application/json"})
    assert 400 <= answer.status_code < 500
    assert answer.json()["error"]["message"]


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
        assert "can start" in error["message"] and "ask for less" not in error["message"]
        workers.memory_bytes = 4 << 30
        assert len(client.post("/sweep", json=body).json()["rows"]) == 2


@pytest.mark.slow
def test_work_that_ends_its_process_is_not_said_to_be_too_slow():
    with pytest.raises(Exhausted, match="ended before it was complete"):
        Workers(1).call(os._exit, 3)
    with pytest.raises(Exhausted, match="more memory than 1 GiB"):
        Workers(1, memory_bytes=1 << 30).call(bytes, 2 << 30)


def test_more_rows_than_one_answer_holds_are_refused(api):
    error = refused(api, "estimate", model=MODEL, batch=[1] * (bodies.MOST_ROWS + 1))
    assert "1,000" in error["message"]
    axis = list(range(1, 1001))
    error = refused(api, "sweep", model=MODEL, batch=axis, isl=axis)
    assert "1,000,000 rows" in error["message"]


def test_metrics_count_requests_refusals_and_kept_answers(api):
    body = {"model": MODEL, "batch": 77}
    asked(api, "estimate", **body)
    asked(api, "estimate", **body)
    refused(api, "estimate", model="nobody/nothing")
    text = api.get("/metrics").text
    assert 'ridgeline_requests_total{status="200",verb="estimate"}' in text
    assert 'ridgeline_kept_answers_total{verb="estimate"}' in text
    assert 'ridgeline_refusals_total{code="unknown_model"}' in text


def test_intervals_of_another_length_than_the_loads_are_refused_as_in_python(api):
    given = {"concurrency": [1, 32, 256], "recv_interval": [1, 1]}
    with pytest.raises(RidgelineError) as said:
        ridgeline.serve(MODEL, **given)
    assert refused(api, "serve", model=MODEL, **given)["message"] == str(said.value)
    given["recv_interval"] = [1, 2, 4]
    assert len(asked(api, "serve", model=MODEL, **given)["rows"]) == 3


def test_a_fleet_is_that_of_the_python_module(api):
    body = EXAMPLES["fleet"]["two models on four machines"]
    assert asked(api, "fleet", **body)["models"] == ridgeline.fleet(body).models


def test_a_fleet_is_refused_in_the_sentence_of_the_command_line(api):
    machines, models = [{"system": "h100", "cout": 2}], [{"model": MODEL, "rate": 1}]
    said = refused(api, "fleet", machines=machines, models=models)["message"]
    assert said.startswith("machine 'h100' of the fleet: 'cout' is not a key of a machine: did you")


def test_operators_of_a_report_are_grouped_by_shape_as_on_the_command_line(api):
    name = "h100_qwen1.5-0.5b.json.gz"
    with (SAMPLES / name).open("rb") as file:
        answer = api.post("/import", files={"files": (name, file)}, data={"by_shape": "true"})
    assert answer.json() == json.loads(run("import", str(SAMPLES / name), "--by-shape", "--json"))


def test_formulas_and_schemas_are_those_of_python_and_the_command_line(api):
    name = "torch.nn.modules.activation.SiLU"
    shown = json.loads(run("modules", "show", "SiLU", "--json"))
    assert api.get(f"/modules/{name}").json() == ridgeline.module("SiLU") == shown
    assert api.get("/modules").json() == {"modules": ridgeline.modules()}
    unknown = api.get("/modules/NoSuchClass")
    assert unknown.status_code == 422 and unknown.json()["error"]["code"] == "unknown_name"
    for each in ridgeline.schema():
        assert api.get(f"/schemas/{each}").json() == ridgeline.schema(each)

"""REST answers what the command line prints, to the digit."""

from __future__ import annotations

import json

import pytest
import ridgeline

from app.api.examples import EXAMPLES
from tests.app.api.asking import MODEL, asked, refused
from tests.app.commands.test_cli import run
from tests.app.test_one_answer import SERVED, STATIC, named, options, printed


@pytest.mark.parametrize("scenario", STATIC, ids=named)
def test_a_static_batch_is_that_of_the_command_line(api, scenario):
    (row,) = asked(api, "estimate", **scenario, operators=True)["rows"]
    assert row == printed("estimate", scenario)


@pytest.mark.parametrize("scenario", SERVED, ids=named)
def test_a_load_is_that_of_the_command_line(api, scenario):
    assert asked(api, "serve", **scenario)["rows"] == printed("serve", scenario)


def test_a_simulation_is_that_of_the_command_line(api):
    given = {"system": "h100", "engine": "vllm", "rate": 8, "requests": 60, "osl": 64, "seed": 3}
    answer = asked(api, "simulate", model=MODEL, **given)
    assert answer == printed("simulate", {"model": MODEL, **given})


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
    assert rows == printed("sweep", {"model": MODEL, **words})


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
def test_deciding_verbs_answer_as_on_the_command_line(api, verb, given):
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
    assert said.startswith("isl = '4 thousand': give a whole number from 1 to 100,000,000")


def test_a_fleet_is_that_of_the_python_module(api):
    body = EXAMPLES["fleet"]["two models on four machines"]
    assert asked(api, "fleet", **body)["models"] == ridgeline.fleet(body).models


def test_formulas_and_schemas_are_those_of_python_and_the_command_line(api):
    name = "torch.nn.modules.activation.SiLU"
    shown = json.loads(run("modules", "show", "SiLU", "--json"))
    assert api.get(f"/modules/{name}").json() == ridgeline.module("SiLU") == shown
    assert api.get("/modules").json() == {"modules": ridgeline.modules()}
    unknown = api.get("/modules/NoSuchClass")
    assert unknown.status_code == 422 and unknown.json()["error"]["code"] == "unknown_name"
    for each in ridgeline.schema():
        assert api.get(f"/schemas/{each}").json() == ridgeline.schema(each)

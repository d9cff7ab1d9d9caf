"""Every document of every shipped model is valid by the JSON schemas, and damaged ones are not."""

import json

import pytest
from jsonschema import Draft202012Validator
from starlette.testclient import TestClient

import model_registry
from app.api.answers import Answers
from app.api.rest import application
from genz_core.errors import RidgelineError, UnknownName
from model_registry.reports import counted_step, step_documents
from model_registry.reports.schemas import names, schema
from tests.app.commands.test_chain import chained
from tests.app.commands.test_cli import run
from tests.rules import for_every

VALIDATORS = {name: Draft202012Validator(schema(name)) for name in names()}
ONE = counted_step.StepQuery([1024], [1], 4)


def plain(document: object) -> object:
    """The document as JSON, which has no tuples."""
    return json.loads(json.dumps(document))


def wrong(name: str, document: object) -> str:
    found = next(VALIDATORS[name].iter_errors(plain(document)), None)
    return f"{found.json_path}: {found.message[:200]}" if found else ""


@pytest.mark.slow
@for_every(model_registry.names)
def test_arch_and_ops_of_every_model_that_ships_fit_their_schema(name: str):
    data = step_documents.arch_document(name)
    assert not wrong("arch", data), wrong("arch", data)
    try:
        counted = counted_step.count(data, ONE).to_dict()
    except RidgelineError:  # a model that generates no tokens has no such step
        return
    assert not wrong("ops", counted), wrong("ops", counted)


@pytest.mark.by_day(1)
@pytest.mark.parametrize(
    "model", ["Qwen/Qwen3-8B", "openai/gpt-oss-20b", "deepseek-ai/DeepSeek-V3"]
)
def test_every_step_of_a_model_fits_its_schema(model: str):
    documents = chained(model, "--cached-tokens", "64", price=("--system", "h200"))
    for name, document in zip(names(), documents, strict=True):
        Draft202012Validator.check_schema(schema(name))
        assert not wrong(name, document), wrong(name, document)


def test_what_a_reader_would_refuse_does_not_fit():
    arch = step_documents.arch_document("gpt2")
    assert wrong("arch", {**arch, "schema": "ridgeline/ops/1"})
    assert wrong("arch", {**arch, "layer_count": "12"})
    assert wrong("arch", {**arch, "colour": "red"})
    assert wrong("arch", {key: value for key, value in arch.items() if key != "config"})
    counted = counted_step.count(arch, ONE).to_dict()
    damaged = {**counted["operators"][0], "flops": -1.0}
    assert wrong("ops", {**counted, "operators": [damaged]})


def test_schemas_are_at_every_door():
    assert run("schema").split() == names()
    assert json.loads(run("schema", "ops")) == schema("ops")
    with TestClient(application(answers=Answers())) as api:
        assert api.get("/schemas").json() == {"schemas": names()}
        assert api.get("/schemas/arch").json() == schema("arch")
        assert "arch" in api.get("/schemas/arhc").json()["error"]["message"]
    with pytest.raises(UnknownName, match="arch"):
        schema("arhc")

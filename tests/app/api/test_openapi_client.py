"""Clients generated from the OpenAPI document work against a real server process.

Half of the scenarios are tested here, the others over MCP in test_mcp_http.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest
from aiopenapi3 import OpenAPI

from tests.app.api.services import service
from tests.app.commands.test_cli import run
from tests.app.test_one_answer import SERVED, STATIC, named, printed

MODEL = "meta-llama/Llama-3.1-8B"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory):
    with service(tmp_path_factory.mktemp("api"), "api") as url:
        yield url


@pytest.fixture(scope="module")
def client(address: str) -> OpenAPI:
    """A client of aiopenapi3, which builds models and calls from the document and validates both
    ways.
    """

    def patient(*given: Any, **named: Any) -> httpx2.Client:
        return httpx2.Client(*given, **{**named, "timeout": 60.0})

    patient.__annotations__["return"] = httpx2.Client  # read by the library
    return OpenAPI.load_sync(f"{address}/openapi.json", session_factory=patient)


def asked(client: OpenAPI, verb: str, **given: Any) -> Any:
    call = getattr(client._, verb)
    call.data.get_type().model_validate(given)
    _, _, answer = call.request(data=given)
    return answer.json()


@pytest.mark.by_day(1)
@pytest.mark.parametrize("scenario", STATIC[::2], ids=named)
def test_a_static_batch_is_that_of_the_command_line(client, scenario):
    (row,) = asked(client, "estimate", **scenario, operators=True)["rows"]
    assert row == printed("estimate", scenario)


@pytest.mark.parametrize("scenario", SERVED[::2], ids=named)
def test_a_load_is_that_of_the_command_line(client, scenario):
    assert asked(client, "serve", **scenario)["rows"] == printed("serve", scenario)


def test_a_document_of_lists_and_objects_is_read(client):
    """A client would refuse lists where the schema says `additionalProperties: true`."""
    document = asked(
        client, "plan", model=MODEL, system="h100", rate=4, devices="1:2", simulate=False
    )
    assert isinstance(document["plans"], list) and isinstance(document["plans"][0], dict)


def test_names_are_looked_up(client):
    _, _, answer = client._.models.request(parameters={"find": "Qwen3-3"})
    command = json.loads(run("models", "--json"))
    assert answer.json()["rows"] == [row for row in command if "Qwen3-3" in row["name"]]
    assert client._.health().status == "ok"


@pytest.mark.slow
def test_a_generated_client_asks_and_is_answered(address, tmp_path, monkeypatch):
    """openapi-python-client, where it is installed in an environment of its own."""
    generator = shutil.which("openapi-python-client")
    if generator is None:
        pytest.skip("openapi-python-client is not on the path")
    document = tmp_path / "openapi.json"
    document.write_text(httpx2.get(f"{address}/openapi.json").text)
    made = [generator, "generate", "--path", str(document), "--meta", "none"]
    subprocess.run([*made, "--output-path", str(tmp_path / "made")], check=True)
    generated = _imported(tmp_path / "made")
    body = generated.models.EstimateBody(**STATIC[0])
    client = generated.Client(base_url=address, timeout=60.0)
    (row,) = sys.modules["made.api.default.estimate"].sync(client=client, body=body).rows
    command = printed("estimate", STATIC[0])
    assert row.to_dict() == {name: command[name] for name in row.to_dict()}


def _imported(folder: Path) -> Any:
    """The generated package, with the modules that the test needs."""
    found = importlib.util.spec_from_file_location(folder.name, folder / "__init__.py")
    assert found and found.loader
    package = sys.modules[folder.name] = importlib.util.module_from_spec(found)
    package.__path__ = [str(folder)]
    found.loader.exec_module(package)
    importlib.import_module(f"{folder.name}.models")
    importlib.import_module(f"{folder.name}.api.default.estimate")
    return package

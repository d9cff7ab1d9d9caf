"""Where files may be named: paths, addresses and texts become sources, all else is a name."""

import json
from pathlib import Path

import pytest
import ridgeline

from app.question.query import ask
from app.scenario.local_files import model_source, sources, system_source
from app.scenario.scenario import resolve
from genz_core.errors import UnknownModel, UnknownName
from model_registry.finding.hub import HubModel
from tests.model_registry.tracing_cases import tiny

LLAMA = tiny("llama")
BOARD = "include: h100-sxm5-80gb\nid: my-card\nname: My card\n"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a config.json and a system's YAML."""
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    (tmp_path / "card.yaml").write_text(BOARD)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_what_is_typed_is_a_path_an_address_a_text_or_a_name(here: Path) -> None:
    assert model_source("config.json") == Path("config.json") and model_source(".") == Path()
    assert model_source("./none") == Path("none") and model_source("none.json") == Path("none.json")
    assert model_source("hf:someone/tiny") == HubModel("someone/tiny")
    assert model_source(json.dumps(LLAMA)) == LLAMA
    for name in (
        "gpt2",
        "meta-llama/Llama-3.1-8B",
        "~nobody-has-this-home/x",
        "a\x00b",
        "x" * 9999,
    ):
        assert model_source(name) == name
    assert system_source("card.yaml") == Path("card.yaml") and system_source("h100") == "h100"
    assert model_source(LLAMA) is LLAMA


def test_a_file_is_priced_for_who_may_name_it_and_nobody_else(here: Path) -> None:
    given = {"model": "config.json", "system": "card.yaml", "isl": 16, "osl": 4}
    asked = ask("estimate", given, sources)
    assert resolve(asked.question, asked.objects).system.slug == "my-card"
    with pytest.raises(UnknownName):
        resolve(ask("estimate", given).question)


def test_the_python_module_takes_files(here: Path) -> None:
    parameters = ridgeline.model(LLAMA).parameters
    for source in ("config.json", Path("config.json"), str(here), json.dumps(LLAMA)):
        assert ridgeline.model(source).parameters == parameters
    assert ridgeline.system("card.yaml").slug == ridgeline.system(here / "card.yaml").slug
    assert ridgeline.estimate("config.json", system="card.yaml", isl=16, osl=4).status == "ok"


def test_a_path_without_a_file_is_refused_as_an_unknown_file() -> None:
    with pytest.raises(UnknownModel, match="unknown model file '/nowhere"):
        ridgeline.model("/nowhere/config.json")

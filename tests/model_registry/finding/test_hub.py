"""A hub address is fetched, or read from the cache without network; other names never are."""

import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import model_registry
from genz_core.errors import InvalidValue, UnknownModel
from model_registry.finding import hub
from model_registry.finding.hub import HubModel, hub_model
from model_registry.finding.sources import cached_config, hub_config
from tests.model_registry.finding.conftest import CONFIG


@pytest.mark.parametrize(
    "address",
    ["hf:someone/tiny", "https://huggingface.co/someone/tiny", "hf.co/someone/tiny/tree/main"],
)
def test_an_address_names_its_model(address: str) -> None:
    assert hub_model(address) == HubModel("someone/tiny")


@pytest.mark.parametrize("name", ["someone/tiny", "meta-llama/Llama-3.1-8B", "config.json", ""])
def test_a_plain_name_is_no_address(name: str) -> None:
    assert hub_model(name) is None


@pytest.mark.parametrize(
    "address",
    [
        "hf:tiny",
        "hf:a/../b",
        "hf:a/b/c/d",
        "hf: / ",
        "hf:/tmp/x",
        "hf:./a",
        "hf:~/a",
        "hf:a/b--c",
        "hf:a/.b",
        "hf:a/b.",
        "hf:a/b.git",
        "hf:a\\b/c",
        f"hf:a/{'b' * 97}",
    ],
)
def test_a_malformed_address_is_refused(address: str) -> None:
    with pytest.raises(InvalidValue, match="hf:owner/name"):
        hub_model(address)


def test_a_cached_model_loads_without_a_network(offline_cache: Path) -> None:
    model = model_registry.load(HubModel("someone/tiny"))
    assert model.name == "someone/tiny" and model.parameters > 0


def test_the_quantisation_map_comes_with_it(offline_cache: Path) -> None:
    quant = {"quantization": {"quant_algo": "FP8"}}
    (offline_cache / "hf_quant_config.json").write_text(json.dumps(quant))
    assert model_registry.load(HubModel("someone/tiny")).precision.weight("mlp.up") == "fp8"


def test_what_is_not_cached_says_what_to_do_instead(offline_cache: Path) -> None:
    with pytest.raises(UnknownModel, match="paste it instead"):
        model_registry.load(HubModel("someone/else"))


def test_an_address_that_is_given_as_a_name_is_not_asked_for(offline_cache: Path) -> None:
    with pytest.raises(
        UnknownModel, match="someone/tiny is on the hub, which is not contacted for a plain name"
    ):
        model_registry.load("hf:someone/tiny")


def test_the_cache_is_read_without_asking_and_says_what_it_lacks(offline_cache: Path) -> None:
    quant = {"quantization": {"quant_algo": "FP8"}}
    (offline_cache / "hf_quant_config.json").write_text(json.dumps(quant))
    config = cached_config("someone/tiny")
    assert config == {**CONFIG, "hf_quant_config": quant, "_id": "someone/tiny"}
    assert config == hub_config("someone/tiny")
    assert model_registry.load(config).name == "someone/tiny"
    assert cached_config("someone/else") is None


@pytest.fixture
def silent_hub(offline_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """The listening socket of a hub that accepts connections and never answers."""
    constants = pytest.importorskip("huggingface_hub.constants")
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(10)
        address = f"http://127.0.0.1:{server.getsockname()[1]}"
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(constants, "ENDPOINT", address)
        template = address + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr(hub, "TIMEOUT_S", 0.5)
        yield server


def test_a_hub_that_never_answers_is_a_sentence_in_time(silent_hub: socket.socket) -> None:
    start = time.monotonic()
    with pytest.raises(UnknownModel, match=r"did not answer within 0\.5 seconds; paste"):
        model_registry.load(HubModel("someone/else"))
    assert time.monotonic() - start < 3
    connection, _ = silent_hub.accept()  # it was contacted, and the call waited
    connection.close()


def test_what_the_cache_holds_is_not_waited_for(
    silent_hub: socket.socket, offline_cache: Path
) -> None:
    """Only the quantisation map is unknown, and loading works without it."""
    start = time.monotonic()
    assert model_registry.load(HubModel("someone/tiny")).parameters > 0
    assert time.monotonic() - start < 3


def test_the_hub_has_five_seconds() -> None:
    assert hub.TIMEOUT_S == 5.0

"""A hub address is fetched, from the cache when there is no network; other names never are."""

import json
from pathlib import Path

import pytest

import model_registry
from genz_core.errors import InvalidValue, UnknownModel
from model_registry.finding.hub import HubModel, hub_model

CONFIG = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "vocab_size": 1000,
}


@pytest.fixture
def offline_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A hub cache as huggingface_hub lays it out, holding one model; no network is used."""
    constants = pytest.importorskip("huggingface_hub.constants")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    revision = "0" * 40
    model = tmp_path / "models--someone--tiny"
    snapshot = model / "snapshots" / revision
    snapshot.mkdir(parents=True)
    (model / "refs").mkdir()
    (model / "refs" / "main").write_text(revision)
    (snapshot / "config.json").write_text(json.dumps(CONFIG))
    return snapshot


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
    with pytest.raises(UnknownModel, match="someone/tiny is on the hub, which a name does not ask"):
        model_registry.load("hf:someone/tiny")
